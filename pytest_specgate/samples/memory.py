"""Peaks of the memory pass as scalars; what was not measured is absent, never 0."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_specgate.records import Arm, MemoryReading

#: Where a peak is looked for, best first. A ratio takes both arms from one source: NVML counts the CUDA context and
#: the allocator does not.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "vram": ("max_process_vram", "max_reserved"),
    "host_memory": ("host_rss",),
}


def scalars(memory: Mapping[Arm, MemoryReading]) -> dict[str, float]:
    """``vram``, ``vram_ratio``, ``host_memory`` and ``host_memory_ratio`` as far as the arms tell them."""
    found: dict[str, float] = {}
    candidate, reference = memory.get(Arm.CANDIDATE), memory.get(Arm.REFERENCE)
    for name, sources in SOURCES.items():
        source = next((s for s in sources if _peak(candidate, s)), None)
        if source is not None:
            found[name] = float(_peak(candidate, source))
        shared = next((s for s in sources if _peak(candidate, s) and _peak(reference, s)), None)
        if shared is not None:
            found[f"{name}_ratio"] = _peak(candidate, shared) / _peak(reference, shared)
    return found | _capacity(candidate, reference)


def _capacity(candidate: MemoryReading | None, reference: MemoryReading | None) -> dict[str, float]:
    """``max_batch``, and its ratio where both arms can run one request at least."""
    found = [reading.capacity.max_batch if reading and reading.capacity else None for reading in (candidate, reference)]
    if found[0] is None:
        return {}
    ratio = {"max_batch_ratio": found[0] / found[1]} if found[1] else {}
    return {"max_batch": float(found[0]), **ratio}


def _peak(reading: MemoryReading | None, source: str) -> int:
    """Bytes, or 0 where nothing was measured: no process runs in no memory."""
    return int(getattr(reading, source, None) or 0)
