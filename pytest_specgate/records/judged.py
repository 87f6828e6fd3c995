"""What a gate says, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """What a gate says: kept, broken, cannot tell, could not measure."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence limits in the metric's own unit; equal limits mean that it is exact."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the data: rounds seen, what the check said then, and what it compared, if it had limits."""

    rounds: int
    outcome: Outcome
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One question that a gate asked: ``limit``, ``max_drop`` or ``max_rise``, and its answer.

    ``interval`` is what was compared: the metric itself for a limit, the change (ratio now ÷ stored, or difference in
    the metric's unit) for a drift check. ``required`` is the limit in words. ``needed`` says how much more data would
    decide, and is empty where none would. ``looks`` are those up to the decision.
    """

    kind: str
    required: str
    outcome: Outcome
    reason: str
    interval: Interval | None = None
    needed: str = ""
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says, with its evidence. ``reason`` is one sentence; ``advice`` says what to look at or do next.

    ``refused`` is what the engine said that refused to run at all; empty for one that ran, or broke.
    """

    gate: str
    metric: str
    case: str
    outcome: Outcome
    reason: str
    advice: str = ""
    measured: Interval | None = None
    baseline: Interval | None = None
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    location: str = ""
    softened: str = ""
    refused: str = ""
