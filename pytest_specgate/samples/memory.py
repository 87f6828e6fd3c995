"""Peaks of the memory pass as scalars; what was not measured is absent, never 0."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_specgate.records import Arm, MemoryReading


def scalars(memory: Mapping[Arm, MemoryReading]) -> dict[str, float]:
    """``vram``, ``vram_ratio``, ``host_memory`` and ``host_memory_ratio`` as far as both arms tell them."""
    found: dict[str, float] = {}
    reference, candidate = memory.get(Arm.REFERENCE), memory.get(Arm.CANDIDATE)
    for name, peak in (("vram", device_peak), ("host_memory", host_peak)):
        bytes_reference, bytes_candidate = peak(reference), peak(candidate)
        if bytes_candidate:
            found[name] = float(bytes_candidate)
            if bytes_reference:
                found[f"{name}_ratio"] = bytes_candidate / bytes_reference
    return found


def device_peak(reading: MemoryReading | None) -> int | None:
    """NVML's peak of the process, else what the allocator reserved."""
    if reading is None:
        return None
    return reading.max_process_vram or reading.max_reserved


def host_peak(reading: MemoryReading | None) -> int | None:
    """Peak resident memory on the host."""
    return reading.host_rss if reading else None
