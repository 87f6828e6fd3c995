"""The three-valued decision: evidence at two confidences against a lower and an upper bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytest_specgate.gates.context import JudgeContext
from pytest_specgate.metrics import Unit
from pytest_specgate.records import Interval, Outcome
from pytest_specgate.stats.limits import CannotTell, Limits

#: Relative slack of a comparison: 37.3 % − 31.3 % is an allowed drop of 6 points, whatever binary fractions say.
_SLACK = 1e-9
_CEILINGS = {Unit.FRACTION: 1.0, Unit.SCORE: 100.0}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Limits at two confidences: ``failing`` must exclude the bound to fail, ``passing`` must clear it to pass.

    An infinite limit is one that the data cannot give.
    """

    failing: Interval
    passing: Interval

    @property
    def exact(self) -> bool:
        """Whether the value carries no error."""
        return self.failing.low == self.failing.high


def exact(value: float) -> Evidence:
    """Evidence without error: a deterministic number."""
    return Evidence(Interval(value, value, value), Interval(value, value, value))


def gather(
    question: Callable[[float], Limits | CannotTell],
    context: JudgeContext,
    shape: Callable[[Limits], Interval],
) -> Evidence | CannotTell:
    """Ask for limits at both error rates, and bring them into the metric's unit."""
    failing, passing = question(context.wrong_fail), question(context.wrong_pass)
    if isinstance(failing, CannotTell):
        return failing
    if isinstance(passing, CannotTell):
        return passing
    return Evidence(shape(failing), shape(passing))


def plain(limits: Limits) -> Interval:
    """Limits that are in the metric's unit already."""
    return Interval(limits.estimate, limits.low, limits.high)


def within_range(evidence: Evidence, unit: Unit) -> Evidence:
    """Cut limits to what the metric can be: nothing is below 0, and no share above 100 %."""
    ceiling = _CEILINGS.get(unit, math.inf)
    failing, passing = (
        Interval(i.value, min(max(i.low, 0.0), i.value), max(min(i.high, ceiling), i.value))
        for i in (evidence.failing, evidence.passing)
    )
    return Evidence(failing, passing)


def decide(evidence: Evidence, low: float | None, high: float | None) -> Outcome:
    """FAIL if the whole failing interval is outside, PASS if the whole passing interval is inside."""
    failing, passing = evidence.failing, evidence.passing
    if (low is not None and failing.high < low - _slack(low)) or (
        high is not None and failing.low > high + _slack(high)
    ):
        return Outcome.FAIL
    if (low is None or passing.low >= low - _slack(low)) and (high is None or passing.high <= high + _slack(high)):
        return Outcome.PASS
    return Outcome.INCONCLUSIVE


def _slack(bound: float) -> float:
    return _SLACK * max(1.0, abs(bound))
