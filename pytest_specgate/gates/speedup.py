"""Gates on ratios of interleaved arms: ``speedup``, ``decode_speedup``.

An absolute limit is judged "on these prompts" by the pooled within-prompt scatter (or "on prompts like these", if the
gate says ``population``); a change from the baseline by Hodges–Lehmann limits of the pairs about their prompt's stored
median, widened for the medians' own noise.
"""

from __future__ import annotations

import math
from statistics import fmean

from pytest_specgate.gates.context import JudgeContext, Judged
from pytest_specgate.gates.decision import Evidence, gather
from pytest_specgate.gates.parts import (
    Units,
    broken_environment,
    from_elsewhere,
    half_shared,
    length_warning,
    not_stored,
    series_of,
    shared_series,
    standing_clock,
    units,
)
from pytest_specgate.gates.shift import difference, from_log, shift_from_stored
from pytest_specgate.gates.stalling import not_by_stalls
from pytest_specgate.gates.wording import Amount, drift_checks, limit_checks
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired, samplesize, stalls
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.signedrank import stored_median_factor
from pytest_specgate.suite.cases import Gate

#: An interval wider than this factor either way says nothing; its limits may not even be floats.
_SENSELESS = math.log(100)


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one speed-up gate. Raises NoVerdict where the metric was not measured, or not stored."""
    values = series_of(samples, gate.spec.metric, context.engine)
    evidence = standing_clock(values) or _evidence(gate, units(values, samples), context)
    mean = from_log(fmean(map(fmean, values.values())))
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(mean, mean, mean)
    checks = broken_environment(gate, context)
    if not checks:
        checks = limit_checks(gate, evidence, _amount(gate, units(values, samples)))
        checks += _drift(gate, samples, stored, context)
    warnings = (*length_warning(samples), *_too_fine(gate, samples, stored, context), *_stalls(samples, context))
    return Judged(checks, measured, _stored_mean(gate, stored), warnings)


def _evidence(gate: Gate, observed: Units, context: JudgeContext) -> Evidence | CannotTell:
    def question(alpha: float) -> Limits | CannotTell:
        if gate.spec.population:
            limits = paired.over_prompts(observed.groups, alpha, alpha)
        else:
            limits = paired.within_prompts(observed.groups, alpha, alpha, observed.weights)
        if isinstance(limits, Limits) and limits.high - limits.low > 2 * _SENSELESS:
            return CannotTell(
                "so few pairs leave the ratio open by more than 100x either way",
                _for_sense(gate, observed, limits, alpha),
            )
        return limits

    return gather(question, context, _ratio)


def _for_sense(gate: Gate, observed: Units, limits: Limits, alpha: float) -> str:
    """How much data would narrow such limits to what can be read."""
    amount, groups = _amount(gate, observed), 1 if gate.spec.population else len(observed.groups)
    half = (limits.high - limits.low) / 2
    needed = samplesize.amount_for(amount.have, groups, half / _SENSELESS, alpha)
    return f"about {needed} {amount.unit}"


def _ratio(limits: Limits) -> Interval:
    return Interval(from_log(limits.estimate), from_log(limits.low), from_log(limits.high))


def _amount(gate: Gate, observed: Units) -> Amount:
    return Amount(len(observed.groups), "prompts") if gate.spec.population else Amount(observed.rounds, "rounds")


def _stored_mean(gate: Gate, stored: Stored | None) -> Interval | None:
    if stored is None:
        return None
    found = [p.series[gate.spec.metric] for p in stored.samples.prompts if p.series.get(gate.spec.metric)]
    if not found or not all(map(paired.sane, found)):
        return None
    mean = from_log(fmean(map(fmean, found)))
    return Interval(mean, mean, mean)


def _drift(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> tuple[Check, ...]:
    if stored is None or not gate.spec.compares:
        return ()
    if stored.place != context.place:
        return from_elsewhere(gate, stored)
    both = shared_series(samples, stored, gate.spec.metric)
    if not half_shared(both, (p.series.get(gate.spec.metric) for p in samples.prompts)):
        raise not_stored(gate, context, len(both))
    shift = shift_from_stored(both, samples, stored.samples)
    level = from_log(shift.level)
    change = standing_clock({prompt: new for prompt, (new, _) in both.items()}) or gather(
        shift.limits, context, lambda limits: difference(level, limits)
    )
    checks = drift_checks(gate, change, level, Amount(shift.rounds, "rounds"))
    return tuple(not_by_stalls(gate, check, shift, context) for check in checks)


def _too_fine(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> tuple[str, ...]:
    """Say that the allowed drop asks for more than this noise resolves: the gate will stay open more often than not."""
    allowed = gate.spec.max_drop
    if allowed is None or stored is None or stored.place != context.place:
        return ()
    if not (both := shared_series(samples, stored, gate.spec.metric)):
        return ()
    shift = shift_from_stored(both, samples, stored.samples)
    scatter, pairs = samplesize.scatter_of(shift.values), len(shift.values)
    factor = stored_median_factor(shift.rounds, shift.stored_rounds)
    least = samplesize.resolvable_loss(scatter, pairs, factor, context.wrong_fail)
    level = from_log(shift.level)
    if allowed.of(level) >= least * level:
        return ()
    seen = f"{pairs} {'runs' if shift.means else 'pairs'}"
    found = f"{seen} that scatter by {scatter:.1%} resolve drops from {least:.1%} up"
    return (f"{found}: an allowed drop of {allowed.text} will often stay undecided",)


def _timed(values: tuple[float, ...]) -> bool:
    return bool(values) and paired.sane(values) and min(values) > 0


def _stalls(samples: Samples, context: JudgeContext) -> tuple[str, ...]:
    """Stalls that hit single calls move no median: say so beside it."""
    arms = [
        [list(map(math.log, p.series[name])) for p in samples.prompts if _timed(p.series.get(name, ()))]
        for name in ("reference_tpot", "tpot")
    ]
    if not all(arms) or stalls.stall_check(*arms) >= context.wrong_fail:
        return ()
    (few, of), (many, calls) = (stalls.slow_calls(arm) for arm in arms)
    slow = f"{stalls.SLOW - 1:.0%} slower than their prompt's median"
    return (f"the candidate arm stalls: {many} of {calls} calls are more than {slow} (reference arm: {few} of {of})",)
