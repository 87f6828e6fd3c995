"""Limits for a mean or a quantile of single values: latencies as their users feel them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits

QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def statistic(values: Sequence[float], name: str, alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """The named statistic (mean, median, p90, p95, p99) with limits; quantiles by order statistics, free of any law."""
    data = np.sort(np.asarray(values, dtype=float))
    if not data.size or not np.isfinite(data).all():
        return CannotTell("there is no finite sample", "1 request")
    if name == "mean":
        return _mean(data, alpha_low, alpha_high)
    share = QUANTILES[name]
    # The k-th smallest of n lies below the quantile with probability P(Binomial(n, share) >= k).
    low = int(stats.binom.ppf(alpha_low, data.size, share)) - 1
    high = int(stats.binom.isf(alpha_high, data.size, share))
    estimate = float(np.quantile(data, share))
    if low < 0 or high > data.size - 1:
        needed = int(np.ceil(np.log(min(alpha_low, alpha_high)) / np.log(max(share, 1 - share))))
        return CannotTell(f"{data.size} requests cannot bound the {name}", f"{needed} requests")
    return Limits(estimate, float(data[low]), float(data[high]))


def _mean(data: np.ndarray, alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    if data.size < 2:
        return CannotTell("one request has no scatter to judge by", "2 requests")
    error = max(float(data.std(ddof=1)), 1e-9 * abs(float(data.mean()))) / float(np.sqrt(data.size))
    low, high = (float(stats.t.isf(alpha, data.size - 1)) * error for alpha in (alpha_low, alpha_high))
    return Limits(float(data.mean()), float(data.mean()) - low, float(data.mean()) + high)
