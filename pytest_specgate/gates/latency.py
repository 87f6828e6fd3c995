"""Gates on absolute times of the candidate arm: what a caller feels, hence tied to the machine.

A limit is judged on the named statistic over all requests, by order statistics. A change from the baseline is judged
against per-prompt stored medians; if the reference arm moved the same way by half as much, it is the machine that
changed, and nobody's decoder is blamed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pytest_specgate.gates.context import Judged, JudgeContext
from pytest_specgate.gates.parts import broken_environment, demands, from_elsewhere, series_of, shared
from pytest_specgate.gates.wording import Evidence, drift_check, limit_check, undecided
from pytest_specgate.records import Check, Interval, Outcome, Samples, Stored
from pytest_specgate.stats import paired, quantiles
from pytest_specgate.stats.budget import WRONG_PASS
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one latency gate. Raises NoVerdict where the metric was not measured."""
    spec = gate.spec
    values = [v for group in series_of(samples, spec.metric, context.engine).values() for v in group]
    limits = [quantiles.statistic(values, spec.statistic, a, a) for a in (context.alpha, WRONG_PASS)]
    centre = float(np.mean(values)) if spec.statistic == "mean" else float(np.quantile(values, quantiles.QUANTILES[spec.statistic]))
    measured = Interval(centre, centre, centre)
    if isinstance(limits[0], Limits):
        measured = _interval(limits[0])
    checks = broken_environment(gate, context)
    before = _stored_centre(gate, stored)
    if not checks:
        checks = (*_limit(gate, limits), *_drift(gate, samples, stored, context))
    return Judged(checks, measured, before)


def _interval(limits: Limits) -> Interval:
    return Interval(limits.estimate, limits.low, limits.high)


def _limit(gate: Gate, limits: list[Limits | CannotTell]) -> tuple[Check, ...]:
    limit = gate.spec.limit
    if limit is None:
        return ()
    for trouble in limits:
        if isinstance(trouble, CannotTell):
            return (undecided("limit", limit.text, f"{gate.spec.label}: {trouble.reason}; needed: {trouble.needed}"),)
    evidence = Evidence(*(_interval(x) for x in limits if isinstance(x, Limits)))
    return (limit_check(gate.spec.info, gate.spec.label, evidence, limit, "more requests would decide"),)


def _stored_centre(gate: Gate, stored: Stored | None) -> Interval | None:
    if stored is None:
        return None
    values = [v for p in stored.samples.prompts for v in p.series.get(gate.spec.metric, ())]
    if not values:
        return None
    name = gate.spec.statistic
    centre = float(np.mean(values)) if name == "mean" else float(np.quantile(values, quantiles.QUANTILES[name]))
    return Interval(centre, centre, centre)


@dataclass(frozen=True, slots=True)
class _Shift:
    """Log ratios of now to the stored medians, and the sizes that set their limits."""

    values: list[float]
    level: float
    rounds: int
    stored_rounds: int


def _shift(samples: Samples, stored: Stored, name: str) -> _Shift | None:
    values, levels, rounds, stored_rounds = [], [], 0, 0
    for now, before in shared(samples, stored):
        new, old = now.series.get(name, ()), before.series.get(name, ())
        if new and old and min(*new, *old) > 0:
            level = math.log(float(np.median(old)))
            values += [math.log(v) - level for v in new]
            levels.append(level)
            rounds, stored_rounds = max(rounds, len(new)), max(stored_rounds, len(old))
    return _Shift(values, math.exp(float(np.mean(levels))), rounds, stored_rounds) if values else None


def _drift(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> tuple[Check, ...]:
    asked = demands(gate)
    if not asked or stored is None:
        return ()
    if stored.place != context.place:
        return from_elsewhere(gate, stored)
    spec, shift = gate.spec, _shift(samples, stored, gate.spec.metric)
    if shift is None:
        reason = f"{spec.label}: the baseline holds no value for these prompts; needed: a refreshed baseline"
        return tuple(undecided(kind, a.text, reason) for kind, a in asked)
    factor = paired.stored_median_factor(shift.rounds, shift.stored_rounds)
    limits = [paired.hodges_lehmann(shift.values, a, a) for a in (context.alpha, WRONG_PASS)]
    for trouble in limits:
        if isinstance(trouble, CannotTell):
            reason = f"{spec.label}: {trouble.reason}; needed: {trouble.needed}"
            return tuple(undecided(kind, a.text, reason) for kind, a in asked)
    change = Evidence(*(_difference(shift.level, x.widened(factor)) for x in limits if isinstance(x, Limits)))
    machine = _machine_shift(samples, stored, spec.metric)
    checks = []
    for kind, allowance in asked:
        check = drift_check(spec.info, spec.label, kind, change, shift.level, allowance, "more rounds would decide")
        checks.append(_excuse(check, change, shift.level, machine))
    return tuple(checks)


def _difference(level: float, limits: Limits) -> Interval:
    return Interval(*(level * math.expm1(value) for value in (limits.estimate, limits.low, limits.high)))


def _machine_shift(samples: Samples, stored: Stored, metric: str) -> float:
    shift = _shift(samples, stored, f"reference_{metric}")
    return float(np.median(shift.values)) if shift else 0.0


def _excuse(check: Check, change: Evidence, level: float, machine: float) -> Check:
    """A failure that the reference arm shares is the machine's, not the decoder's."""
    own = math.log1p(change.failing.value / level)
    if check.outcome is not Outcome.FAIL or own * machine <= 0 or abs(machine) < abs(own) / 2:
        return check
    reason = f"the reference arm moved by {math.expm1(machine):+.1%} too: this machine changed since the baseline was recorded"
    return undecided(check.kind, check.required, reason)
