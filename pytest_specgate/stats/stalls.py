"""Stalls that hit only some calls: a location estimate of pairs does not see them, this does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from scipy import stats

#: A call this many times slower than its prompt's median is slow.
SLOW = 1.15


def stall_check(reference: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]) -> float:
    """One-sided Fisher p-value for more slow calls in the candidate arm; 1 where nothing can be told.

    Values are natural logs of times, grouped by prompt; each arm's calls are compared with their own prompt's median.
    """
    (few, of), (many, calls) = slow_calls(reference), slow_calls(candidate)
    return _fisher(many, calls, few, of) if few or many else 1.0


def slow_calls(groups: Sequence[Sequence[float]]) -> tuple[int, int]:
    """(slow calls, all calls) of an arm; prompts with fewer than three calls have no median to speak of."""
    slow = calls = 0
    for group in groups:
        if len(group) < 3 or not all(map(math.isfinite, group)):
            continue
        middle = median(group)
        slow += sum(value - middle > math.log(SLOW) for value in group)
        calls += len(group)
    return slow, calls


def lopsided(values: Sequence[float]) -> tuple[float, int, int]:
    """(one-sided p-value, low outliers, high outliers) of log ratios about their median.

    Stalls that hit both arms alike leave as many low outliers as high ones; more low ones mean that the candidate arm
    stalls. An outlier is a pair further than :data:`SLOW` from the median. Equal chances make it a sign test.
    """
    middle = median(values)
    low = sum(value - middle < -math.log(SLOW) for value in values)
    high = sum(value - middle > math.log(SLOW) for value in values)
    return _sign_test(low, low + high), low, high


@lru_cache(maxsize=4096)
def _sign_test(low: int, both: int) -> float:
    return float(stats.binom.sf(low - 1, both, 0.5))


@lru_cache(maxsize=4096)
def _fisher(many: int, calls: int, few: int, of: int) -> float:
    table = [(many, calls - many), (few, of - few)]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)
