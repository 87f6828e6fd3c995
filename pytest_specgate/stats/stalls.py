"""Stalls that hit only some calls: a location estimate of pairs does not see them, this does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

#: A call this many times slower than its prompt's median is slow.
SLOW = 1.15


def stall_check(reference: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]) -> float:
    """One-sided Fisher p-value for more slow calls in the candidate arm; 1 where nothing can be told.

    Values are natural logs of times, grouped by prompt; each arm's calls are compared with their own prompt's median.
    """
    table = [(slow, calls - slow) for slow, calls in map(slow_calls, (candidate, reference))]
    if not any(slow for slow, _ in table):
        return 1.0
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


def slow_calls(groups: Sequence[Sequence[float]]) -> tuple[int, int]:
    """(slow calls, all calls) of an arm; prompts with fewer than three calls have no median to speak of."""
    slow = calls = 0
    for group in groups:
        data = np.asarray(group, dtype=float)
        if data.size < 3 or not np.isfinite(data).all():
            continue
        slow += int((data - np.median(data) > math.log(SLOW)).sum())
        calls += data.size
    return slow, calls
