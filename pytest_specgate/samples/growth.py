"""A soak as bytes per request from block to block, and as acceptance that wears off; the first blocks left out.

In those caches and allocators fill, and drafts that look things up have seen little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pytest_specgate.records import Arm, MemoryReading

#: One block in so many is for settling, those at the beginning.
SETTLING = 4


def steps(memory: Mapping[Arm, MemoryReading]) -> dict[str, tuple[float, ...]]:
    """``host_memory_slope``, ``vram_slope``, ``kv_cache_slope`` and ``acceptance_wear`` of the candidate arm.

    As far as they were read.
    """
    reading = memory.get(Arm.CANDIDATE)
    if reading is None or reading.soak is None:
        return {}
    soak = reading.soak
    read = {"host_memory_slope": soak.host, "vram_slope": soak.vram, "kv_cache_slope": soak.cache}
    found = {name: _steps(held, soak.requests) for name, held in read.items()}
    found["acceptance_wear"] = _wear(soak.drafted, soak.accepted)
    return {name: values for name, values in found.items() if values}


def _steps(held: Sequence[int], requests: int) -> tuple[float, ...]:
    settled = held[len(held) // SETTLING :]
    return tuple((after - before) / requests for before, after in pairwise(settled))


def _wear(drafted: Sequence[int], accepted: Sequence[int]) -> tuple[float, ...]:
    """Changes of the share that is kept, per doubling of the requests before: an early block with a late one each.

    The first settled block goes with the last, the second with the last but one: independent of each other, as limits
    want them.
    """
    first = len(drafted) // SETTLING
    rates = [(number, kept / of) for number, (of, kept) in enumerate(zip(drafted, accepted), start=1) if of]
    settled = [one for one in rates if one[0] > first]
    half = len(settled) // 2
    return tuple(
        (late - early) / math.log2(after / before)
        for (before, early), (after, late) in zip(settled[:half], reversed(settled[-half:]))
    )
