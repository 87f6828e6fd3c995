"""Bets against the claim that scores average zero: evidence that may be looked at after every token.

Each score deviates from its expectation by at most 1 either way. Whoever bets a share λ of a unit capital on every
deviation exceeding ``margin`` holds Π (1 + λ(±d − margin)) after n tokens: a non-negative supermartingale as long as no
conditional mean exceeds the margin. So does the average over scores, both signs and several λ, and by Ville's
inequality it ever reaches 1/α with chance α at most, however often it is looked at. (Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", JRSS B 2024.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Shares of the capital that are bet; small ones find small shifts late, large ones large shifts early.
BETS = (0.05, 0.15, 0.5)
#: The capital of bets on all tokens, in that of the bets on one part: most faults are not of a part.
WHOLE = 3.0
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stake:
    """What the bets came to: the natural log of the highest capital ever held, and after how many tokens.

    ``won_at`` is after how many tokens the capital was first worth 1/α, None where it never was. ``score`` is the
    series on which most was won at the highest, ``part`` the part of the tokens (empty: all), ``sign`` the direction.
    """

    log_peak: float
    peak_at: int
    won_at: int | None
    score: str
    part: str
    sign: int


@dataclass(frozen=True, slots=True)
class Shift:
    """A mean deviation and its standard error."""

    mean: float
    error: float


def stake(
    series: Mapping[str, Sequence[float]],
    margin: float,
    alpha: float,
    parts: Mapping[str, Sequence[bool]] | None = None,
) -> Stake:
    """Bet on deviations of several scores of the same tokens, in order, until they are worth 1/``alpha``, and on.

    The same is bet on those tokens alone that a part marks, with a third of the capital for each part; whether it does
    must be known before a token is drawn.
    Raises ValueError where there is no token, or a deviation is no number in [-1, 1], or the margin is not in [0, 1).
    """
    if not 0 <= margin < 1:
        raise ValueError(f"a margin of {margin:g} cannot be bet against — give one from 0 to below 1")
    columns = {name: _deviations(name, values) for name, values in series.items()}
    marks = {name: np.asarray(marked, dtype=np.bool_) for name, marked in (parts or {}).items()}
    lengths = sorted({len(column) for column in (*columns.values(), *marks.values())})
    if not columns or not lengths[-1]:
        raise ValueError("no token was scored — score at least one")
    if len(lengths) > 1:
        raise ValueError(f"scores of the same tokens are equally many — found {' and '.join(map(str, lengths))}")
    capitals = _capitals(columns, {"": np.ones(lengths[0], dtype=np.bool_), **marks}, margin)
    total = _log_mean(capitals)
    at = int(total.argmax())
    name, part, sign = max(capitals, key=lambda key: max(float(one[at]) for one in capitals[key]))
    beyond = np.flatnonzero(total >= -math.log(alpha))
    return Stake(float(total[at]), at + 1, int(beyond[0]) + 1 if len(beyond) else None, name, part, sign)


def _capitals(
    columns: Mapping[str, _Floats], marks: Mapping[str, NDArray[np.bool_]], margin: float
) -> dict[tuple[str, str, int], list[_Floats]]:
    """Log capitals after every token, by score, part and sign, one per bet; beside its part a bet is left alone."""
    return {
        (name, part, sign): [np.cumsum(np.log1p(bet * (sign * column - margin)) * marked) for bet in BETS]
        for name, column in columns.items()
        for part, marked in marks.items()
        for sign in (1, -1)
    }


def _deviations(name: str, values: Sequence[float]) -> _Floats:
    column = np.asarray(values, dtype=np.float64)
    if not np.all(np.abs(column) <= 1):  # false for what is no number, too
        raise ValueError(f"a deviation of {name} is no number from -1 to 1 — scores lie in [0, 1]")
    return column


def _log_mean(capitals: Mapping[tuple[str, str, int], Sequence[_Floats]]) -> _Floats:
    """The log of the mean capital after every token, each bet counted by what it began with."""
    stacked = np.stack([one for several in capitals.values() for one in several])
    begun = np.repeat([1.0 if part else WHOLE for _, part, _ in capitals], len(BETS))
    highest = stacked.max(axis=0)
    found: _Floats = highest + np.log(begun @ np.exp(stacked - highest) / begun.sum())
    return found


def shift(deviations: Sequence[float], variances: Sequence[float]) -> Shift:
    """The mean deviation of a score with the error that its variances under the claim give it."""
    count = len(deviations)
    if not count:
        raise ValueError("no token was scored — score at least one")
    return Shift(math.fsum(deviations) / count, math.sqrt(max(math.fsum(variances), 0.0)) / count)
