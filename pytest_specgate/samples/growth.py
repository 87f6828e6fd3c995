"""A soak as bytes per request from block to block; the first blocks, in which caches and allocators fill, left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pytest_specgate.records import Arm, MemoryReading

#: One block in so many is for settling, those at the beginning.
SETTLING = 4


def steps(memory: Mapping[Arm, MemoryReading]) -> dict[str, tuple[float, ...]]:
    """``host_memory_slope``, ``vram_slope`` and ``kv_cache_slope`` of the candidate arm, as far as they were read."""
    reading = memory.get(Arm.CANDIDATE)
    if reading is None or reading.soak is None:
        return {}
    soak = reading.soak
    read = {"host_memory_slope": soak.host, "vram_slope": soak.vram, "kv_cache_slope": soak.cache}
    found = {name: _steps(held, soak.requests) for name, held in read.items()}
    return {name: values for name, values in found.items() if values}


def _steps(held: Sequence[int], requests: int) -> tuple[float, ...]:
    settled = held[len(held) // SETTLING :]
    return tuple((after - before) / requests for before, after in pairwise(settled))
