"""Two timed cases never share a device, the CPU being one; the lock holds across all processes of one user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_specgate.engines.base import SERVER_DEVICE
from pytest_specgate.engines.store import cache_folder
from pytest_specgate.errors import StoreError

#: Between two words that a run waits.
PATIENCE_SECONDS = 2.0


@contextmanager
def alone_on(device: str, who: str, tell: Callable[[str], None], more: Iterable[str] = ()) -> Iterator[None]:
    """Have the device to ourselves, and ``more`` of them, after any run that has one.

    ``who`` is then told again and again that it waits.

    ``cuda`` and ``cuda:0`` are one device. Servers have the hosts that they run on, and this machine's CPU is one of
    them. Raises StoreError where the cache folder cannot be written.
    """
    with ExitStack() as held:
        # Always in the same order, so that no two runs wait for each other.
        for name in sorted({name for one in (device, *more) for name in _names(one)}):
            held.enter_context(_held(FileLock(_folder() / f"{name}.lock"), who, tell))
        yield


@contextmanager
def _held(lock: FileLock, who: str, tell: Callable[[str], None]) -> Iterator[None]:
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


def _names(device: str) -> list[str]:
    """What is locked."""
    if device.startswith(SERVER_DEVICE):
        from pytest_specgate.engines.serving.members import is_here

        hosts = device.removeprefix(SERVER_DEVICE).split("+")
        return ["cpu" if is_here(host) else f"host-{_plain(host)}" for host in hosts]
    kind, _, index = device.partition(":")
    return [f"{kind}-{index or 0}" if kind == "cuda" else kind]


def _plain(host: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in host)


def _folder() -> Path:
    folder = cache_folder() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{folder}: cannot be made ({error.strerror})"
        raise StoreError(f"{what} — set SPECGATE_CACHE to a folder of yours") from error
    return folder
