"""An NVIDIA GPU through NVML (``nvidia-ml-py``, optional): clocks, processes, memory, how busy it is, what it draws.

NVML numbers devices without regard to CUDA_VISIBLE_DEVICES, so torch's device is found by its UUID. What NVML does not
tell on a device is None in a sample; that there is no NVML at all is told once, on opening.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_specgate.measure.readings import GpuSample, Unknown

INSTALL = Unknown("cannot be told: install nvidia-ml-py")


class GpuReader:
    """One device, to be sampled until it is closed. Build it with :func:`open_gpu`."""

    def __init__(self, nvml: Any, handle: Any, device: str) -> None:
        self._nvml, self._handle, self._device = nvml, handle, device

    @property
    def uuid(self) -> str:
        """NVML's name of the device."""
        return str(self._nvml.nvmlDeviceGetUUID(self._handle))

    def sample(self) -> GpuSample:
        """Look once; costs about a millisecond. Never raises."""
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        rates, milliwatts = self._ask("nvmlDeviceGetUtilizationRates"), self._ask("nvmlDeviceGetPowerUsage")
        return GpuSample(
            counter_ns=time.perf_counter_ns(),
            # The second is what older drivers call the first.
            reasons=self._ask("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
            sm_mhz=self._ask("nvmlDeviceGetClockInfo", arguments=(self._nvml.NVML_CLOCK_SM,)),
            used=None if memory is None else int(memory.used),
            memory=_processes(self._ask("nvmlDeviceGetComputeRunningProcesses")),
            reserved=_reserved(self._device),
            utilization=None if rates is None else rates.gpu / 100,
            watts=None if milliwatts is None else milliwatts / 1000,
        )

    def close(self) -> None:
        """Let go of the library."""
        self._nvml.nvmlShutdown()

    def _ask(self, *names: str, arguments: tuple[Any, ...] = ()) -> Any:
        """The answer of the first function that this library, driver and device have, or None."""
        for name in names:
            function: Callable[..., Any] | None = getattr(self._nvml, name, None)
            if function is not None:
                try:
                    return function(self._handle, *arguments)
                except self._nvml.NVMLError:
                    continue
        return None


def open_gpu(device: str) -> GpuReader | Unknown:
    """A reader for torch's device (``cuda``, ``cuda:1``), or why there is none."""
    try:
        import pynvml
    except ImportError:
        return INSTALL
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Unknown(f"cannot be told: NVML does not start ({error})")
    try:
        return GpuReader(pynvml, _handle(pynvml, device), device)
    except (pynvml.NVMLError, LookupError, RuntimeError, AssertionError, AttributeError) as error:
        pynvml.nvmlShutdown()
        return Unknown(f"cannot be told: NVML does not find {device} ({error})")


def processes_by_gpu() -> Mapping[str, frozenset[int]]:
    """The processes that compute on each GPU now, in NVML's numbers, by UUID; empty without NVML.

    Taken before an engine starts, it tells what is ours later on: in a container our own number is not NVML's.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - an optional library about an optional device; every failure means "cannot be told"
        return {}
    try:
        readers = [
            GpuReader(pynvml, pynvml.nvmlDeviceGetHandleByIndex(n), "") for n in range(pynvml.nvmlDeviceGetCount())
        ]
        return {reader.uuid: frozenset(reader.sample().memory or {}) for reader in readers}
    except pynvml.NVMLError:
        return {}
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: Any, device: str) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    if (count := nvml.nvmlDeviceGetCount()) != 1:
        raise LookupError(f"which of {count} GPUs it is, torch alone would know")
    return nvml.nvmlDeviceGetHandleByIndex(0)


def _processes(listed: Any) -> Mapping[int, int | None] | None:
    return None if listed is None else {int(process.pid): process.usedGpuMemory for process in listed}


def _reserved(device: str) -> int:
    torch = sys.modules.get("torch")
    return int(torch.cuda.memory_reserved(device)) if device and torch is not None else 0
