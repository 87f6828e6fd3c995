"""How much data would decide, and what a given amount can resolve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_specgate.stats.laws import normal_above, t_above

#: Chance that a healthy build is cleared by the amount of data that the planner names.
POWER = 0.95
#: A signed-rank test needs this many times the pairs that a t test on normal data does, inverted.
_RANK_EFFICIENCY = 0.95
#: No more than this is ever asked for.
_MOST = 10_000


def resolvable_loss(scatter: float, pairs: int, factor: float, alpha: float) -> float:
    """Smallest relative loss that is told from none with this many pairs of this scatter.

    ``scatter`` is the standard deviation of one pair's log ratio, ``factor`` widens for noise in stored medians, and
    ``alpha`` is the error rate of one look. Pairs whose ranks cannot reach it are judged by Student's t at best.
    """
    few = 2.0**-pairs > alpha
    z = (t_above(alpha, max(pairs - 1, 1)) if few else normal_above(alpha)) * factor - normal_above(POWER)
    return float(-np.expm1(-z * scatter / math.sqrt(_RANK_EFFICIENCY * max(pairs, 1))))


def amount_to_decide(have: int, half_width: float, gap: float) -> int | None:
    """How much data would make an interval of this half-width clear a bound ``gap`` away; None if none would."""
    if gap <= 0 or not math.isfinite(half_width):
        return None
    return max(have + 1, math.ceil(have * min(half_width / gap, 1e6) ** 2))


def amount_for(have: int, groups: int, excess: float, alpha: float) -> int:
    """How much of it would bring t limits that are ``excess`` times too wide to their width.

    ``groups`` have ``have`` values each, and give ``have − 1`` degrees of freedom each: with few of them it is less
    the noise that makes limits wide than not knowing it.
    """
    width = t_above(alpha, groups * (have - 1))
    for more in range(have + 1, _MOST):
        if t_above(alpha, groups * (more - 1)) * math.sqrt(have / more) * excess <= width:
            return more
    return _MOST


def scatter_of(values: Sequence[float]) -> float:
    """Robust standard deviation about the median: a few spikes do not move it."""
    data = np.asarray(values, dtype=float)
    return 1.4826 * float(np.median(np.abs(data - np.median(data)))) if data.size else 0.0
