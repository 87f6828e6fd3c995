"""Rules about the pairs' own times: drift, noise, a cold start, and an advantage of going first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median

from pytest_specgate.measure.readings import Observed, Ruling
from pytest_specgate.records import Pair, Trace
from pytest_specgate.stats.looks import LEAST_FRESH_STARTS
from pytest_specgate.stats.scatter import within

#: First to last block of the reference arm; pairs cancel what is below.
LARGEST_DRIFT = 0.20
#: Robust standard deviation of a prompt's pair log ratios.
LARGEST_NOISE = 0.15
#: First measured call against the median of its prompt's later ones.
COLD_FACTOR = 1.5
#: The t value from which going first is said to matter; the schedule alternates, so it is never more than a note.
NOTABLE_ORDER_T = 4.0
#: Smaller effects are not worth a line, however sure: a simulated clock has no noise at all.
LEAST_ORDER_EFFECT = 0.005
#: With fewer degrees of freedom a t of 4 is no rarity.
LEAST_FREEDOM = 5


def reference_drift(observed: Observed) -> Ruling:
    """Median over prompts of the reference arm's last time per token against its first."""
    by_prompt: dict[str, list[float]] = {}
    for pair in observed.pairs:
        by_prompt.setdefault(pair.prompt, []).append(_per_token(pair.reference))
    ratios = [times[-1] / times[0] for times in by_prompt.values() if len(times) > 1 and times[0] > 0]
    if not ratios:
        return Ruling(True, "one round only: no drift to see")
    drift = median(ratios)
    detail = f"reference arm {drift - 1:+.1%} from first to last round (at most ±{LARGEST_DRIFT:.0%})"
    return Ruling(abs(math.log(drift)) <= math.log1p(LARGEST_DRIFT), detail)


def fresh_starts(observed: Observed) -> Ruling:
    """Whether arms that cannot be up together were started anew often enough."""
    if not observed.apart:
        return Ruling(True, "the arms run side by side")
    starts = len({pair.round for pair in observed.pairs})
    detail = f"each arm was started anew {starts} time{'s' * (starts != 1)} (at least {LEAST_FRESH_STARTS})"
    return Ruling(starts >= LEAST_FRESH_STARTS, detail)


def pair_noise(observed: Observed) -> Ruling:
    """Robust spread of a prompt's log ratios over the rounds of the run.

    The candidate's time is taken by token, and by its own rounds where it tells them: how many of those a drawn text
    needs differs from draw to draw, and is no matter of the machine. What either explains is no noise.
    """
    spreads = [within(_log_ratios(observed.pairs, cost).values()) for cost in (_per_token, _per_step)]
    noise = min((spread for spread in spreads if spread is not None), default=None)
    if noise is None:
        return Ruling(True, "one round only: no noise to see")
    return Ruling(noise <= LARGEST_NOISE, f"pairs scatter by {noise:.1%} (at most {LARGEST_NOISE:.0%})")


def warm_start(observed: Observed) -> Ruling:
    """The first pair's calls against the same prompt's later ones, the worse arm."""
    first = observed.pairs[0]
    later = [p for p in observed.pairs[1:] if p.prompt == first.prompt]
    if not later:
        return Ruling(True, "one round only: nothing to compare the first call with")
    factors = []
    for arm in ("reference", "candidate"):
        usual = median(_per_token(getattr(p, arm)) for p in later)
        factors.append(_per_token(getattr(first, arm)) / usual if usual > 0 else 1.0)
    worst = max(factors)
    return Ruling(worst <= COLD_FACTOR, f"first call {worst:.2f}x its later ones (at most {COLD_FACTOR}x)")


def order_effect(observed: Observed) -> Ruling:
    """How the measured ratio depends on which arm went first, within prompts, and how sure that is."""
    found = _order_effect(observed.pairs)
    if found is None:
        return Ruling(True, "too few rounds: no effect of the order to see")
    effect, t = found
    detail = f"pairs that the reference arm began: ratio {math.expm1(effect):+.1%} (t = {t:+.1f})"
    if abs(t) > NOTABLE_ORDER_T and abs(effect) >= LEAST_ORDER_EFFECT:
        return Ruling(True, f"{detail}; alternating orders cancel it", noted=True)
    return Ruling(True, detail)


def _order_effect(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """AB minus BA in log ratio, and its t value: least squares on the order with a level per prompt."""
    by_prompt: dict[str, list[tuple[float, float]]] = {}
    for pair in pairs:
        if (y := _log_ratio(pair)) is not None:
            by_prompt.setdefault(pair.prompt, []).append((0.5 if pair.order == "AB" else -0.5, y))
    centred = [point for points in by_prompt.values() for point in _centred(points)]
    freedom = len(centred) - len(by_prompt) - 1
    spread = sum(x * x for x, _ in centred)
    if freedom < LEAST_FREEDOM or spread == 0:
        return None
    effect = sum(x * y for x, y in centred) / spread
    error = math.sqrt(sum((y - effect * x) ** 2 for x, y in centred) / freedom / spread)
    return effect, effect / error if error > 0 else math.copysign(math.inf, effect) if effect else 0.0


def _centred(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    x_mean, y_mean = fmean(x for x, _ in points), fmean(y for _, y in points)
    return [(x - x_mean, y - y_mean) for x, y in points]


def _log_ratios(pairs: Sequence[Pair], cost: Callable[[Trace], float]) -> dict[str, list[float]]:
    by_prompt: dict[str, list[float]] = {}
    for pair in pairs:
        if (y := _log_ratio(pair, cost)) is not None:
            by_prompt.setdefault(pair.prompt, []).append(y)
    return by_prompt


def _per_token(trace: Trace) -> float:
    return trace.seconds / max(trace.output_tokens, 1)


def _per_step(trace: Trace) -> float:
    """Seconds of a target forward: of a round, or of a token where rounds are not told."""
    return trace.seconds / max(len(trace.rounds), 1) if trace.rounds is not None else _per_token(trace)


def _log_ratio(pair: Pair, cost: Callable[[Trace], float] = _per_token) -> float | None:
    reference, candidate = cost(pair.reference), cost(pair.candidate)
    return math.log(reference / candidate) if reference > 0 and candidate > 0 else None
