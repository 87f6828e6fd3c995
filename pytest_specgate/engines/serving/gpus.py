"""What every NVIDIA GPU of this machine holds, by process, as NVML tells it (``nvidia-ml-py``, optional).

A GPU that is divided (MIG) is looked at part by part, for a look at the whole would count its processes twice. Numbers
of processes are NVML's own: in a container they may be the host's. Nothing here knows whose processes they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Board:
    """One GPU, or one part of a divided one: ``index`` is the whole GPU's, in the order of the bus.

    ``used`` are the bytes in use by anybody; ``held`` maps processes to theirs, None where NVML does not tell them.
    """

    uuid: str
    index: int
    name: str
    used: int | None
    held: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class Unseen:
    """Why no GPU can be looked at, and what to do, as the halves of a message."""

    what: str
    hint: str


NOT_INSTALLED = Unseen("nvidia-ml-py is not installed", "pip install 'pytest-specgate[nvidia]'")
_NO_DRIVER = "use host_memory on a machine without an NVIDIA GPU"


class Gpus:
    """All GPUs, to be looked at until closed. Made by :func:`open_gpus`."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._parts = list(_parts(nvml))

    def look(self) -> tuple[Board, ...]:
        """Every GPU now; one that does not tell its processes has none. About a millisecond each. Never raises."""
        return tuple(self._board(index, handle) for index, handle in self._parts)

    def close(self) -> None:
        """Let go of the library."""
        self._nvml.nvmlShutdown()

    def _board(self, index: int, handle: Any) -> Board:
        memory = _ask(self._nvml, "nvmlDeviceGetMemoryInfo", handle)
        listed = _ask(self._nvml, "nvmlDeviceGetComputeRunningProcesses", handle) or ()
        held: dict[int, int | None] = {}
        for process in listed:  # a process may have several contexts
            told, before = process.usedGpuMemory, held.get(int(process.pid), 0)
            held[int(process.pid)] = None if told is None or before is None else before + int(told)
        uuid, name = (_text(_ask(self._nvml, f"nvmlDeviceGet{what}", handle)) for what in ("UUID", "Name"))
        return Board(uuid, index, name, None if memory is None else int(memory.used), held)


def open_gpus() -> Gpus | Unseen:
    """All GPUs of this machine, or why there are none to look at."""
    try:
        import pynvml
    except ImportError:
        return NOT_INSTALLED
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Unseen(f"NVML does not start ({error})", _NO_DRIVER)
    try:
        return Gpus(pynvml)
    except (pynvml.NVMLError, AttributeError) as error:
        pynvml.nvmlShutdown()
        return Unseen(f"NVML does not list the GPUs ({error})", _NO_DRIVER)


def look_once() -> tuple[Board, ...]:
    """All GPUs now; none where they cannot be looked at."""
    gpus = open_gpus()
    if isinstance(gpus, Unseen):
        return ()
    try:
        return gpus.look()
    finally:
        gpus.close()


def _parts(nvml: Any) -> Iterator[tuple[int, Any]]:
    """(index of the GPU, handle) of every whole GPU, and of every part of one that is divided."""
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        mode = _ask(nvml, "nvmlDeviceGetMigMode", handle)  # (now, after the next start)
        parts = list(_divided(nvml, handle)) if mode and mode[0] else []
        for part in parts or [handle]:
            yield index, part


def _divided(nvml: Any, handle: Any) -> Iterator[Any]:
    for number in range(_ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if part is not None:  # numbers have gaps
            yield part


def _ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """The answer, or None where this library or device has none."""
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def _text(value: object) -> str:
    """Releases of the library before 11.5 answer in bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value or "")
