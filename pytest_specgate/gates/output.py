"""Gates on what was said: exact on greedy runs, where equal software gives equal text; sampled runs have scatter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.decision import Evidence, exact, gather, plain, within_range
from pytest_specgate.gates.parts import from_elsewhere, half_shared, not_stored, series_of, shared_series
from pytest_specgate.gates.wording import Amount, drift_checks, limit_checks
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired, rates
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.checks import ALWAYS_EXACT

#: Values of 0 or 1: equal ones leave a binomial doubt, where equal scores leave none.
_SHARES = frozenset({"exact_match"})


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one output gate. Raises NoVerdict where the metric was not measured, or not stored."""
    metric = gate.spec.metric
    if metric in samples.unscored:
        what, _, hint = samples.unscored[metric].partition(" — ")
        raise NoVerdict(f"{metric} was not measured: {what}", hint)
    values = series_of(samples, metric, context.engine)
    value = _mean(values.values())
    evidence = exact(value) if _is_exact(gate, samples) else _evidence(gate, values, samples, context)
    checks = limit_checks(gate, evidence, _amount(values, samples))
    before = None
    if stored is not None and gate.spec.compares:
        both = shared_series(samples, stored, metric)
        if not half_shared(both, values):
            raise not_stored(gate, context, len(both))
        before = _mean(old for _, old in both.values())
        checks += (
            from_elsewhere(gate, stored) if stored.place != context.place else _drift(gate, both, samples, context)
        )
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(value, value, value)
    return Judged(checks, measured, None if before is None else Interval(before, before, before))


def _is_exact(gate: Gate, samples: Samples) -> bool:
    return samples.greedy or gate.spec.metric in ALWAYS_EXACT


def _mean(groups: Iterable[Sequence[float]]) -> float:
    """Mean over prompts of the prompt's mean over rounds."""
    return fmean(map(fmean, groups))


def _by_conversation(values: Mapping[str, Sequence[float]], samples: Samples) -> list[list[float]]:
    """Turns of one conversation depend on each other: the conversation is the unit."""
    groups: dict[str, list[float]] = {}
    for prompt in samples.prompts:
        if prompt.prompt in values:
            groups.setdefault(prompt.cluster, []).extend(values[prompt.prompt])
    return list(groups.values())


def _amount(values: Mapping[str, Sequence[float]], samples: Samples) -> Amount:
    return Amount(len(_by_conversation(values, samples)), "conversations")


def _evidence(
    gate: Gate, values: Mapping[str, Sequence[float]], samples: Samples, context: JudgeContext
) -> Evidence | CannotTell:
    groups = _by_conversation(values, samples)

    def question(alpha: float) -> Limits | CannotTell:
        if gate.spec.metric in _SHARES:
            hits, trials = [sum(group) for group in groups], [float(len(group)) for group in groups]
            return rates.pooled_rate(hits, trials, alpha, alpha)
        return paired.over_prompts(groups, alpha, alpha)

    evidence = gather(question, context, plain)
    return evidence if isinstance(evidence, CannotTell) else within_range(evidence, gate.spec.info.unit)


def _drift(
    gate: Gate,
    both: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    samples: Samples,
    context: JudgeContext,
) -> tuple[Check, ...]:
    new, old = ({prompt: pair[run] for prompt, pair in both.items()} for run in (0, 1))
    before = _mean(old.values())
    if _is_exact(gate, samples):
        return drift_checks(gate, exact(_mean(new.values()) - before), before, _amount(new, samples))
    now_groups, old_groups = _by_conversation(new, samples), _by_conversation(old, samples)

    def question(alpha: float) -> Limits | CannotTell:
        if gate.spec.metric in _SHARES:
            counts = [[(sum(g), float(len(g))) for g in groups] for groups in (now_groups, old_groups)]
            return rates.paired_rate_change(counts[0], counts[1], alpha, alpha)
        changes = [(fmean(n) - fmean(o),) for n, o in zip(now_groups, old_groups)]
        return paired.over_prompts(changes, alpha, alpha)

    return drift_checks(gate, gather(question, context, plain), before, _amount(new, samples))
