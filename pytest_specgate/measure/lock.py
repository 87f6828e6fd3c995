"""Two timed cases never share a device, the CPU being one; the lock holds across all processes of one user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_specgate.engines.store import cache_folder
from pytest_specgate.errors import StoreError

#: Between two words that a run waits.
PATIENCE_SECONDS = 2.0


@contextmanager
def alone_on(device: str, who: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Have the device to ourselves, after any run that has it; ``who`` is then told again and again that it waits.

    ``cuda`` and ``cuda:0`` are one device. Raises StoreError where the cache folder cannot be written.
    """
    lock = FileLock(_file(device))
    waited = 0.0
    while not lock.is_locked:
        try:
            lock.acquire(timeout=waited)
        except Timeout:  # noqa: PERF203 - asking again is what the loop is for
            tell(f"{who}: waiting for another run to leave the device")
            waited = PATIENCE_SECONDS
    try:
        yield
    finally:
        lock.release()


def _file(device: str) -> Path:
    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{folder}: cannot be made ({error.strerror})"
        raise StoreError(f"{what} — set SPECGATE_CACHE to a folder of yours") from error
    kind, _, index = device.partition(":")
    return folder / (f"{kind}-{index or 0}.lock" if kind == "cuda" else f"{kind}.lock")
