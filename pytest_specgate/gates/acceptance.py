"""Gates on acceptance: exact where decoding is deterministic, clustered by conversation where it is not.

Greedy runs are deterministic, so on the same prompts counts are compared exactly; sampled runs, and prompts whose text
changed, carry sampling error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.decision import Evidence, exact, gather, plain, within_range
from pytest_specgate.gates.parts import half_shared, not_stored, refuse_silent, shared, unmeasured
from pytest_specgate.gates.wording import Amount, all_undecided, drift_checks, limit_checks
from pytest_specgate.records import OTHER_TRAFFIC, Check, Counts, Interval, Outcome, PromptSamples, Samples, Stored
from pytest_specgate.stats import rates
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate

Both = list[tuple[PromptSamples, PromptSamples]]
#: What counters of several requests at once are, whatever their number: one observation.
_TOGETHER = CannotTell(
    "counters of all requests that ran together are one observation",
    "acceptance told of each request, or concurrency 1",
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric as ``offset + Σ hits ÷ Σ trials``."""

    hits: Callable[[Counts], int]
    trials: Callable[[Counts], int | None]
    offset: float = 0.0

    def totals(self, prompts: Iterable[PromptSamples]) -> dict[str, tuple[float, float]]:
        """(hits, trials) by conversation."""
        found: dict[str, tuple[float, float]] = {}
        for prompt in prompts:
            hits, trials = found.get(prompt.cluster, (0.0, 0.0))
            hits += sum(self.hits(count) for count in prompt.counts)
            found[prompt.cluster] = hits, trials + sum(self.trials(count) or 0 for count in prompt.counts)
        return found

    def told(self, counts: Iterable[Counts]) -> bool:
        """Whether there are counts, and all of them tell the trials."""
        trials = [self.trials(count) for count in counts]
        return bool(trials) and None not in trials

    def trials_of(self, prompts: Iterable[PromptSamples]) -> float:
        """Σ trials."""
        return sum(trials for _, trials in self.totals(prompts).values())

    def value(self, prompts: Iterable[PromptSamples]) -> float | None:
        """The metric over all prompts; None without a trial."""
        totals = self.totals(prompts).values()
        trials = sum(trials for _, trials in totals)
        return self.offset + sum(hits for hits, _ in totals) / trials if trials else None

    def shaped(self, limits: Limits) -> Interval:
        """Limits of hits ÷ trials as limits of the metric."""
        return plain(Limits(limits.estimate + self.offset, limits.low + self.offset, limits.high + self.offset))


RATIOS: Mapping[str, Ratio] = {
    "acceptance_rate": Ratio(lambda c: c.accepted, lambda c: c.drafted),
    "conditional_acceptance": Ratio(lambda c: c.accepted, lambda c: c.tested),
    "acceptance_length": Ratio(lambda c: c.accepted, lambda c: c.rounds, offset=1.0),
}


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one acceptance gate. Raises NoVerdict where nothing was counted, drafted or stored."""
    ratio = RATIOS[gate.spec.metric]
    if not all(prompt.counts for prompt in samples.prompts) and (blurred := _blurred(gate, context)):
        return Judged(blurred, None)
    value = _value(gate, ratio, samples, context)
    fixed = samples.greedy and all(map(_repeats_itself, samples.prompts))
    evidence = exact(value) if fixed else _clustered(gate, ratio, samples, context)
    checks = limit_checks(gate, evidence, _amount(samples.prompts))
    before: float | None = None
    warnings: tuple[str, ...] = ()
    if stored is not None and gate.spec.compares:
        both = [(now, old) for now, old in shared(samples, stored) if now.counts and ratio.told(old.counts)]
        before = ratio.value(old for _, old in both)
        if before is None:
            raise not_stored(gate, context)
        if not half_shared(both, (now.counts for now in samples.prompts)):
            raise not_stored(gate, context, len(both))
        more, warnings = _drift(gate, both, samples, context)
        checks += more
        if stored.place != context.place:
            warnings = (f"compared with a baseline from {stored.place.slug}", *warnings)
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(value, value, value)
    return Judged(checks, measured, None if before is None else Interval(before, before, before), warnings)


def _blurred(gate: Gate, context: JudgeContext) -> tuple[Check, ...]:
    """All demands undecided where the requests of others are in a server's counters, else nothing."""
    for finding in context.findings:
        if finding.rule == OTHER_TRAFFIC and not finding.held:
            return all_undecided(gate, f"environment rule '{finding.rule}' did not hold: {finding.detail}")
    return ()


def _value(gate: Gate, ratio: Ratio, samples: Samples, context: JudgeContext) -> float:
    """The metric over all prompts. Raises NoVerdict where there is nothing to count."""
    counts = [count for prompt in samples.prompts for count in prompt.counts]
    if not ratio.told(counts):
        told = [name for name, other in RATIOS.items() if other.told(counts)]
        hint = "remove the gate, or use an engine that tells its rounds"
        if told:
            hint = f"gate {' or '.join(told)}, which it tells, or use an engine that tells its rounds"
        raise unmeasured(gate.spec.metric, context.engine, hint)
    refuse_silent(gate.spec.metric, samples)
    if not any(count.rounds is None or count.rounds for count in counts):
        hint = "raise max_tokens: every round was the last one of its text"
        raise NoVerdict(f"{gate.spec.metric}: no whole round was counted", hint)
    value = ratio.value(samples.prompts)
    if value is None or not any(count.drafted is None or count.drafted for count in counts):
        raise NoVerdict(
            "nothing was drafted: speculation never engaged", "check the candidate's method and its settings"
        )
    return value


def _repeats_itself(prompt: PromptSamples) -> bool:
    """Whether every round counted the same: what a deterministic run does."""
    return len(set(prompt.counts)) <= 1


def _amount(prompts: Iterable[PromptSamples]) -> Amount:
    return Amount(len({prompt.cluster for prompt in prompts}), "conversations")


def _clustered(gate: Gate, ratio: Ratio, samples: Samples, context: JudgeContext) -> Evidence | CannotTell:
    totals = list(ratio.totals(samples.prompts).values())
    hits, trials = [h for h, _ in totals], [t for _, t in totals]
    evidence = gather(lambda alpha: rates.pooled_rate(hits, trials, alpha, alpha), context, ratio.shaped)
    if isinstance(evidence, CannotTell) and _of_one_run(samples.prompts, trials):
        return _TOGETHER
    return evidence if isinstance(evidence, CannotTell) else within_range(evidence, gate.spec.info.unit)


def _of_one_run(prompts: Sequence[PromptSamples], trials: Sequence[float]) -> bool:
    """Whether all trials of several prompts stand with one of them, whose text alone they are not of."""
    return len(prompts) > 1 and sum(map(bool, trials)) == 1 and not any(prompt.digest for prompt in prompts)


def _drift(
    gate: Gate, both: Both, samples: Samples, context: JudgeContext
) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Exact where a text is the same as when the baseline was recorded, else paired by conversation."""
    if not samples.greedy:
        return _paired_checks(gate, both, context), ()
    same = [pair for pair in both if _comparable(*pair)]
    changed = [pair for pair in both if not _comparable(*pair)]
    ratio = RATIOS[gate.spec.metric]
    trials = [ratio.trials_of(now for now, _ in part) for part in (same, changed)]
    if trials[0] <= trials[1]:
        return _paired_checks(gate, both, context), _told(changed, both)
    checks = _exact_checks(gate, same, context)
    if changed:
        # Ties flip a few texts of right software: alone they prove little, but what they prove counts.
        others = _paired_checks(gate, changed, context)
        checks = tuple(b if b.outcome is Outcome.FAIL else a for a, b in zip(checks, others))
    return checks, _told(changed, both)


def _told(changed: Both, both: Both) -> tuple[str, ...]:
    if not changed:
        return ()
    first = changed[0][0].prompt
    return (f"{len(changed)} of {len(both)} texts differ from the baseline's, {first} first: their counts scatter",)


def _comparable(now: PromptSamples, old: PromptSamples) -> bool:
    return bool(now.digest) and now.digest == old.digest and _repeats_itself(now) and _repeats_itself(old)


def _exact_checks(gate: Gate, same: Both, context: JudgeContext) -> tuple[Check, ...]:
    ratio = RATIOS[gate.spec.metric]
    new, old = ratio.value(now for now, _ in same), ratio.value(old for _, old in same)
    if new is None or old is None:
        raise not_stored(gate, context)
    return drift_checks(gate, exact(new - old), old, _amount(now for now, _ in same))


def _paired_checks(gate: Gate, both: Both, context: JudgeContext) -> tuple[Check, ...]:
    ratio = RATIOS[gate.spec.metric]
    now = ratio.totals(new for new, _ in both)
    old = ratio.totals(replace(old, cluster=new.cluster) for new, old in both)
    before = ratio.value(old for _, old in both) or 0.0
    change = gather(
        lambda alpha: rates.paired_rate_change(list(now.values()), [old[name] for name in now], alpha, alpha),
        context,
        plain,
    )
    if isinstance(change, CannotTell) and _of_one_run([new for new, _ in both], [trials for _, trials in now.values()]):
        change = _TOGETHER
    return drift_checks(gate, change, before, _amount(now for now, _ in both))
