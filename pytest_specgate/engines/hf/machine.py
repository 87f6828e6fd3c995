"""Where models run: the device that was asked for, its dtype, and what the machine is called."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Place


def device_for(context: EngineContext) -> str:
    """Return the device that was asked for, checked to be there.

    ``auto`` is CUDA where there is one, else the CPU; Apple's GPU is never chosen unasked.
    """
    import torch

    asked = context.device or context.spec.device
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = asked.partition(":")
    here = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if kind not in here or (index and not index.isdigit()):
        raise EngineError(context.name, f"unknown device {asked!r}", "use auto, cpu, cuda, cuda:N or mps")
    if int(index or 0) >= here[kind]:
        usable = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in here.items() if count)
        raise EngineError(context.name, f"device {asked!r} is not on this machine", f"use one of those: {usable}")
    return asked if kind == "cuda" else kind  # of the others there is one, which rules know by its kind


def dtype_for(context: EngineContext, device: str) -> Any:
    """Return the target's dtype.

    ``auto`` is bfloat16 on CUDA and float32 elsewhere: on a CPU right software differs from itself in
    bfloat16.
    """
    import torch

    name = context.spec.dtype
    if name == "auto":
        name = "bfloat16" if device.startswith("cuda") else "float32"
    return getattr(torch, name)


def draft_dtype_for(context: EngineContext, target: Any) -> Any:
    """Return the draft's dtype: the target's, unless the candidate names one and permits that."""
    import torch

    candidate = context.spec.candidate
    if candidate is None or candidate.dtype is None:
        return target
    chosen = getattr(torch, candidate.dtype, None)
    if not isinstance(chosen, torch.dtype) or not chosen.is_floating_point:
        hint = "use float32, bfloat16, float16 or float64"
        raise EngineError(context.name, f"unknown dtype {candidate.dtype!r} of the draft", hint)
    return chosen


def place_of(device: str, dtype: str) -> Place:
    """Return the GPU's or the processor's name, how many of it (cores of a processor), and the dtype."""
    import torch

    if device.startswith("cuda"):
        return Place(torch.cuda.get_device_name(device), 1, dtype)
    if device == "mps":
        return Place(f"{cpu_model()} GPU", 1, dtype)
    return Place(cpu_model(), cpu_cores(), dtype)


def cpu_model() -> str:
    """Return the processor's name where the system tells it, else its architecture."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cpu_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def driver_version() -> str | None:
    """Return the version of NVIDIA's driver as NVML tells it; None where that cannot be told."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            version = pynvml.nvmlSystemGetDriverVersion()
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # noqa: BLE001 - an optional library about an optional device; every failure means "cannot be told"
        return None
    # Releases of the library before 11.5 answer in bytes.
    return version.decode("ascii", "replace") if isinstance(version, bytes) else str(version)


def process_vram(device: str) -> int | None:
    """Return the device memory that this process holds by NVML's account; None where that cannot be told.

    NVML numbers devices without regard to CUDA_VISIBLE_DEVICES, so the device is found by its UUID.
    """
    try:
        import pynvml
        import torch

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except Exception:  # noqa: BLE001 - an optional library about an optional device; every failure means "cannot be told"
        return None
    used = [p.usedGpuMemory for p in processes if p.pid == os.getpid()]
    return int(used[0]) if used and used[0] is not None else None
