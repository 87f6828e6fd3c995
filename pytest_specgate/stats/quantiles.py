"""Limits for a mean or a quantile of single values: latencies as their users feel them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_specgate.stats.grouped import Grouped, Groups
from pytest_specgate.stats.laws import binomial_above, binomial_below
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import CLOCK_FLOOR, t_limits, unusable

QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def quantile(
    values: Sequence[float], share: float, alpha_low: float, alpha_high: float, independent: int | None = None
) -> Limits | CannotTell:
    """The quantile with order-statistic limits, free of any law; a limit beyond the data is infinite.

    ``independent`` says how many of the values are, where some share their noise; they then count for that many.
    Source: the k-th smallest of n lies above the quantile with probability P(Binomial(n, share) < k).
    """
    data = np.sort(np.asarray(values, dtype=float))
    if trouble := unusable(data):
        return trouble
    trials = min(independent or data.size, data.size)
    stretch = data.size / trials
    below = math.floor(stretch * binomial_below(alpha_low, trials, share)) - 1
    above = math.ceil(stretch * (binomial_above(alpha_high, trials, share) + 1)) - 1
    low = float(data[below]) if below >= 0 else -math.inf
    high = float(data[above]) if above < data.size else math.inf
    if math.isinf(low) and math.isinf(high):
        needed = min(requests_needed(share, alpha_low), requests_needed(1 - share, alpha_high))
        what = "request" if trials == data.size else "run"
        seen = f"1 {what} bounds" if trials == 1 else f"{trials} {what}s bound"
        return CannotTell(f"{seen} this quantile on neither side", f"{needed} {what}s")
    # Equal values of a coarse clock are no proof of more than its resolution.
    estimate = of_sorted(data.tolist(), share)
    floor = CLOCK_FLOOR * abs(estimate)
    return Limits(estimate, min(low, estimate - floor), max(high, estimate + floor))


def of_sorted(values: Sequence[float], share: float) -> float:
    """The quantile of ascending values, linear between neighbours, as numpy's default is."""
    place = share * (len(values) - 1)
    before = math.floor(place)
    low, high = values[before], values[min(before + 1, len(values) - 1)]
    part = place - before
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def requests_needed(share: float, alpha: float) -> int:
    """Requests of which the largest exceeds the ``share`` quantile, but for an error of ``alpha``."""
    return math.ceil(math.log(alpha) / math.log(share))


def mean_on_these(
    groups: Groups, alpha_low: float, alpha_high: float, weights: Sequence[float] | None = None
) -> Limits | CannotTell:
    """Arithmetic mean over prompts of the prompt means of positive times, on these prompts.

    Scatter is pooled in logs, for long calls scatter by more seconds than short ones. ``weights`` count groups that
    stand for several prompts.
    """
    data = Grouped.of(groups)
    if trouble := unusable(data.values):
        return trouble
    if (data.values <= 0).any():
        return CannotTell("a time is not positive", "a clock that resolves the shortest call")
    scatter, freedom = Grouped(np.log(data.values), data.sizes).scatter()
    if freedom < 1:
        return CannotTell("one round has no scatter to judge by", "2 rounds")
    given = np.ones(data.sizes.size) if weights is None else np.asarray(weights, dtype=float)
    parts = data.means * given / given.sum()
    error = max(scatter, CLOCK_FLOOR) * math.sqrt(float((parts**2 / data.sizes).sum()))
    return t_limits(float(parts.sum()), error, freedom, (alpha_low, alpha_high))
