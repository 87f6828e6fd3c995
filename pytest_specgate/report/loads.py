"""Throughput by how many requests run at once, and where the draft's cost turns the speed-up around.

Two sources: the cases of one scenario at several concurrencies, measured in rounds and so with intervals; and the
search for capacity, which runs every concurrency that it tries once, each arm in a process of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Arm, MemoryReading
from pytest_specgate.report import numbers
from pytest_specgate.report.numbers import UNMEASURED, Estimate, text
from pytest_specgate.report.outline import CaseView
from pytest_specgate.samples.occupancy import OCCUPANCY
from pytest_specgate.units import format_value


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens per second of both arms with so many requests at once, and candidate ÷ reference; None: not measured.

    ``filled`` is how full the rounds of both arms were, where a loop tells.
    """

    concurrency: int
    reference: Estimate | None
    candidate: Estimate | None
    ratio: Estimate | None
    filled: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True, slots=True)
class Turn:
    """The candidate arm gives more tokens at ``below`` requests at once and fewer at ``above``.

    ``at`` is where the two lines between those points cross, concurrency on a logarithmic scale.
    """

    below: int
    above: int
    at: float


@dataclass(frozen=True, slots=True)
class Room:
    """The search for capacity: what each arm gave, and how many requests fit in it (None: not searched).

    ``open_ended`` arms would have taken more than was tried; ``refusing`` ones turned more away.
    """

    loads: tuple[Load, ...]
    reference: int | None
    candidate: int | None
    open_ended: frozenset[Arm]
    refusing: frozenset[Arm] = frozenset()


def by_concurrency(views: Sequence[CaseView]) -> tuple[Load, ...]:
    """One entry per case of a scenario that was measured, by concurrency; nothing where there is one alone."""
    found = []
    for view in views:
        if view.series is None or view.samples is None:
            continue
        reference, candidate = (numbers.median(view.samples, f"{prefix}throughput") for prefix in ("reference_", ""))
        ratio = numbers.change(view.samples, "throughput")
        scalars = view.samples.scalars
        filled = scalars.get(f"reference_{OCCUPANCY}"), scalars.get(OCCUPANCY)
        found.append(Load(view.series[1], reference, candidate, ratio, filled))
    measured = sorted(found, key=lambda load: load.concurrency)
    return tuple(measured) if len(measured) > 1 else ()


def searched(memory: Mapping[Arm, MemoryReading]) -> Room | None:
    """What the search found; None where there was none."""
    found = {arm: reading.capacity for arm, reading in memory.items() if reading.capacity is not None}
    if not found:
        return None
    rates = {arm: {one.concurrency: one.tokens_per_second for one in c.rates} for arm, c in found.items()}
    loads = []
    for concurrency in sorted({number for by_number in rates.values() for number in by_number}):
        one, other = (rates.get(arm, {}).get(concurrency) for arm in (Arm.REFERENCE, Arm.CANDIDATE))
        ratio = Estimate(other / one) if one and other else None
        loads.append(Load(concurrency, _plain(one), _plain(other), ratio))
    most = {arm: capacity.max_batch for arm, capacity in found.items()}
    open_ended = frozenset(arm for arm, capacity in found.items() if not capacity.exhausted)
    refusing = frozenset(arm for arm, capacity in found.items() if capacity.refused)
    return Room(tuple(loads), most.get(Arm.REFERENCE), most.get(Arm.CANDIDATE), open_ended, refusing)


def turn(loads: Sequence[Load]) -> Turn | None:
    """The first step on which the candidate arm falls behind and stays there; None where it never gained, or lost."""
    known = [(load.concurrency, load.ratio.value) for load in loads if load.ratio is not None]
    for place, ((below, more), (above, less)) in enumerate(pairwise(known)):
        if more >= 1 > less and all(value < 1 for _, value in known[place + 1 :]):
            share = math.log(more) / (math.log(more) - math.log(less)) if less > 0 else 0.0
            return Turn(below, above, below * (above / below) ** share)
    return None


def told(loads: Sequence[Load]) -> str:
    """In a sentence, where the speed-up turns around; empty where nothing can be compared."""
    known = [load for load in loads if load.ratio is not None]
    if len(known) < 2:
        return ""
    ends = f"{known[0].concurrency} and {known[-1].concurrency} requests at once"
    if (found := turn(loads)) is not None:
        where = f"between {found.below} and {found.above} requests at once (the lines cross near {found.at:.3g})"
        return f"the draft's cost turns the speed-up around {where}"
    ratios = [load.ratio.value for load in known if load.ratio is not None]
    if all(value >= 1 for value in ratios):
        return f"the candidate arm gives no fewer tokens per second anywhere between {ends}"
    if all(value < 1 for value in ratios):
        return f"the candidate arm gives fewer tokens per second everywhere between {ends}"
    return f"the arms change places more than once between {ends}: no one point turns the speed-up around"


def room_told(room: Room) -> str:
    """How many requests fit with and without the draft."""
    said = []
    for number, arm, name in ((room.candidate, Arm.CANDIDATE, "with"), (room.reference, Arm.REFERENCE, "without")):
        if number is not None:
            more = " or more (the search ended there)" if arm in room.open_ended else ""
            more = more or (" (more were turned away: 429 or 503)" if arm in room.refusing else "")
            said.append(f"{number}{more} {name} the draft")
    return f"requests that fit at once (max_batch): {', '.join(said)}"


def cells(one: Load) -> tuple[str, ...]:
    """The cells of one concurrency."""
    rates = (text(rate, Unit.RATE) for rate in (one.reference, one.candidate))
    filled = " / ".join(UNMEASURED if share is None else format_value(share, Unit.FRACTION) for share in one.filled)
    told = filled if set(one.filled) != {None} else UNMEASURED
    return (str(one.concurrency), *rates, text(one.ratio, Unit.RATIO), told)


def _plain(rate: float | None) -> Estimate | None:
    return None if rate is None else Estimate(rate)
