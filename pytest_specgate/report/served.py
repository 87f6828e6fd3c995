"""What engines told of themselves, for every form alike: servers' memory, how full it was, what of prompts was cached.

And how full the rounds were, where a loop tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Arm, MemoryReading, Samples, Served
from pytest_specgate.samples.latency import PREFIXES
from pytest_specgate.samples.occupancy import OCCUPANCY
from pytest_specgate.samples.serving import HIT_RATE, PREEMPTIONS

if TYPE_CHECKING:
    from pytest_specgate.report.outline import CaseView

#: (quantity, unit, its value) of what a server told in its memory pass.
_TOLD: Sequence[tuple[str, Unit, Callable[[Served], float | None]]] = (
    ("weights, as the server says", Unit.BYTES, lambda told: told.weights),
    ("cache pool, as the server says", Unit.BYTES, lambda told: told.kv_cache),
    ("cache pool, in tokens", Unit.TOKENS, lambda told: told.kv_cache_tokens),
    ("cache pool taken, fullest", Unit.FRACTION, lambda told: max(told.kv_cache_usage, default=None)),
    ("most requests seen waiting", Unit.REQUESTS, lambda told: told.waiting),
)
#: (quantity, unit, scalar) of the timed rounds.
_COUNTED = (
    ("prompt tokens cached already", Unit.FRACTION, HIT_RATE),
    ("requests put back", Unit.REQUESTS, PREEMPTIONS),
    ("rounds filled (occupancy)", Unit.FRACTION, OCCUPANCY),
)


def quantities(
    samples: Samples, memory: Mapping[Arm, MemoryReading]
) -> Iterator[tuple[str, Unit, tuple[float | None, float | None]]]:
    """(label, unit, (reference, candidate)) of what either arm's server or loop told; nothing where none did."""
    served = [reading.served if (reading := memory.get(arm)) else None for arm in Arm]
    for label, unit, of in _TOLD:
        found = [None if told is None else of(told) for told in served]
        if found != [None, None]:
            yield label, unit, (found[0], found[1])
    for label, unit, name in _COUNTED:
        found = [samples.scalars.get(PREFIXES[arm] + name) for arm in Arm]
        if found != [None, None]:
            yield label, unit, (found[0], found[1])


def room_for_requests(views: Sequence[CaseView]) -> Iterator[str]:
    """For every scenario that ran at several concurrencies, up to how many the candidate arm's server put none back."""
    series: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for view in views:
        if view.series is not None and view.samples is not None and PREEMPTIONS in view.samples.scalars:
            name, concurrency = view.series
            found = series.setdefault((view.suite, view.engine, name), [])
            found.append((concurrency, view.samples.scalars[PREEMPTIONS]))
    for (_, engine, name), found in series.items():
        if len(found) > 1:
            yield f"{engine}::{name}: {_said(sorted(found))}"


def _said(found: Sequence[tuple[int, float]]) -> str:
    full = [concurrency for concurrency, back in found if back]
    if not full:
        return f"no request was put back for want of cache, at {found[-1][0]} at once neither"
    free = [concurrency for concurrency, _ in found if concurrency < full[0]]
    first = f"requests were put back for want of cache at {full[0]} at once"
    return f"none up to {free[-1]}, {first}" if free else first
