"""Limits for a mean or a quantile of single values: latencies as their users feel them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import CLOCK_FLOOR, Groups, pooled_scatter, t_limits, unusable

QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def quantile(
    values: Sequence[float], share: float, alpha_low: float, alpha_high: float, independent: int | None = None
) -> Limits | CannotTell:
    """The quantile with order-statistic limits, free of any law; a limit beyond the data is infinite.

    ``independent`` says how many of the values are, where some share their noise; they then count for that many.
    Source: the k-th smallest of n lies above the quantile with probability P(Binomial(n, share) < k).
    """
    data = np.sort(np.asarray(values, dtype=float))
    if trouble := unusable([data]):
        return trouble
    trials = min(independent or data.size, data.size)
    stretch = data.size / trials
    below = math.floor(stretch * int(stats.binom.ppf(alpha_low, trials, share))) - 1
    above = math.ceil(stretch * (int(stats.binom.isf(alpha_high, trials, share)) + 1)) - 1
    low = float(data[below]) if below >= 0 else -math.inf
    high = float(data[above]) if above < data.size else math.inf
    if math.isinf(low) and math.isinf(high):
        needed = min(requests_needed(share, alpha_low), requests_needed(1 - share, alpha_high))
        seen = "1 request bounds" if data.size == 1 else f"{data.size} requests bound"
        return CannotTell(f"{seen} this quantile on neither side", f"{needed} requests")
    # Equal values of a coarse clock are no proof of more than its resolution.
    estimate = float(np.quantile(data, share))
    floor = CLOCK_FLOOR * abs(estimate)
    return Limits(estimate, min(low, estimate - floor), max(high, estimate + floor))


def requests_needed(share: float, alpha: float) -> int:
    """Requests of which the largest exceeds the ``share`` quantile, but for an error of ``alpha``."""
    return math.ceil(math.log(alpha) / math.log(share))


def mean_on_these(groups: Groups, alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Arithmetic mean over prompts of the prompt means of positive times, on these prompts.

    Scatter is pooled in logs, for long calls scatter by more seconds than short ones.
    """
    arrays = [np.asarray(group, dtype=float) for group in groups if len(group)]
    if trouble := unusable(arrays):
        return trouble
    if any((a <= 0).any() for a in arrays):
        return CannotTell("a time is not positive", "a clock that resolves the shortest call")
    scatter, freedom = pooled_scatter([np.log(a) for a in arrays])
    if freedom < 1:
        return CannotTell("one round has no scatter to judge by", "2 rounds")
    means = [float(a.mean()) for a in arrays]
    error = max(scatter, CLOCK_FLOOR) * math.sqrt(sum(m**2 / a.size for m, a in zip(means, arrays))) / len(arrays)
    return t_limits(float(np.mean(means)), error, freedom, (alpha_low, alpha_high))
