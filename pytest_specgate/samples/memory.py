"""Peaks of the memory pass as scalars; what was not measured is absent, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from pytest_specgate.records import Arm, MemoryReading

#: Where a peak is looked for, best first. A ratio takes both arms from one source: NVML counts the CUDA context and
#: the allocator does not.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "vram": ("max_process_vram", "max_reserved"),
    "host_memory": ("host_rss",),
}

USAGE = "kv_cache_usage"


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
    return found | _capacity(candidate, reference) | _occupancy(candidate)


def unscored(memory: Mapping[Arm, MemoryReading]) -> dict[str, str]:
    """Metric → why the candidate arm's reading has none of it, where that is known; a ratio needs both arms."""
    arms = [memory[arm] for arm in (Arm.REFERENCE, Arm.CANDIDATE) if arm in memory]
    found: dict[str, str] = {}
    for name in (*SOURCES, "max_batch"):
        whys = [reading.untold[name] for reading in arms if name in reading.untold]
        found |= {f"{name}_ratio": whys[-1]} if whys else {}
        found |= {name: arms[-1].untold[name]} if arms and name in arms[-1].untold else {}
    if arms and USAGE in arms[-1].untold:
        found |= dict.fromkeys((USAGE, f"{USAGE}_p95", f"{USAGE}_max"), arms[-1].untold[USAGE])
    return found


def _occupancy(candidate: MemoryReading | None) -> dict[str, float]:
    """Mean, 95th percentile and peak of the share of a server's pool that was taken."""
    from pytest_specgate.stats.quantiles import of_sorted

    seen = sorted(candidate.served.kv_cache_usage) if candidate and candidate.served else []
    if not seen:
        return {}
    return {USAGE: fmean(seen), f"{USAGE}_p95": of_sorted(seen, 0.95), f"{USAGE}_max": seen[-1]}


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
