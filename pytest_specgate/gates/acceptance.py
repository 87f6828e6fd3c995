"""Gates on acceptance. Greedy runs are deterministic, so on the same prompts counts are compared exactly; sampled ones,
and prompts whose text changed, carry sampling error that clusters by conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pytest_specgate.gates.context import Judged, JudgeContext
from pytest_specgate.gates.parts import demands, shared
from pytest_specgate.gates.verdicts import NoVerdict
from pytest_specgate.gates.wording import Evidence, drift_check, exact, limit_check, undecided
from pytest_specgate.records import Check, Counts, Interval, PromptSamples, Samples, Stored
from pytest_specgate.stats import rates
from pytest_specgate.stats.budget import WRONG_PASS
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric as ``offset + Σ hits ÷ Σ trials``."""

    hits: Callable[[Counts], int]
    trials: Callable[[Counts], int]
    offset: float = 0.0


RATIOS: Mapping[str, Ratio] = {
    "acceptance_rate": Ratio(lambda c: c.accepted, lambda c: c.drafted),
    "conditional_acceptance": Ratio(lambda c: c.accepted, lambda c: c.tested),
    "acceptance_length": Ratio(lambda c: c.accepted, lambda c: c.rounds, offset=1.0),
}


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one acceptance gate. Raises NoVerdict where nothing was counted or nothing drafted."""
    ratio = RATIOS[gate.spec.metric]
    if not any(prompt.counts for prompt in samples.prompts):
        reason = f"{gate.spec.metric} was not measured by this engine ({context.engine})"
        raise NoVerdict(reason, "remove the gate, or use an engine that tells its rounds")
    if not sum(count.drafted for prompt in samples.prompts for count in prompt.counts):
        raise NoVerdict("nothing was drafted: speculation never engaged", "check the candidate's method and its settings")
    value = _value(ratio, samples.prompts)
    if value is None:
        raise NoVerdict("no whole round to count", "raise max_tokens: every round was the last one of its text")
    evidence = exact(value) if samples.greedy else _clustered(ratio, samples.prompts, context.alpha)
    checks: list[Check] = []
    if gate.spec.limit is not None:
        if isinstance(evidence, CannotTell):
            said = f"{gate.spec.label}: {evidence.reason}; needed: {evidence.needed}"
            checks.append(undecided("limit", gate.spec.limit.text, said))
        else:
            decides = "more prompts would decide"
            checks.append(limit_check(gate.spec.info, gate.spec.label, evidence, gate.spec.limit, decides))
    warnings: tuple[str, ...] = ()
    before = None
    if stored is not None and gate.spec.compares:
        if stored.place != context.place:
            warnings = (f"compared with a baseline from {stored.place.slug}",)
        before, more = _drift(gate, ratio, samples, stored, context)
        checks += more
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(value, value, value)
    return Judged(tuple(checks), measured, before, warnings)


def _totals(ratio: Ratio, prompts: Iterable[PromptSamples]) -> dict[str, tuple[float, float]]:
    """(hits, trials) by conversation."""
    totals: dict[str, tuple[float, float]] = {}
    for prompt in prompts:
        hits, trials = totals.get(prompt.cluster, (0.0, 0.0))
        totals[prompt.cluster] = (
            hits + sum(ratio.hits(c) for c in prompt.counts),
            trials + sum(ratio.trials(c) for c in prompt.counts),
        )
    return totals


def _value(ratio: Ratio, prompts: Iterable[PromptSamples]) -> float | None:
    totals = _totals(ratio, prompts).values()
    trials = sum(t for _, t in totals)
    return ratio.offset + sum(h for h, _ in totals) / trials if trials else None


def _clustered(ratio: Ratio, prompts: Iterable[PromptSamples], alpha: float) -> Evidence | CannotTell:
    totals = list(_totals(ratio, prompts).values())
    hits, trials = [h for h, _ in totals], [t for _, t in totals]
    return _evidence(rates.pooled(hits, trials, alpha, alpha), rates.pooled(hits, trials, WRONG_PASS, WRONG_PASS), ratio.offset)


def _evidence(failing: Limits | CannotTell, passing: Limits | CannotTell, offset: float) -> Evidence | CannotTell:
    if isinstance(failing, CannotTell):
        return failing
    if isinstance(passing, CannotTell):
        return passing
    return Evidence(*(Interval(x.estimate + offset, x.low + offset, x.high + offset) for x in (failing, passing)))


def _drift(
    gate: Gate, ratio: Ratio, samples: Samples, stored: Stored, context: JudgeContext
) -> tuple[Interval | None, list[Check]]:
    both = [(now, old) for now, old in shared(samples, stored) if now.counts and old.counts]
    before = _value(ratio, [old for _, old in both])
    if before is None:
        reason = f"{gate.spec.label}: the baseline counted nothing on these prompts; needed: a refreshed baseline"
        return None, [undecided(kind, allowance.text, reason) for kind, allowance in demands(gate)]
    change = _change(ratio, samples, both, before, context.alpha)
    if isinstance(change, CannotTell):
        reason = f"{gate.spec.label}: {change.reason}; needed: {change.needed}"
        return Interval(before, before, before), [undecided(k, a.text, reason) for k, a in demands(gate)]
    checks = [drift_check(gate.spec.info, gate.spec.label, kind, change, before, a, "more prompts would decide")
              for kind, a in demands(gate)]  # fmt: skip
    return Interval(before, before, before), checks


def _change(
    ratio: Ratio, samples: Samples, both: list[tuple[PromptSamples, PromptSamples]], before: float, alpha: float
) -> Evidence | CannotTell:
    """Exact where every shared text is the same as when the baseline was recorded, else paired by conversation."""
    same_text = all(now.digest == old.digest for now, old in both)
    if samples.greedy and same_text:
        now = _value(ratio, [now for now, _ in both])
        return CannotTell("no whole round to count", "a larger max_tokens") if now is None else exact(now - before)
    new, old = _totals(ratio, [n for n, _ in both]), _totals(ratio, [o for _, o in both])
    pairs = [(new[cluster], old[cluster]) for cluster in new]
    limits = [rates.paired_change([n for n, _ in pairs], [o for _, o in pairs], a, a) for a in (alpha, WRONG_PASS)]
    return _evidence(limits[0], limits[1], 0.0)
