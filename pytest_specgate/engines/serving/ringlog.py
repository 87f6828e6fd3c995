"""A server's log that cannot fill the disk; part of :mod:`keeper`, so of the standard library alone."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

MASK = b"********"
#: Lines, and bytes of a line, that are kept in memory for whoever asks why the server failed.
TAIL_LINES, TAIL_WIDTH = 40, 400
#: A line is written when it ends, or when it is this long.
LONGEST_LINE = 1 << 16


def files_of(path: Path) -> tuple[Path, Path]:
    """The files of a log that is kept at ``path``, the older one first; either may be missing."""
    return path.with_name(path.name + ".1"), path


class RingLog:
    """A log of at most ``limit`` bytes in two files: the newest part, and ``.1`` with what came before it.

    Texts of ``hide`` are replaced line by line. A disk that is full loses lines and nothing else: the last ones are in
    memory, as ``tail``.
    """

    def __init__(self, path: Path, limit: int, hide: Sequence[str] = ()) -> None:
        self.tail: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._path, self._half = path, max(limit // 2, 1)
        self._hide = [text.encode() for text in hide if text]
        self._written, self._open_line = 0, b""
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> None:
        """Take what the server said; an unfinished line waits for its end."""
        *whole, self._open_line = (self._open_line + data).split(b"\n")
        if len(self._open_line) > LONGEST_LINE:
            whole, self._open_line = [*whole, self._open_line], b""
        for line in whole:
            self._line(line)
        if self._file is not None:
            _safely(self._file.flush)

    def close(self) -> None:
        """Write what is left; may be called twice."""
        if self._open_line:
            self.write(b"\n")
        if self._file is not None:
            _safely(self._file.close)
            self._file = None

    def remove(self) -> None:
        """Leave nothing on the disk: both files, and their folder if it holds nothing else."""
        _safely(self._path.unlink)
        _safely(self._older.unlink)
        _safely(self._path.parent.rmdir)

    @property
    def _older(self) -> Path:
        return files_of(self._path)[0]

    def _line(self, line: bytes) -> None:
        for secret in self._hide:
            line = line.replace(secret, MASK)
        # Of a progress bar that was drawn over and over, the last state.
        if shown := line.rstrip().rpartition(b"\r")[2]:
            self.tail.append(shown[:TAIL_WIDTH])
        _safely(lambda: self._keep(line[: self._half - 1] + b"\n"))

    def _keep(self, line: bytes) -> None:
        if self._file is not None and self._written + len(line) > self._half:
            self._file.close()
            self._file = None
            self._path.replace(self._older)
        if self._file is None:
            self._file, self._written = self._path.open("wb"), 0
        self._written += self._file.write(line)


def _safely(write: Callable[[], object]) -> None:
    with contextlib.suppress(OSError, ValueError):  # a full disk, or a file that a failed flush left closed
        write()
