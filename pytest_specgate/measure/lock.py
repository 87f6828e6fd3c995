"""Two timed cases never share a device, the CPU being one; the lock holds across all processes of one user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from pytest_specgate.engines.store import cache_folder


@contextmanager
def alone_on(device: str, who: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Have the device to ourselves, after any run that has it; ``who`` is then told to wait."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{device.replace(':', '-')}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"{who}: waiting for another run to leave the device")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
