"""t limits for values grouped by prompt: one group per prompt, one value per round, usually natural logs of ratios.

Two questions with two answers: "on these prompts" (the fixed set, pooled scatter within prompts) and "on prompts like
these" (the population, scatter of prompt means). A gate in CI asks the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits

#: Relative scatter below which a clock is not believed. Equal samples are legitimate (simulated clocks), but equal
#: samples of a coarse clock are no proof of more than its resolution.
CLOCK_FLOOR = 1e-6
_LARGEST = 1e100

Groups = Sequence[Sequence[float]]


def within_prompts(
    groups: Groups, alpha_low: float, alpha_high: float, weights: Sequence[float] | None = None
) -> Limits | CannotTell:
    """Mean over prompts of the prompt means ("on these prompts"), from the scatter within prompts.

    ``alpha_low`` bounds the chance that the lower limit is too high, ``alpha_high`` that the upper one is too low;
    ``weights`` count groups that stand for several prompts. Groups may be of unequal sizes.
    """
    arrays = _arrays(groups)
    if trouble := unusable(arrays):
        return trouble
    scatter, freedom = pooled_scatter(arrays)
    if freedom < 1:
        return CannotTell("one round has no scatter to judge by", "2 rounds")
    share = _shares(weights, len(arrays))
    mean = float(sum(w * a.mean() for w, a in zip(share, arrays)))
    error = max(scatter, CLOCK_FLOOR) * math.sqrt(sum(w**2 / a.size for w, a in zip(share, arrays)))
    return t_limits(mean, error, freedom, (alpha_low, alpha_high))


def over_prompts(groups: Groups, alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Mean over prompts with t limits from the scatter of prompt means ("on prompts like these")."""
    arrays = _arrays(groups)
    if trouble := unusable(arrays):
        return trouble
    if len(arrays) < 2:
        return CannotTell("one prompt says nothing about prompts like it", "2 prompts, better 16")
    means = np.array([a.mean() for a in arrays])
    error = max(float(means.std(ddof=1)), CLOCK_FLOOR) / math.sqrt(means.size)
    return t_limits(float(means.mean()), error, means.size - 1, (alpha_low, alpha_high))


def between_runs(now: Groups, before: Groups, alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Mean over prompts of (mean now − mean before), from the scatter within prompts of both runs.

    ``now[i]`` and ``before[i]`` belong to one prompt; none may be empty.
    """
    arrays = [*_arrays(now), *_arrays(before)]
    if trouble := unusable(arrays):
        return trouble
    scatter, freedom = pooled_scatter(arrays)
    if freedom < 1:
        return CannotTell("one round in each run has no scatter to judge by", "2 rounds")
    prompts = len(now)
    change = float(np.mean([np.mean(n) - np.mean(b) for n, b in zip(now, before)]))
    error = max(scatter, CLOCK_FLOOR) * math.sqrt(sum(1 / a.size for a in arrays)) / prompts
    return t_limits(change, error, freedom, (alpha_low, alpha_high))


def pooled_scatter(groups: Groups | Sequence[NDArray[np.float64]]) -> tuple[float, int]:
    """(standard deviation within groups, its degrees of freedom); (0, 0) where every group has one value."""
    arrays = _arrays(groups)
    freedom = sum(a.size - 1 for a in arrays)
    if freedom < 1:
        return 0.0, 0
    return math.sqrt(sum(float(((a - a.mean()) ** 2).sum()) for a in arrays) / freedom), freedom


def unusable(arrays: Sequence[NDArray[np.float64]]) -> CannotTell | None:
    """Why no limits can come of these values, or None."""
    if not sum(a.size for a in arrays):
        return CannotTell("there is no sample", "1 prompt and 2 rounds")
    if not all(sane(a) for a in arrays):
        return CannotTell("a sample is not a finite number", "samples without NaN or infinity")
    return None


def sane(values: Sequence[float] | NDArray[np.float64]) -> bool:
    """Whether all values are numbers whose squares are too: not NaN, not infinite, not a clock gone mad."""
    return bool((np.abs(np.asarray(values, dtype=float)) < _LARGEST).all())


def t_limits(estimate: float, error: float, freedom: float, alphas: tuple[float, float]) -> Limits:
    """Student's limits about an estimate with this standard error, for the (lower, upper) error rates."""
    below, above = (float(stats.t.isf(alpha, freedom)) * error for alpha in alphas)
    return Limits(estimate, estimate - below, estimate + above)


def _arrays(groups: Groups | Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    return [np.asarray(group, dtype=float) for group in groups if len(group)]


def _shares(weights: Sequence[float] | None, groups: int) -> list[float]:
    given = [1.0] * groups if weights is None else list(weights)
    return [weight / sum(given) for weight in given]
