"""Write a file whole or not at all: a kill at any moment leaves the old content or the new one.

A scratch file in the same folder is locked while its writer lives, so that the next writer can tell leftovers
of the dead (removed) from the work of others (left alone). A symbolic link at the path is replaced, never
followed. Of two writers at once the last one wins as a whole; merging is the caller's business.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from pytest_specgate.errors import StoreError

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(path: Path, text: str) -> None:
    """Replace the file's content with the text as UTF-8. Raises StoreError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        with _scratch(path) as (scratch, descriptor):
            _write_all(descriptor, text.encode("utf-8"))
            os.fsync(descriptor)
            scratch.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}) — choose a writable place") from error
    except UnicodeEncodeError as error:
        what = f"{path}: holds half a surrogate pair at character {error.start}"
        raise StoreError(f"{what} — store only what UTF-8 can carry") from error


@contextlib.contextmanager
def _scratch(path: Path) -> Iterator[tuple[Path, int]]:
    """Make a file beside the target, locked while it is open, and gone afterwards unless it was renamed."""
    scratch, descriptor = _locked(path)
    try:
        yield scratch, descriptor
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _locked(path: Path) -> tuple[Path, int]:
    while True:
        scratch = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}.tmp")
        descriptor = os.open(scratch, _NEW, 0o666)  # the umask decides who may read it, as for any other file
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return scratch, descriptor
        os.close(descriptor)  # another writer took it for a leftover before the lock was there


def _prefix(path: Path) -> str:
    return f".{path.name}."


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _remove_leftovers(path: Path) -> None:
    for entry in path.parent.iterdir():
        if entry.name.startswith(_prefix(path)) and entry.name.endswith(".tmp"):
            with contextlib.suppress(OSError):  # a link, another user's, or gone meanwhile
                _remove_if_dead(entry)


def _remove_if_dead(scratch: Path) -> None:
    descriptor = os.open(scratch, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its writer lives
        if os.fstat(descriptor).st_ino == scratch.lstat().st_ino:
            scratch.unlink()
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    # Not every filesystem lets a folder be opened; the rename itself is atomic anyway.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def could_be_written(path: Path) -> bool:
    """Whether a file can stand there, folders made where they lack: a full disk shows later."""
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    return not path.is_dir() and nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
