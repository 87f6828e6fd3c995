"""The sentences of a check, and the three-valued decision behind them, in one place for all families."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_specgate.metrics import Metric
from pytest_specgate.records import Check, Interval, Outcome
from pytest_specgate.units import Allowance, Limit, format_value

NAMES = {"limit": "limit", "max_drop": "drop", "max_rise": "rise"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Limits at two confidences: ``failing`` must exclude the bound to fail, ``passing`` must clear it to pass."""

    failing: Interval
    passing: Interval


def exact(value: float) -> Evidence:
    """Evidence without error: a deterministic number."""
    return Evidence(Interval(value, value, value), Interval(value, value, value))


def decide(evidence: Evidence, low: float | None, high: float | None) -> Outcome:
    """FAIL if the whole failing interval is outside, PASS if the whole passing interval is inside."""
    failing, passing = evidence.failing, evidence.passing
    if (low is not None and failing.high < low) or (high is not None and failing.low > high):
        return Outcome.FAIL
    if (low is None or passing.low >= low) and (high is None or passing.high <= high):
        return Outcome.PASS
    return Outcome.INCONCLUSIVE


def limit_check(metric: Metric, label: str, evidence: Evidence, limit: Limit, decides: str) -> Check:
    """Judge an absolute demand. ``decides`` says what would decide an open question."""
    outcome = decide(evidence, limit.low, limit.high)
    shown = with_interval(metric, evidence.passing if outcome is Outcome.PASS else evidence.failing)
    sentence = {
        Outcome.PASS: f"{label} {shown} keeps {limit.text}",
        Outcome.FAIL: f"{label} {shown} breaks the limit {limit.text}",
        Outcome.INCONCLUSIVE: f"{label} {shown} straddles the limit {limit.text}; {decides}",
    }[outcome]
    return Check("limit", limit.text, outcome, sentence, evidence.failing)


def drift_check(metric: Metric, label: str, kind: str, change: Evidence, stored: float, allowance: Allowance, decides: str) -> Check:
    """Judge a change ``now − stored`` in the metric's unit; ``kind`` is max_drop or max_rise."""
    allowed = allowance.of(stored)
    low, high = (-allowed, None) if kind == "max_drop" else (None, allowed)
    outcome = decide(change, low, high)
    now = format_value(stored + change.failing.value, metric.unit)
    moved = change.failing.value / stored if stored else 0.0
    said = f"{label} {format_value(stored, metric.unit)} → {now} ({moved:+.1%})"
    word = NAMES[kind]
    sentence = {
        Outcome.PASS: f"{said} is within the allowed {word} of {allowance.text}",
        Outcome.FAIL: f"{said} is a {word} beyond the allowed {allowance.text}",
        Outcome.INCONCLUSIVE: f"{said} may or may not be a {word} beyond {allowance.text}; {decides}",
    }[outcome]
    return Check(kind, allowance.text, outcome, sentence, change.failing)


def undecided(kind: str, required: str, reason: str) -> Check:
    """A check that this run cannot decide."""
    return Check(kind, required, Outcome.INCONCLUSIVE, reason)


def with_interval(metric: Metric, interval: Interval) -> str:
    """``1.180x [1.150x, 1.210x]``, or the bare value where it is exact."""
    value = format_value(interval.value, metric.unit)
    if interval.low == interval.high:
        return value
    return f"{value} [{format_value(interval.low, metric.unit)}, {format_value(interval.high, metric.unit)}]"
