"""Gates on ratios of interleaved arms: ``speedup``, ``decode_speedup``.

An absolute limit is judged "on these prompts" by the pooled within-prompt scatter (or over prompts like these, if the
gate says ``population``); a change from the baseline by Hodges–Lehmann limits of the pairs about their prompt's stored
median, widened for the medians' own noise.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_specgate.gates.context import Judged, JudgeContext
from pytest_specgate.gates.parts import broken_environment, demands, from_elsewhere, series_of, shared
from pytest_specgate.gates.verdicts import NoVerdict
from pytest_specgate.gates.wording import Evidence, drift_check, limit_check, undecided
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired
from pytest_specgate.stats.budget import WRONG_PASS
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one speed-up gate. Raises NoVerdict where the metric was not measured."""
    groups = list(series_of(samples, gate.spec.metric, context.engine).values())
    evidence = _evidence(gate, groups, context.alpha)
    mean = math.exp(float(np.mean([np.mean(g) for g in groups])))
    if not math.isfinite(mean):
        raise NoVerdict(f"{gate.spec.metric} is not finite", "a timing was zero or not a number")
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(mean, mean, mean)
    baseline = _stored_mean(gate, stored)
    checks = broken_environment(gate, context)
    if not checks:
        checks = (*_limit(gate, evidence, groups, context), *_drift(gate, samples, stored, context))
    return Judged(checks, measured, baseline)


def _evidence(gate: Gate, groups: list[tuple[float, ...]], alpha: float) -> Evidence | CannotTell:
    question = paired.over_prompts if gate.spec.population else paired.within_prompts
    failing, passing = question(groups, alpha, alpha), question(groups, WRONG_PASS, WRONG_PASS)
    if isinstance(failing, Limits) and isinstance(passing, Limits):
        return Evidence(_ratio(failing), _ratio(passing))
    return failing if isinstance(failing, CannotTell) else CannotTell("", "")


def _ratio(limits: Limits) -> Interval:
    return Interval(math.exp(limits.estimate), math.exp(limits.low), math.exp(limits.high))


def _limit(gate: Gate, evidence: Evidence | CannotTell, groups: list[tuple[float, ...]], context: JudgeContext) -> tuple[Check, ...]:
    limit = gate.spec.limit
    if limit is None:
        return ()
    if isinstance(evidence, CannotTell):
        return (undecided("limit", limit.text, f"{gate.spec.label}: {evidence.reason}; needed: {evidence.needed}"),)
    return (limit_check(gate.spec.info, gate.spec.label, evidence, limit, _what_decides(groups, evidence, limit.low, limit.high)),)


def _what_decides(groups: list[tuple[float, ...]], evidence: Evidence, low: float | None, high: float | None) -> str:
    """Half-widths shrink with the root of the rounds: how many would part estimate and limit?"""
    rounds = max(len(g) for g in groups)
    estimate, half = math.log(evidence.failing.value), math.log(evidence.failing.high / evidence.failing.low) / 2
    gap = min(abs(estimate - math.log(bound)) for bound in (low, high) if bound)
    if gap <= 0 or (needed := math.ceil(rounds * (half / gap) ** 2)) > 64:
        return f"this machine's noise cannot resolve less than {math.expm1(half):.1%} in {rounds} rounds"
    return f"about {needed} rounds would decide (this run had {rounds})"


def _stored_mean(gate: Gate, stored: Stored | None) -> Interval | None:
    if stored is None:
        return None
    values = [np.mean(p.series[gate.spec.metric]) for p in stored.samples.prompts if p.series.get(gate.spec.metric)]
    if not values:
        return None
    mean = math.exp(float(np.mean(values)))
    return Interval(mean, mean, mean)


def _drift(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> tuple[Check, ...]:
    asked = demands(gate)
    if not asked or stored is None:
        return ()
    if stored.place != context.place:
        return from_elsewhere(gate, stored)
    metric, centred, rounds, stored_rounds, levels = gate.spec.metric, [], 0, 0, []
    for now, before in shared(samples, stored):
        new, old = now.series.get(metric, ()), before.series.get(metric, ())
        if new and old:
            level = float(np.median(old))
            centred += [value - level for value in new]
            levels.append(level)
            rounds, stored_rounds = max(rounds, len(new)), max(stored_rounds, len(old))
    factor = paired.stored_median_factor(rounds, stored_rounds)
    failing = paired.hodges_lehmann(centred, context.alpha, context.alpha)
    passing = paired.hodges_lehmann(centred, WRONG_PASS, WRONG_PASS)
    if isinstance(failing, CannotTell) or isinstance(passing, CannotTell):
        trouble = failing if isinstance(failing, CannotTell) else passing
        reason = f"{gate.spec.label}: {trouble.reason}; needed: {trouble.needed}"  # type: ignore[union-attr]
        return tuple(undecided(kind, allowance.text, reason) for kind, allowance in asked)
    level = math.exp(float(np.mean(levels)))
    change = Evidence(*(_difference(level, limits.widened(factor)) for limits in (failing, passing)))
    decides = _resolvable(centred, factor, context.alpha)
    return tuple(drift_check(gate.spec.info, gate.spec.label, kind, change, level, a, decides) for kind, a in asked)


def _difference(level: float, limits: Limits) -> Interval:
    """A shift of log ratios as a change in the metric's own unit, about the stored level."""
    return Interval(*(level * math.expm1(value) for value in (limits.estimate, limits.low, limits.high)))


def _resolvable(centred: list[float], factor: float, alpha: float) -> str:
    scatter = 1.4826 * float(np.median(np.abs(np.asarray(centred) - np.median(centred))))
    loss = paired.resolvable_loss(scatter, len(centred), factor, alpha)
    return f"with noise of {scatter:.1%} a pair, {len(centred)} pairs resolve losses from {loss:.1%} up: add rounds or prompts"
