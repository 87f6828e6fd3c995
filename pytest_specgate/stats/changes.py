"""Where a series of runs changed its level, or drifts: tested by permutation, so that the error holds for any noise.

A node of the series is split where the cumulative sum of its centred ranks is extreme, if fewer than ``alpha`` of all
orders of its values are as extreme. That is exact for values that may stand in any order, whatever their law; an
outlier has the weight of its rank alone. Halves are split further with half of the error rate each: parts in which
nothing changed are disjoint nodes, so that their rates add up to ``alpha`` at most. Where a straight line explains a
node better than its steps do (by Schwarz's criterion), it drifts.

Where a change lies is told as the range of positions that Hansen's (2000) limit of the likelihood ratio leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.stats.laws import t_above

_Vector = NDArray[np.float64]

#: Runs on either side of a change: one run alone is an outlier.
LEAST = 2
#: −2 ln(1 − √0.95): 95 % limit of the likelihood ratio of a change's position (Hansen 2000).
_HANSEN = 7.352
#: Values beyond this many robust deviations from their level weigh no more than one there.
_CLIP = 3.0
_MOST_ORDERS = 50_000
_BATCH = 250


@dataclass(frozen=True, slots=True)
class Change:
    """A step: the first index of the new level, the range that holds it at 95 %, and the levels on both sides."""

    at: int
    low: int
    high: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Piece:
    """Runs ``start`` to ``stop`` (exclusive) of one level, or on a line where ``slope`` (per run) is not zero."""

    start: int
    stop: int
    level: float
    slope: float = 0.0

    @property
    def first(self) -> float:
        """Its value at its first run."""
        return self.level - self.slope * (self.stop - self.start - 1)


@dataclass(frozen=True, slots=True)
class Course:
    """What a series did: its pieces in order, the steps between them, and the scatter about them.

    ``level`` of a drifting piece is its value at its last run. ``freedom`` are the scatter's degrees of freedom.
    """

    pieces: tuple[Piece, ...]
    changes: tuple[Change, ...]
    scatter: float
    freedom: int

    @property
    def last(self) -> Piece:
        """Where the series is now."""
        return self.pieces[-1]

    def half_width(self, alpha: float) -> float:
        """Half of the interval of the last level; infinite where the scatter is not known."""
        if self.freedom < 1:
            return math.inf
        # The end of a fitted line is known half as well as a mean of as many runs.
        runs = (self.last.stop - self.last.start) / (4 if self.last.slope else 1)
        return t_above(alpha / 2, self.freedom) * self.scatter / math.sqrt(max(runs, 1.0))

    def against(self, alpha: float) -> float:
        """Half of the interval of (last level − one stored run's value)."""
        if self.freedom < 1:
            return math.inf
        own = self.half_width(alpha)
        return math.hypot(own, t_above(alpha / 2, self.freedom) * self.scatter)


def course(values: Sequence[float], alpha: float, seed: int = 0) -> Course:
    """What the series did; claims any change where there is none with a chance of ``alpha`` at most."""
    data = np.asarray(values, dtype=float)
    pieces = tuple(_explain(data, 0, alpha, np.random.default_rng(seed)))
    changes = tuple(_change(data, before, after) for before, after in pairwise(pieces))
    residuals = np.concatenate([_residuals(data, piece) for piece in pieces])
    used = sum(2 if piece.slope else 1 for piece in pieces)
    freedom = data.size - used
    scatter = math.sqrt(float(residuals @ residuals) / freedom) if freedom > 0 else 0.0
    return Course(pieces, changes, scatter, freedom)


def least_runs(alpha: float) -> int:
    """Runs with which a perfect step can be told from chance, with some room for the error of drawing orders."""
    runs = 2 * LEAST
    while 4 / math.comb(runs, runs // 2) > alpha:
        runs += 1
    return runs


# --- splitting ---


def _explain(data: _Vector, offset: int, alpha: float, rng: np.random.Generator) -> list[Piece]:
    """The pieces of a node that begins at ``offset`` of the series."""
    if not _changed(data, alpha, rng):
        return [_level(data, offset)]
    at = _best_split(data)
    halves = ((data[:at], offset), (data[at:], offset + at))
    pieces = [piece for half, start in halves for piece in _explain(half, start, alpha / 2, rng)]
    line = _line(data, offset)
    stepped, sloped = (np.concatenate([_residuals(data, one, offset) for one in told]) for told in (pieces, [line]))
    reach = _CLIP * min(_deviation(stepped), _deviation(sloped))
    levels = sum(1.5 if piece.slope else 1.0 for piece in pieces)
    return [line] if _cost(sloped, reach, 1.5) < _cost(stepped, reach, levels) else pieces


def _cost(residuals: _Vector, reach: float, levels: float) -> float:
    """Schwarz's criterion: a level and a position for each step, two numbers for a line (``levels`` = 1.5).

    An outlier counts as one at ``reach``: else a few would blur every step into a slope.
    """
    squares = float((np.minimum(np.abs(residuals), reach) ** 2).sum()) if reach else float(residuals @ residuals)
    return residuals.size * math.log(max(squares, 1e-300)) + (2 * levels - 1) * math.log(residuals.size)


def _deviation(residuals: _Vector) -> float:
    """Robust standard deviation about zero."""
    return 1.4826 * float(np.median(np.abs(residuals)))


def _changed(data: _Vector, alpha: float, rng: np.random.Generator) -> bool:
    """Whether fewer than ``alpha`` of all orders of the values are as extreme as the one that was seen."""
    too_few = data.size < 2 * LEAST or 2 / math.comb(data.size, data.size // 2) > alpha
    if too_few or float(data.min()) == float(data.max()):
        return False
    ranks = _centred_ranks(data)
    seen = float(_extremes(ranks[None, :])[0]) * (1 - 1e-12)
    orders = min(math.ceil(10 / alpha), _MOST_ORDERS)
    allowed, as_extreme = alpha * (orders + 1) - 1, 0
    if allowed < 0:
        return False
    for done in range(0, orders, _BATCH):
        shuffled = rng.permuted(np.broadcast_to(ranks, (min(_BATCH, orders - done), ranks.size)), axis=1)
        as_extreme += int((_extremes(shuffled) >= seen).sum())
        if as_extreme > allowed:  # the rest cannot change the answer
            return False
    return True


def _centred_ranks(data: _Vector) -> _Vector:
    """Ranks less their mean, equal values sharing theirs."""
    _, places, counts = np.unique(data, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(middles[places.ravel()] - (data.size + 1) / 2, dtype=float)


def _extremes(rows: _Vector) -> _Vector:
    """Of each row, the largest standardised cumulative sum over all splits."""
    size = rows.shape[1]
    at = np.arange(LEAST, size - LEAST + 1)
    sums = np.abs(np.cumsum(rows, axis=1)[:, at - 1])
    return np.asarray((sums / np.sqrt(at * (size - at))).max(axis=1))


def _best_split(data: _Vector) -> int:
    """The split that leaves the least squares, outliers clipped about the levels that ranks suggest."""
    costs = _split_costs(_clipped(data, _rank_split(data)))
    return LEAST + int(np.argmin(costs))


def _rank_split(data: _Vector) -> int:
    at = np.arange(LEAST, data.size - LEAST + 1)
    sums = np.abs(np.cumsum(_centred_ranks(data))[at - 1])
    return int(at[np.argmax(sums / np.sqrt(at * (data.size - at)))])


def _clipped(data: _Vector, at: int) -> _Vector:
    """The values with outliers drawn to three robust deviations from the nearer of both levels."""
    levels = [float(np.median(part)) for part in (data[:at], data[at:])]
    residuals = np.concatenate([data[:at] - levels[0], data[at:] - levels[1]])
    reach = _CLIP * _deviation(residuals)
    if reach == 0:
        return data
    return np.clip(data, min(levels) - reach, max(levels) + reach)


def _split_costs(data: _Vector) -> _Vector:
    """Least squares of every split that leaves enough on both sides."""
    at = np.arange(LEAST, data.size - LEAST + 1)
    sums, squares = np.cumsum(data), float(data @ data)
    left, right = sums[at - 1], sums[-1] - sums[at - 1]
    return np.asarray(squares - left**2 / at - right**2 / (data.size - at))


# --- what the pieces say ---


def _level(data: _Vector, offset: int) -> Piece:
    return Piece(offset, offset + data.size, float(data.mean()))


def _line(data: _Vector, offset: int) -> Piece:
    x = np.arange(data.size) - (data.size - 1) / 2
    slope = float(x @ data / (x @ x))
    return Piece(offset, offset + data.size, float(data.mean()) + slope * (data.size - 1) / 2, slope)


def _residuals(data: _Vector, piece: Piece, offset: int = 0) -> _Vector:
    own = data[piece.start - offset : piece.stop - offset]
    return np.asarray(own - piece.first - piece.slope * np.arange(own.size))


def _change(data: _Vector, before: Piece, after: Piece) -> Change:
    """The step between two neighbours, and where it may lie if not here."""
    own = data[before.start : after.stop] - float(np.median(data[before.start : after.stop]))
    at = after.start - before.start
    drifting = before.slope or after.slope or own.size < 2 * LEAST + 1
    low, high = (at, at) if drifting else _range(own, at)
    start = before.start
    return Change(after.start, start + low, start + high, before.level, after.first)


def _range(data: _Vector, at: int) -> tuple[int, int]:
    costs = _split_costs(_clipped(data, at))
    freedom = data.size - 2
    noise = float(costs.min()) / freedom
    limit = costs.min() + _HANSEN * (t_above(0.025, freedom) / t_above(0.025, 1e9)) ** 2 * noise
    kept = LEAST + np.flatnonzero(costs <= limit)
    return int(min(kept.min(), at)), int(max(kept.max(), at))
