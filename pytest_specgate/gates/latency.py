"""Gates on absolute times of the candidate arm: what a caller feels, hence tied to the machine.

A limit is judged on the named statistic: quantiles over all requests by order statistics, means on these prompts. A
change of the median is a shift of all requests about their prompt's stored median; changes of tails compare the tails
of both runs. A failure that the reference arm shares is the machine's, and nobody's decoder is blamed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.decision import Evidence, gather, plain, within_range
from pytest_specgate.gates.machine import excused
from pytest_specgate.gates.parts import (
    BAD_CLOCK,
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
from pytest_specgate.gates.shift import Both, difference, from_log, shift_from_stored
from pytest_specgate.gates.wording import Amount, drift_checks, limit_checks
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired, quantiles
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one latency gate. Raises NoVerdict where the metric was not measured, or not stored."""
    values = series_of(samples, gate.spec.metric, context.engine)
    requests = [v for series in values.values() for v in series]
    if min(requests) < 0:
        raise NoVerdict(f"{gate.spec.metric} is below zero: the clock ran backwards", BAD_CLOCK)
    evidence = standing_clock(values) or _evidence(gate, values, samples, context)
    checks = broken_environment(gate, context)
    if not checks:
        checks = limit_checks(gate, evidence, _amount(gate, values, samples, context))
        checks += _drift(gate, samples, stored, context)
    return Judged(checks, _measured(gate, evidence, requests), _stored_centre(gate, stored), length_warning(samples))


def _measured(gate: Gate, evidence: Evidence | CannotTell, requests: Sequence[float]) -> Interval:
    """The statistic with its limits; an open side ends at the last value seen, for reports hold no infinities."""
    if isinstance(evidence, CannotTell):
        centre = _statistic(gate.spec.statistic, requests)
        return Interval(centre, centre, centre)
    found = evidence.failing
    low = found.low if math.isfinite(found.low) else min(requests)
    high = found.high if math.isfinite(found.high) else max(requests)
    return Interval(found.value, low, high)


def _statistic(name: str, values: Sequence[float]) -> float:
    return fmean(values) if name == "mean" else quantiles.of_sorted(sorted(values), quantiles.QUANTILES[name])


def _evidence(
    gate: Gate, values: dict[str, tuple[float, ...]], samples: Samples, context: JudgeContext
) -> Evidence | CannotTell:
    observed, name = units(values, samples), gate.spec.statistic
    requests = [value for series in values.values() for value in series]

    def question(alpha: float) -> Limits | CannotTell:
        if name == "mean":
            return quantiles.mean_on_these(observed.groups, alpha, alpha, observed.weights)
        share, independent = quantiles.QUANTILES[name], len(observed.values)
        if name == "median" and observed.together and independent < quantiles.requests_needed(share, alpha):
            return _median_of_few_runs(values, samples, alpha)
        return quantiles.quantile(requests, share, alpha, alpha, independent)

    evidence = gather(question, context, plain)
    return evidence if isinstance(evidence, CannotTell) else within_range(evidence, gate.spec.info.unit)


def _median_of_few_runs(values: dict[str, tuple[float, ...]], samples: Samples, alpha: float) -> Limits | CannotTell:
    """The median of all requests where runs are too few for order statistics: as sure as the runs' medians agree.

    Their number and the error alone decide that.
    """
    if min(min(series) for series in values.values()) <= 0:
        return CannotTell("a time is not positive", "a clock that resolves it")
    runs = units({prompt: list(map(math.log, series)) for prompt, series in values.items()}, samples, median)
    limits = paired.within_prompts(runs.groups, alpha, alpha, runs.weights)
    if isinstance(limits, CannotTell):
        return limits
    centre = median(value for series in values.values() for value in series)
    low, high = (centre * from_log(end - limits.estimate) for end in (limits.low, limits.high))
    return Limits(centre, low, high)


def _amount(gate: Gate, values: dict[str, tuple[float, ...]], samples: Samples, context: JudgeContext) -> Amount:
    observed = units(values, samples)
    if gate.spec.statistic == "mean":
        return Amount(observed.rounds, "rounds")
    share = quantiles.QUANTILES[gate.spec.statistic]
    least = quantiles.requests_needed(max(share, 1 - share), context.wrong_pass)
    return Amount(len(observed.values), observed.name, least)


def _stored_centre(gate: Gate, stored: Stored | None) -> Interval | None:
    if stored is None:
        return None
    values = [v for p in stored.samples.prompts for v in p.series.get(gate.spec.metric, ())]
    if not values or not paired.sane(values):
        return None
    centre = _statistic(gate.spec.statistic, values)
    return Interval(centre, centre, centre)


def _drift(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> tuple[Check, ...]:
    if stored is None or not gate.spec.compares:
        return ()
    if stored.place != context.place:
        return from_elsewhere(gate, stored)
    both = shared_series(samples, stored, gate.spec.metric)
    if not half_shared(both, (p.series.get(gate.spec.metric) for p in samples.prompts)):
        raise not_stored(gate, context, len(both))
    level = _statistic(gate.spec.statistic, [v for _, old in both.values() for v in old])
    amount = _amount(gate, {prompt: new for prompt, (new, _) in both.items()}, samples, context)
    if gate.spec.statistic in ("median", "mean"):
        amount = Amount(amount.have if amount.unit == "rounds" else _rounds(both), "rounds")
    change = _unclocked(both) or _change(gate, both, (samples, stored.samples), context)
    checks = drift_checks(gate, change, level, amount)
    return tuple(excused(gate, check, samples, stored, context) for check in checks)


def _rounds(both: Both) -> int:
    return max(len(new) for new, _ in both.values())


def _unclocked(both: Both) -> CannotTell | None:
    """Why these times of two runs cannot be compared, if they cannot."""
    if min(v for pair in both.values() for series in pair for v in series) <= 0:
        return CannotTell("a time is not positive", "a clock that resolves it")
    return standing_clock({prompt: new for prompt, (new, _) in both.items()})


def _change(gate: Gate, both: Both, runs: tuple[Samples, Samples], context: JudgeContext) -> Evidence | CannotTell:
    if gate.spec.statistic in ("median", "mean"):
        return _centre_change(gate, both, runs, context)
    return _tail_change(gate, both, runs, context)


def _centre_change(
    gate: Gate, both: Both, runs: tuple[Samples, Samples], context: JudgeContext
) -> Evidence | CannotTell:
    """Change of the median or mean: a relative shift on these prompts, about the stored statistic."""
    level = _statistic(gate.spec.statistic, [v for _, old in both.values() for v in old])
    logs = {prompt: (list(map(math.log, new)), list(map(math.log, old))) for prompt, (new, old) in both.items()}
    if gate.spec.statistic == "median":
        shift = shift_from_stored(logs, *runs)
        return gather(shift.limits, context, lambda limits: difference(level, limits))
    now, before = (units({prompt: pair[run] for prompt, pair in logs.items()}, of) for run, of in enumerate(runs))
    weights = now.weights, before.weights
    return gather(
        lambda alpha: paired.between_runs(now.groups, before.groups, alpha, alpha, weights),
        context,
        lambda limits: difference(level, limits),
    )


def _tail_change(gate: Gate, both: Both, runs: tuple[Samples, Samples], context: JudgeContext) -> Evidence | CannotTell:
    """Change of a quantile between two runs; each run's limits take half of the error rate."""
    share = quantiles.QUANTILES[gate.spec.statistic]
    observed = [units({prompt: pair[run] for prompt, pair in both.items()}, of) for run, of in enumerate(runs)]
    requests = [[value for pair in both.values() for value in pair[run]] for run in (0, 1)]

    def question(alpha: float) -> Limits | CannotTell:
        ends = [
            quantiles.quantile(values, share, alpha / 2, alpha / 2, len(one.values))
            for values, one in zip(requests, observed)
        ]
        for end in ends:
            if isinstance(end, CannotTell):
                return end
        new, old = (end for end in ends if isinstance(end, Limits))
        change = Limits(new.estimate - old.estimate, new.low - old.high, new.high - old.low)
        if math.isinf(change.low) and math.isinf(change.high):
            needed = quantiles.requests_needed(max(share, 1 - share), alpha / 2)
            least = min(observed, key=lambda one: len(one.values))
            what = f"{len(least.values)} {least.name} do not bound this tail"
            return CannotTell(what, f"{needed} {least.name}")
        return change

    return gather(question, context, plain)
