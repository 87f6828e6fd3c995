"""Gates on acceptance along the context: its slope within prompts, with limits over conversations.

A draft that loses track of long texts shows here and not in a mean over short ones. Slopes are taken within a prompt,
for prompts that reach far may be easier ones. A greedy engine repeats itself: its first round is counted, and where all
texts are those of the baseline the two slopes are compared without error.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.decision import Evidence, exact, gather, plain
from pytest_specgate.gates.parts import half_shared, not_stored, refuse_silent, shared, unmeasured
from pytest_specgate.gates.wording import Amount, drift_checks, limit_checks
from pytest_specgate.records import Check, Interval, PromptSamples, Samples, Stored
from pytest_specgate.samples.acceptance import SLOPE, WEIGHT
from pytest_specgate.stats import paired, rates
from pytest_specgate.stats.limits import CannotTell
from pytest_specgate.suite.cases import Gate

#: A share changes by one at most over the step from one token to the next, in a context of a billion of them.
_STEEPEST = 1e9
_HEAVIEST = 1e12
_Parts = dict[str, tuple[float, float]]
_Both = list[tuple[PromptSamples, PromptSamples]]


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one slope gate. Raises NoVerdict where no text spans different contexts, or nothing is stored."""
    refuse_silent(gate.spec.metric, samples)
    held = [prompt for prompt in samples.prompts if _has(prompt)]
    if not held:
        hint = "raise max_tokens, or use an engine that tells its rounds"
        raise unmeasured(gate.spec.metric, context.engine, hint)
    parts, counted = _parts(held, samples), _counted(held, samples)
    evidence = gather(lambda alpha: rates.pooled_slope(list(parts.values()), counted, alpha, alpha), context, plain)
    checks, before = limit_checks(gate, evidence, _amount(parts)), None
    if stored is not None and gate.spec.compares:
        both = [(now, old) for now, old in shared(samples, stored) if _has(now) and _has(old)]
        if not half_shared(both, map(_has, samples.prompts)):
            raise not_stored(gate, context, len(both))
        before = _slope(_parts((old for _, old in both), stored.samples).values())
        checks += _drift(gate, both, samples, context)
    value = _slope(parts.values())
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(value, value, value)
    return Judged(checks, measured, None if before is None else Interval(before, before, before))


def _has(prompt: PromptSamples) -> bool:
    slopes, weights = prompt.series.get(SLOPE, ()), prompt.series.get(WEIGHT, ())
    if not slopes or len(slopes) != len(weights):
        return False
    sane = paired.sane(slopes) and max(map(abs, slopes)) <= _STEEPEST
    if not (sane and paired.sane(weights) and min(weights) > 0 and max(weights) <= _HEAVIEST):
        raise NoVerdict(f"{SLOPE} of {prompt.prompt} is no slope of counted tokens", "look at the engine's counters")
    return True


def _parts(prompts: Iterable[PromptSamples], samples: Samples) -> _Parts:
    """(covariance, variance) by conversation."""
    found: _Parts = {}
    for prompt in prompts:
        rounds = slice(0, 1) if samples.greedy else slice(None)
        for slope, weight in zip(prompt.series[SLOPE][rounds], prompt.series[WEIGHT][rounds]):
            num, den = found.get(prompt.cluster, (0.0, 0.0))
            found[prompt.cluster] = num + slope * weight, den + weight
    return found


def _counted(prompts: Iterable[PromptSamples], samples: Samples) -> tuple[float, float]:
    """(accepted, tested) of the rounds that the slopes are of."""
    counts = [c for prompt in prompts for c in prompt.counts[: 1 if samples.greedy else None]]
    return float(sum(c.accepted for c in counts)), float(sum(c.tested or 0 for c in counts))


def _slope(parts: Iterable[tuple[float, float]]) -> float:
    known = list(parts)
    return sum(num for num, _ in known) / sum(den for _, den in known)


def _amount(parts: _Parts) -> Amount:
    return Amount(len(parts), "conversations")


def _drift(gate: Gate, both: _Both, samples: Samples, context: JudgeContext) -> tuple[Check, ...]:
    now = _parts((new for new, _ in both), samples)
    old = _parts((_at(new, prompt) for new, prompt in both), samples)
    before = _slope(old.values())
    change: Evidence | CannotTell = exact(_slope(now.values()) - before)
    if not (samples.greedy and all(new.digest and new.digest == prompt.digest for new, prompt in both)):
        counted = tuple(map(sum, zip(*(_counted(side, samples) for side in zip(*both)))))
        change = gather(
            lambda alpha: rates.paired_slope_change(
                list(now.values()), [old[name] for name in now], (counted[0], counted[1]), (alpha, alpha)
            ),
            context,
            plain,
        )
    return drift_checks(gate, change, before, _amount(now))


def _at(new: PromptSamples, old: PromptSamples) -> PromptSamples:
    """The stored prompt in the conversation that it belongs to now."""
    return PromptSamples(old.prompt, new.cluster, old.series, old.counts, old.digest)
