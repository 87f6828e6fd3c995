"""A stand-in for ``pynvml``: it answers by the library's own names and raises its error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

MIB = 2**20


class _Failure(Exception):
    """NVML's error."""


@dataclass
class Library:
    """NVML with some devices; what a name in ``unsupported`` asks for, the device does not tell.

    ``held`` says what processes hold on a device, in place of ``memory``; ``parts`` are those of a divided device, with
    None for numbers that name none.
    """

    uuids: tuple[str, ...] = ("GPU-a", "GPU-b")
    unsupported: frozenset[str] = frozenset()
    open: int = 0
    reasons: int = 0x04
    memory: Mapping[int, int | None] = field(default_factory=lambda: {41: 5 * MIB})
    held: Callable[[str], Mapping[int, int | None] | None] = lambda _: None
    parts: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    NVML_CLOCK_SM: int = 1
    NVMLError: type[Exception] = _Failure

    def _refuse(self, name: str) -> None:
        if name in self.unsupported:
            raise _Failure("Not Supported")

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name, as are those below
        self._refuse("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._refuse("nvmlDeviceGetCount")
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self.uuids:
            raise _Failure("Not Found")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return handle

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:  # noqa: N802
        self._refuse("nvmlDeviceGetCurrentClocksEventReasons")
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:  # noqa: N802
        self._refuse("nvmlDeviceGetCurrentClocksThrottleReasons")
        return self.reasons | 0x100

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        self._refuse("nvmlDeviceGetClockInfo")
        assert kind == self.NVML_CLOCK_SM
        return 1900

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        self._refuse("nvmlDeviceGetMemoryInfo")
        return SimpleNamespace(used=9 * MIB)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        self._refuse("nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=87, memory=40)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        self._refuse("nvmlDeviceGetPowerUsage")
        return 412_500

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:  # noqa: N802
        self._refuse("nvmlDeviceGetComputeRunningProcesses")
        held = self.held(handle)
        listed = self.memory if held is None else held
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in listed.items()]

    def nvmlDeviceGetName(self, handle: str) -> str:  # noqa: N802
        return self.names.get(handle, "NVIDIA H200")

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:  # noqa: N802
        return (1, 1) if handle in self.parts else (0, 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:  # noqa: N802
        return len(self.parts[handle])

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
        if (part := self.parts[handle][index]) is None:
            raise _Failure("Not Found")
        return part


def torch_with(**uuids: str) -> SimpleNamespace:
    """What of torch is asked; an unknown device is its AssertionError."""

    def properties(device: str) -> SimpleNamespace:
        assert device in uuids, "Invalid device id"
        return SimpleNamespace(uuid=uuids[device])

    return SimpleNamespace(
        cuda=SimpleNamespace(get_device_properties=properties, memory_reserved=lambda device: 3 * MIB)
    )


def install(monkeypatch: pytest.MonkeyPatch, library: Library | None, torch: object = None) -> None:
    """Let both be what ``import`` and ``sys.modules`` give; None is what is not there."""
    monkeypatch.setitem(sys.modules, "pynvml", library)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
