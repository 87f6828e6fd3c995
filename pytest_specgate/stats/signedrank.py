"""Hodges–Lehmann: a shift of paired log ratios with limits from the signed-rank law.

Spikes in a few calls do not move it, and it assumes symmetry alone.

Source: Hodges and Lehmann (1963); the limits are order statistics of the Walsh averages, which inverts Wilcoxon's test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.stats.laws import normal_above
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import CLOCK_FLOOR, unusable

#: Up to this many pairs the signed-rank law is counted exactly; beyond, its normal limit is within a rank of it and
#: errs towards wider limits, for the law's tails are the lighter ones.
EXACT_TO = 256
#: Up to this many pairs all Walsh averages are written down; beyond, they are counted without being written.
_LIST_TO = 1024


def hodges_lehmann(values: Sequence[float], alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Median of the pairwise means with its limits. Equal samples leave the clock's resolution as a half-width."""
    data = np.sort(np.asarray(values, dtype=float).ravel())
    if trouble := unusable(data):
        return trouble
    low, high = (critical_rank(data.size, alpha) for alpha in (alpha_low, alpha_high))
    if min(low, high) < 0:
        least = min(alpha_low, alpha_high)
        needed = math.ceil(-math.log2(least))
        return CannotTell(f"{data.size} pairs cannot reach an error of {least:.2g}", f"{needed} pairs")
    averages = data.size * (data.size + 1) // 2
    ranks = (low, (averages - 1) // 2, averages // 2, averages - 1 - high)
    lower, first, second, upper = _walsh(data, ranks)
    estimate = (first + second) / 2
    return Limits(estimate, min(lower, estimate - CLOCK_FLOOR), max(upper, estimate + CLOCK_FLOOR))


@lru_cache(maxsize=4096)
def critical_rank(n: int, alpha: float) -> int:
    """Largest w with P(W+ <= w) <= alpha under symmetry about zero; -1 if there is none."""
    if n > EXACT_TO:
        mean, deviation = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return math.floor(mean - normal_above(alpha) * deviation - 0.5)
    law: NDArray[np.float64] = np.zeros(n * (n + 1) // 2 + 1)
    law[0] = 1.0
    for rank in range(1, n + 1):
        # Halving at each step keeps the counts, which reach 2**n, within a float.
        law[rank:] += law[:-rank].copy()
        law /= 2
    return int(np.searchsorted(np.cumsum(law), alpha, side="right")) - 1


def _walsh(data: NDArray[np.float64], ranks: Sequence[int]) -> list[float]:
    """The Walsh averages (pairwise means, each value with itself too) of these ranks, counting from 0."""
    if data.size <= _LIST_TO:
        first, second = _pairs(data.size)
        averages = np.partition((data[first] + data[second]) / 2, ranks)
        return [float(averages[rank]) for rank in ranks]
    return [_walsh_by_counting(data, rank) for rank in ranks]


@lru_cache(maxsize=8)
def _pairs(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index pairs i <= j: the same for every prompt set that has as many pairs."""
    return np.triu_indices(size)


def _walsh_by_counting(data: NDArray[np.float64], rank: int) -> float:
    """Bisect on the value: how many averages are at most x takes one sorted search, not n² numbers."""
    low, high = float(data[0]), float(data[-1])
    own = np.arange(data.size)
    for _ in range(64):
        middle = (low + high) / 2
        # Partners j >= i with data[j] <= 2·middle − data[i].
        partners = np.searchsorted(data, 2 * middle - data, side="right") - own
        if int(np.maximum(partners, 0).sum()) > rank:
            high = middle
        else:
            low = middle
    return high


def stored_median_factor(rounds: int, stored_rounds: int) -> float:
    """How much wider limits against stored medians are: the medians are noisy too, and shared by all rounds.

    0.7 stands for the median's efficiency; without the factor wrong verdicts at the limit are
    five to ten times too many.
    """
    return math.sqrt(1 + rounds / (0.7 * max(stored_rounds, 1)))
