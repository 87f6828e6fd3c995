"""Write a file whole or not at all: a kill at any moment leaves the old content or the new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from pytest_specgate.errors import StoreError


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's content. Raises StoreError where the folder cannot be written.

    The text goes to a scratch file in the same folder, is flushed to the disk, and renamed over the target; then the
    folder's own entry is flushed. Scratch files of writers that were killed are removed on the way.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{path.name}.*.tmp"):
            leftover.unlink(missing_ok=True)
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(scratch, 0o644)  # noqa: S103, PTH101 - mkstemp makes it private; results are meant to be read
            os.replace(scratch, path)  # noqa: PTH105 - atomic on one filesystem
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}) — choose a writable place") from error


def _flush_folder(folder: Path) -> None:
    # Not every filesystem lets a folder be opened; the rename itself is atomic anyway.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
