"""The environment rules: what must hold for a timing to mean anything, as one table.

A broken rule never fails a build: the case is measured once more, and if the rule is still broken its timing gates are
INCONCLUSIVE with the rule's name and the samples that show it. Thresholds are judgement, backed where possible by
simulation: interleaved pairs shrug off drift of 20 % and noise of 15 %, not more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_specgate.records import Finding, Pair, Trace

#: First to last block of the reference arm; pairs cancel what is below.
LARGEST_DRIFT = 0.20
#: Robust standard deviation of pair log ratios about their prompt's median.
LARGEST_NOISE = 0.15
#: First measured call against the median of its prompt's later ones.
COLD_FACTOR = 1.5
#: Cores that other processes may keep busy on a CPU device, as a share of all cores.
LARGEST_FOREIGN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Observed:
    """What the rules look at. ``foreign_cores`` and ``cores`` are None where the device is not the CPU."""

    pairs: Sequence[Pair]
    foreign_cores: float | None = None
    cores: int | None = None


def examine(observed: Observed) -> tuple[Finding, ...]:
    """Every rule's finding, in table order; a rule that has too little to look at holds and says so."""
    return tuple(rule(observed) for rule in RULES)


def _per_token(trace: Trace) -> float:
    return trace.seconds / max(trace.output_tokens, 1)


def _reference_drift(observed: Observed) -> Finding:
    name = "reference drift"
    by_prompt: dict[str, list[float]] = {}
    for pair in observed.pairs:
        by_prompt.setdefault(pair.prompt, []).append(_per_token(pair.reference))
    ratios = [times[-1] / times[0] for times in by_prompt.values() if len(times) > 1 and times[0] > 0]
    if not ratios:
        return Finding(name, True, "one round only: no drift to see")
    drift = median(ratios)
    detail = f"reference arm {drift - 1:+.1%} from first to last round (at most ±{LARGEST_DRIFT:.0%})"
    return Finding(name, abs(math.log(drift)) <= math.log1p(LARGEST_DRIFT), detail)


def _pair_noise(observed: Observed) -> Finding:
    name = "pair noise"
    by_prompt: dict[str, list[float]] = {}
    for pair in observed.pairs:
        reference, candidate = _per_token(pair.reference), _per_token(pair.candidate)
        if reference > 0 and candidate > 0:
            by_prompt.setdefault(pair.prompt, []).append(math.log(reference / candidate))
    centred = [y - median(ys) for ys in by_prompt.values() if len(ys) > 1 for y in ys]
    if not centred:
        return Finding(name, True, "one round only: no noise to see")
    # Centring r values on their own median shrinks the spread; two values carry one degree of freedom.
    rounds = len(observed.pairs) / len(by_prompt)
    noise = 1.4826 * median(abs(c) for c in centred) * math.sqrt(rounds / (rounds - 1))
    return Finding(name, noise <= LARGEST_NOISE, f"pairs scatter by {noise:.1%} (at most {LARGEST_NOISE:.0%})")


def _warm(observed: Observed) -> Finding:
    name = "warm start"
    first = observed.pairs[0]
    later = [p for p in observed.pairs[1:] if p.prompt == first.prompt]
    if not later:
        return Finding(name, True, "one round only: nothing to compare the first call with")
    factors = []
    for arm in ("reference", "candidate"):
        usual = median(_per_token(getattr(p, arm)) for p in later)
        factors.append(_per_token(getattr(first, arm)) / usual if usual > 0 else 1.0)
    worst = max(factors)
    return Finding(name, worst <= COLD_FACTOR, f"first call {worst:.2f}x its later ones (at most {COLD_FACTOR}x)")


def _foreign_load(observed: Observed) -> Finding:
    name = "foreign load"
    if observed.foreign_cores is None or observed.cores is None:
        return Finding(name, True, "the device is not the CPU")
    allowed = LARGEST_FOREIGN_SHARE * observed.cores
    detail = f"other processes used {observed.foreign_cores:.2f} of {observed.cores} cores (at most {allowed:.2f})"
    return Finding(name, observed.foreign_cores <= allowed, detail)


RULES: tuple[Callable[[Observed], Finding], ...] = (_reference_drift, _pair_noise, _warm, _foreign_load)
