"""Checks and their sentences, in one place for all families: what was found, what was asked, and what would decide."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_specgate.gates.decision import Evidence, decide
from pytest_specgate.metrics import Unit
from pytest_specgate.records import Check, Interval, Outcome
from pytest_specgate.stats.limits import CannotTell
from pytest_specgate.stats.samplesize import amount_to_decide
from pytest_specgate.suite.cases import Gate
from pytest_specgate.units import Allowance, Limit, format_value

_WORDS = {"max_drop": "drop", "max_rise": "rise"}
#: More than this many times the data of this run is no advice but a statement about the noise.
_PRACTICABLE = 32


@dataclass(frozen=True, slots=True)
class Amount:
    """How much data a check had, in what a user can add: ``Amount(2, "rounds")``.

    With less than ``least`` of it a limit cannot be given at all.
    """

    have: int
    unit: str
    least: int = 0


def demands(gate: Gate) -> list[tuple[str, Allowance]]:
    """The drift checks that the gate asks for.

    ``max_drop`` bounds how far the value falls and ``max_rise`` how far it rises, literally, also for metrics of which
    less is better.
    """
    asked = (("max_drop", gate.spec.max_drop), ("max_rise", gate.spec.max_rise))
    return [(kind, allowance) for kind, allowance in asked if allowance is not None]


def limit_checks(gate: Gate, evidence: Evidence | CannotTell, amount: Amount) -> tuple[Check, ...]:
    """The check of the gate's absolute demand; none if it has no limit."""
    limit = gate.spec.limit
    if limit is None:
        return ()
    if isinstance(evidence, CannotTell):
        return (undecided("limit", limit.text, _cannot_tell(gate, evidence), evidence.needed),)
    outcome = decide(evidence, limit.low, limit.high)
    shown = evidence.passing if outcome is Outcome.PASS else evidence.failing
    said = f"{_name(gate)} {with_interval(shown, gate.spec.info.unit)}"
    sentence = {
        Outcome.PASS: f"{said} keeps the limit {limit.text}",
        Outcome.FAIL: f"{said} is {_side(evidence, limit)} the limit {limit.text}",
        Outcome.INCONCLUSIVE: f"{said} straddles the limit {limit.text}",
    }[outcome]
    needed = ""
    if outcome is Outcome.INCONCLUSIVE:
        needed = _what_decides(evidence, (limit.low, limit.high), abs(shown.value), amount)
        sentence += f"; {needed}"
    return (Check("limit", limit.text, outcome, sentence, finite(evidence.failing), needed),)


def drift_checks(gate: Gate, change: Evidence | CannotTell, stored: float, amount: Amount) -> tuple[Check, ...]:
    """The checks of a change ``now − stored`` in the metric's unit; none if the gate asks for none."""
    if isinstance(change, CannotTell):
        return all_undecided(gate, _cannot_tell(gate, change), change.needed, drift_only=True)
    return tuple(_drift_check(gate, change, (stored, kind, allowance), amount) for kind, allowance in demands(gate))


def _drift_check(gate: Gate, change: Evidence, demand: tuple[float, str, Allowance], amount: Amount) -> Check:
    stored, kind, allowance = demand
    allowed = allowance.of(stored)
    bounds = (-allowed, None) if kind == "max_drop" else (None, allowed)
    outcome = decide(change, *bounds)
    said = f"{_name(gate)} {_compared(gate.spec.info.unit, change, stored)}"
    sentence = f"{said} (allowed {_WORDS[kind]}: {allowance.text})"
    needed = ""
    if outcome is Outcome.INCONCLUSIVE:
        needed = _what_decides(change, bounds, abs(stored), amount)
        sentence += f", too uncertain to judge; {needed}"
    return Check(kind, allowance.text, outcome, sentence, finite(change.failing), needed)


def all_undecided(gate: Gate, reason: str, needed: str = "", *, drift_only: bool = False) -> tuple[Check, ...]:
    """Every demand of the gate, undecided for one reason."""
    asked = [(kind, allowance.text) for kind, allowance in demands(gate)]
    if gate.spec.limit is not None and not drift_only:
        asked.insert(0, ("limit", gate.spec.limit.text))
    return tuple(undecided(kind, text, reason, needed) for kind, text in asked)


def undecided(kind: str, required: str, reason: str, needed: str = "") -> Check:
    """A check that this run cannot decide; ``needed`` is the data that would, where more data would."""
    return Check(kind, required, Outcome.INCONCLUSIVE, reason, needed=needed)


def finite(interval: Interval) -> Interval | None:
    """The interval if both its limits are known, for reports hold no infinities."""
    return interval if math.isfinite(interval.low) and math.isfinite(interval.high) else None


def with_interval(interval: Interval, unit: Unit) -> str:
    """``1.180x [1.150x, 1.210x]``, the bare value where it is exact, ``?`` for a limit that the data cannot give."""
    value = format_value(interval.value, unit)
    if interval.low == interval.high:
        return value
    low, high = (format_value(x, unit) if math.isfinite(x) else "?" for x in (interval.low, interval.high))
    return f"{value} [{low}, {high}]"


def _name(gate: Gate) -> str:
    return gate.spec.label.replace("_", " ").replace(".", " ")


def _cannot_tell(gate: Gate, answer: CannotTell) -> str:
    return f"{_name(gate)}: {answer.reason}; needed: {answer.needed}"


def _side(evidence: Evidence, limit: Limit) -> str:
    return "below" if limit.low is not None and evidence.failing.value < limit.low else "above"


def _compared(unit: Unit, change: Evidence, stored: float) -> str:
    """``31.2% is 6.1 points below the stored 37.3%``; limits of the distance follow it where it has some."""
    found = change.failing
    now, before = format_value(stored + found.value, unit), format_value(stored, unit)
    if change.exact and found.value == 0:
        return f"{now} equals the stored {before}"
    falling = found.value < 0
    ends = (-found.value, -found.high, -found.low) if falling else (found.value, found.low, found.high)
    distance, low, high = (_distance(end, stored, unit) for end in ends)
    span = "" if change.exact else f" [{low}, {high}]"
    return f"{now} is {distance}{span} {'below' if falling else 'above'} the stored {before}"


def _distance(change: float, stored: float, unit: Unit) -> str:
    if not math.isfinite(change):
        return "?"
    if unit is Unit.FRACTION:
        return f"{change * 100:.1f} points"
    if unit is Unit.SLOPE:
        return f"{change * 100:.2f} points"
    if unit is Unit.SCORE:
        return f"{change:.2f} points"
    if unit is Unit.TOKENS:
        return f"{change:.2f} tokens"
    return f"{change / stored:.1%}" if stored else format_value(change, unit)


def _what_decides(evidence: Evidence, bounds: tuple[float | None, float | None], scale: float, amount: Amount) -> str:
    """How much more data would part estimate and bound, or what this noise cannot resolve."""
    value = evidence.failing.value
    gap, inside, below = min(
        (abs(value - bound), (value >= bound) == is_low, is_low)
        for bound, is_low in ((bounds[0], True), (bounds[1], False))
        if bound is not None
    )
    # Inside the bounds the passing interval has to clear them, outside the failing one; either on the facing side.
    facing = evidence.passing if inside else evidence.failing
    half = value - facing.low if below == inside else facing.high - value
    needed = amount_to_decide(amount.have, half, gap)
    if needed is not None and needed <= _PRACTICABLE * amount.have:
        return f"about {needed} {amount.unit} would decide (this run had {amount.have})"
    if not math.isfinite(half):
        return f"at least {max(amount.least, amount.have + 1)} {amount.unit} are needed (this run had {amount.have})"
    least = f"{half / scale:.1%}" if scale else f"{half:.3g}"
    return f"with this noise {amount.have} {amount.unit} resolve no difference below {least}"
