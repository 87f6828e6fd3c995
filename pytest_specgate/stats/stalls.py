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


def more_stalls(now: Sequence[float], before: Sequence[float]) -> float:
    """One-sided Fisher p-value for more slow pairs in one run of log ratios than in another."""
    return _fisher(slow_pairs(now), len(now), slow_pairs(before), len(before))


def slow_pairs(values: Sequence[float]) -> int:
    """Log ratios that lie more than :data:`SLOW` below their run's median: there the candidate arm stalled."""
    middle = median(values)
    return sum(value - middle < -math.log(SLOW) for value in values)


@lru_cache(maxsize=4096)
def _fisher(many: int, calls: int, few: int, of: int) -> float:
    table = [(many, calls - many), (few, of - few)]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)
