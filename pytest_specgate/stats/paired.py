"""t limits for values grouped by prompt: one group per prompt, one value per round, usually natural logs of ratios.

Two questions with two answers: "on these prompts" (the fixed set, pooled scatter within prompts) and "on prompts like
these" (the population, scatter of prompt means). A gate in CI asks the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.stats.grouped import Grouped, Groups
from pytest_specgate.stats.laws import t_above
from pytest_specgate.stats.limits import CannotTell, Limits

#: Relative scatter below which a clock is not believed. Equal samples are legitimate (simulated clocks), but equal
#: samples of a coarse clock are no proof of more than its resolution.
CLOCK_FLOOR = 1e-6
_LARGEST = 1e100


def within_prompts(
    groups: Groups, alpha_low: float, alpha_high: float, weights: Sequence[float] | None = None
) -> Limits | CannotTell:
    """Mean over prompts of the prompt means ("on these prompts"), from the scatter within prompts.

    ``alpha_low`` bounds the chance that the lower limit is too high, ``alpha_high`` that the upper one is too low;
    ``weights`` count groups that stand for several prompts. Groups may be of unequal sizes.
    """
    data = Grouped.of(groups)
    if trouble := unusable(data.values):
        return trouble
    scatter, freedom = data.scatter()
    if freedom < 1:
        return CannotTell("one round has no scatter to judge by", "2 rounds")
    given = np.ones(data.sizes.size) if weights is None else np.asarray(weights, dtype=float)
    share = given / given.sum()
    error = max(scatter, CLOCK_FLOOR) * math.sqrt(float((share**2 / data.sizes).sum()))
    return t_limits(float(share @ data.means), error, freedom, (alpha_low, alpha_high))


def over_prompts(groups: Groups, alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Mean over prompts with t limits from the scatter of prompt means ("on prompts like these")."""
    data = Grouped.of(groups)
    if trouble := unusable(data.values):
        return trouble
    means = data.means
    if means.size < 2:
        return CannotTell("one prompt says nothing about prompts like it", "2 prompts, better 16")
    error = max(float(means.std(ddof=1)), CLOCK_FLOOR) / math.sqrt(means.size)
    return t_limits(float(means.mean()), error, means.size - 1, (alpha_low, alpha_high))


def one_sample(values: Sequence[float], alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Mean of values with t limits from their own scatter; values that never differ are exact."""
    data = np.asarray(values, dtype=float)
    if trouble := unusable(data):
        return trouble
    if data.size < 2:
        return CannotTell("one value has no scatter to judge by", "2 of them, better 8")
    error = float(data.std(ddof=1)) / math.sqrt(data.size)
    return t_limits(float(data.mean()), error, data.size - 1, (alpha_low, alpha_high))


def between_runs(
    now: Groups,
    before: Groups,
    alpha_low: float,
    alpha_high: float,
    weights: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Limits | CannotTell:
    """Mean over prompts now − mean over prompts before, from the scatter within prompts of both runs.

    Both hold the same prompts, and no group may be empty; ``weights`` count groups that stand for several prompts.
    """
    data = Grouped.of([*now, *before])
    if trouble := unusable(data.values):
        return trouble
    scatter, freedom = data.scatter()
    if freedom < 1:
        return CannotTell("one round in each run has no scatter to judge by", "2 rounds")
    new, old = (np.asarray(given, dtype=float) for given in weights or (np.ones(len(now)), np.ones(len(before))))
    share = np.concatenate((new / new.sum(), -old / old.sum()))
    error = max(scatter, CLOCK_FLOOR) * math.sqrt(float((share**2 / data.sizes).sum()))
    return t_limits(float(share @ data.means), error, freedom, (alpha_low, alpha_high))


def unusable(values: NDArray[np.float64]) -> CannotTell | None:
    """Why no limits can come of these values, or None."""
    if not values.size:
        return CannotTell("there is no sample", "1 prompt and 2 rounds")
    if not bool((np.abs(values) < _LARGEST).all()):
        return CannotTell("a sample is not a finite number", "samples without NaN or infinity")
    return None


def sane(values: Sequence[float]) -> bool:
    """Whether all values are numbers whose squares are too: not NaN, not infinite, not a clock gone mad."""
    return all(-_LARGEST < value < _LARGEST for value in values)


def t_limits(estimate: float, error: float, freedom: float, alphas: tuple[float, float]) -> Limits:
    """Student's limits about an estimate with this standard error, for the (lower, upper) error rates."""
    below, above = (t_above(alpha, freedom) * error for alpha in alphas)
    return Limits(estimate, estimate - below, estimate + above)
