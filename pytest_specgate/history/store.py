"""The file of a history: ``DIR/runs.jsonl``, one JSON object a line, appended to by any number of jobs at once.

A line is one write to a file opened for appending, under a lock that all writers take. A writer that was killed leaves
a torn line at worst: the next one starts a line of its own, and readers leave the torn one out and name it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specgate import jsontext
from pytest_specgate.codec import CodecError, decode, encode
from pytest_specgate.errors import StoreError
from pytest_specgate.history.record import SCHEMA, RunLine
from pytest_specgate.masking import masker

NAME = "runs.jsonl"
_ASK = "give a folder that --specgate-history wrote to"


@dataclass(frozen=True, slots=True)
class History:
    """The runs of a folder in the order in which they ended, and a sentence for each line that is none."""

    path: Path
    runs: tuple[RunLine, ...]
    problems: tuple[str, ...] = ()


def append(folder: Path, run: RunLine) -> Path:
    """Add a run, on the disk when this returns; the file it stands in. Raises StoreError."""
    path = folder / NAME
    try:
        line = jsontext.dump(encode(run, masker(os.environ))).encode("utf-8") + b"\n"
    except ValueError as error:
        raise StoreError(f"{path}: the run cannot be stored ({error})") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}) — choose a writable folder") from error
    return path


def _write(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line  # a writer was killed in the middle of its line
    if os.write(descriptor, line) != len(line):
        os.ftruncate(descriptor, size)
        raise OSError(0, "the line was cut short; is the disk full?")
    os.fsync(descriptor)


def read(folder: Path) -> History:
    """Every run of the folder. Raises StoreError where there is none, or one of a newer schema."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}) — {_ASK}") from error
    problems: list[str] = []
    runs = list(_runs(path, data, problems))
    if not runs:
        found = f" ({problems[0]})" if problems else ""
        raise StoreError(f"{path}: holds no run{found} — {_ASK}")
    return History(path, tuple(sorted(runs, key=lambda run: run.created)), tuple(problems))


def _runs(path: Path, data: bytes, problems: list[str]) -> Iterator[RunLine]:
    lines = data.split(b"\n")
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        where = f"{path}:{number}"
        try:
            yield _run(where, raw.decode("utf-8"))
        except (jsontext.JsonError, UnicodeDecodeError):
            torn = "is cut off" if number == len(lines) else "is no whole line"
            problems.append(f"{where}: {torn}, and was left out — remove it, or run that commit again")
        except CodecError as error:
            problems.append(f"{where}: {error}, and was left out — remove the line")


def _run(where: str, text: str) -> RunLine:
    data: Any = jsontext.parse(text)
    version = data.get("schema") if isinstance(data, dict) else None
    if type(version) is not int:
        raise CodecError((), "is no run: it has no 'schema' number")
    if version > SCHEMA:
        what = f"history schema {version} is newer than {SCHEMA}, which this version reads"
        raise StoreError(f"{where}: {what} — update pytest-specgate")
    return decode(RunLine, data)
