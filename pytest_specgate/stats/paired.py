"""Limits for log ratios of interleaved pairs: y[prompt] holds one value per round.

Two questions with two answers: "on these prompts" (the fixed set, pooled within-prompt scatter) and "on prompts like
these" (the population, scatter of prompt means). A gate in CI asks the first. Comparisons with stored medians use
Hodges–Lehmann limits from the exact signed-rank law: spikes that hit a few calls do not move them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits

#: Relative scatter below which a clock is not believed: equal samples of a coarse or simulated clock are no proof.
CLOCK_FLOOR = 1e-6
#: Up to here the signed-rank law is counted exactly; beyond, its normal limit is within a rank of it.
EXACT_TO = 256


def within_prompts(groups: Sequence[Sequence[float]], alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Mean over prompts of the prompt means, with t limits from the pooled scatter within prompts.

    ``alpha_low`` bounds the chance that the lower limit is too high, ``alpha_high`` that the upper one is too low.
    """
    arrays = [np.asarray(group, dtype=float) for group in groups if len(group)]
    if broken := _broken(arrays):
        return broken
    freedom = sum(a.size - 1 for a in arrays)
    if freedom < 1:
        return CannotTell("one round has no scatter to judge by", "2 rounds")
    variance = sum(float(((a - a.mean()) ** 2).sum()) for a in arrays) / freedom
    scatter = max(float(np.sqrt(variance)), CLOCK_FLOOR)
    mean = float(np.mean([a.mean() for a in arrays]))
    error = scatter * float(np.sqrt(sum(1 / a.size for a in arrays))) / len(arrays)
    return _t_limits(mean, error, freedom, alpha_low, alpha_high)


def over_prompts(groups: Sequence[Sequence[float]], alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Mean over prompts with t limits from the scatter of prompt means: "on prompts like these"."""
    arrays = [np.asarray(group, dtype=float) for group in groups if len(group)]
    if broken := _broken(arrays):
        return broken
    if len(arrays) < 2:
        return CannotTell("one prompt says nothing about prompts like it", "2 prompts, better 16")
    means = np.array([a.mean() for a in arrays])
    error = max(float(means.std(ddof=1)), CLOCK_FLOOR) / float(np.sqrt(means.size))
    return _t_limits(float(means.mean()), error, means.size - 1, alpha_low, alpha_high)


def hodges_lehmann(values: Sequence[float], alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Median of the pairwise means, with limits from inverting Wilcoxon's signed-rank test (exact to n = 256).

    Source: Hodges and Lehmann (1963); the limits are order statistics of the Walsh averages.
    """
    data = np.asarray(values, dtype=float).ravel()
    if broken := _broken([data]):
        return broken
    first, second = np.triu_indices(data.size)
    walsh = np.sort((data[first] + data[second]) / 2)
    low, high = (critical_rank(data.size, alpha) for alpha in (alpha_low, alpha_high))
    if min(low, high) < 0:
        needed = int(np.ceil(-np.log2(min(alpha_low, alpha_high))))
        return CannotTell(f"{data.size} pairs cannot reach an error of {min(alpha_low, alpha_high):.2g}", f"{needed} pairs")
    estimate = float(np.median(walsh))
    return Limits(estimate, min(float(walsh[low]), estimate - CLOCK_FLOOR), max(float(walsh[-1 - high]), estimate + CLOCK_FLOOR))


@lru_cache(maxsize=4096)
def critical_rank(n: int, alpha: float) -> int:
    """Largest w with P(W+ <= w) <= alpha under symmetry about zero; -1 if there is none."""
    if n > EXACT_TO:
        mean, deviation = n * (n + 1) / 4, np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return int(np.floor(mean - stats.norm.isf(alpha) * deviation - 0.5))
    law: NDArray[np.float64] = np.zeros(n * (n + 1) // 2 + 1)
    law[0] = 1.0
    for rank in range(1, n + 1):
        shifted = law.copy()
        shifted[rank:] += law[:-rank]
        law = shifted / 2
    return int(np.searchsorted(np.cumsum(law), alpha, side="right")) - 1


def stored_median_factor(rounds: int, stored_rounds: int) -> float:
    """How much wider limits against stored medians must be: the medians are noisy too, and shared by all rounds."""
    return float(np.sqrt(1 + rounds / (0.7 * max(stored_rounds, 1))))


def resolvable_loss(scatter: float, pairs: int, factor: float, alpha: float) -> float:
    """Smallest relative loss that a healthy build can be cleared of (power .95) with this many pairs of this scatter."""
    z = float(stats.norm.isf(alpha)) * factor + float(stats.norm.ppf(0.95))
    return float(-np.expm1(-z * scatter / np.sqrt(0.95 * max(pairs, 1))))


def scatter_within(groups: Sequence[Sequence[float]]) -> float | None:
    """Pooled standard deviation within prompts; None with a single round."""
    arrays = [np.asarray(group, dtype=float) for group in groups if len(group) > 1]
    freedom = sum(a.size - 1 for a in arrays)
    if freedom < 1:
        return None
    return float(np.sqrt(sum(float(((a - a.mean()) ** 2).sum()) for a in arrays) / freedom))


def slow_calls(reference: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], factor: float = 1.15) -> float:
    """One-sided Fisher p-value for more slow calls (above ``factor`` × own prompt's median) in the candidate arm.

    Hodges–Lehmann does not see stalls that hit only some calls; this does. Values are log times, grouped by prompt.
    """
    counts = []
    for arm in (candidate, reference):
        slow = sum(int((np.asarray(g, dtype=float) - np.median(g) > np.log(factor)).sum()) for g in arm if len(g))
        total = sum(len(g) for g in arm)
        counts.append([slow, total - slow])
    return float(stats.fisher_exact(counts, alternative="greater").pvalue)


def _broken(arrays: Sequence[NDArray[np.float64]]) -> CannotTell | None:
    if not arrays or not sum(a.size for a in arrays):
        return CannotTell("there is no sample", "1 prompt and 2 rounds")
    if not all(np.isfinite(a).all() for a in arrays):
        return CannotTell("a sample is not finite", "samples without NaN or infinity")
    return None


def _t_limits(estimate: float, error: float, freedom: float, alpha_low: float, alpha_high: float) -> Limits:
    return Limits(estimate, estimate - float(stats.t.isf(alpha_low, freedom)) * error,
                  estimate + float(stats.t.isf(alpha_high, freedom)) * error)  # fmt: skip
