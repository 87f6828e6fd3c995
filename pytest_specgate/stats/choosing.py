"""How far two arithmetics of one model disagree, told by which tokens the one chose and the other would have.

Nothing but choices is known of the first (a server's greedy text), and the second's scores at each of its tokens. A
choice flips where noise in the margin exceeds it. The noise is taken to follow a two-sided exponential law, whose tails
are heavier than those of rounding; its scale has a likelihood, which small margins that did not flip bound from above
as flips bound it from below: so a sample without a single flip tells something too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import poisson

#: Margins beyond this, in logits, say nothing of noise that anything could be judged in.
_FAR = 12.0
#: Half of what the log-likelihood may fall by within a one-sided limit of 97.5 %.
_FALL = 1.92
_GRID = np.geomspace(1e-6, 8.0, 400)


def upper_scale(margins: Sequence[float], regrets: Sequence[float]) -> float:
    """The upper limit of the noise's scale, in logits.

    ``margins`` are of tokens that both would choose (best less second, ties left out), ``regrets`` of those that the
    first chose and the second would not (best less theirs).
    """
    kept = np.sort(np.asarray([m for m in margins if 0 < m < _FAR]))
    flips, lost = len(regrets), math.fsum(regrets)
    levels = np.asarray([_fit(kept, flips, lost, scale) for scale in _GRID])
    likely = levels >= levels.max() - _FALL
    return float(_GRID[np.flatnonzero(likely)[-1]])


def _fit(kept: np.ndarray, flips: int, lost: float, scale: float) -> float:
    """The log-likelihood of a scale."""
    stayed = float(np.log1p(-0.5 * np.exp(-kept / scale)).sum())
    return stayed + flips * math.log(0.5) - lost / scale


def beyond(tokens: float, density: float, scale: float, regret: float) -> float:
    """How many of so many tokens are expected to lie further below the choice than ``regret``, by noise alone.

    ``density`` is the part of tokens in each logit of margin, where margins are small.
    """
    return tokens * density * 0.5 * scale * math.exp(-regret / scale)


def reach(tokens: float, density: float, scale: float, expected: float) -> float:
    """The regret beyond which noise puts ``expected`` of so many tokens."""
    at_least = beyond(tokens, density, scale, 0.0)
    return scale * math.log(at_least / expected) if at_least > expected else 0.0


def more_than(count: int, expected: float) -> float:
    """How often chance alone makes so many or more of rare events of which so many are expected (Poisson)."""
    return float(poisson.sf(count - 1, expected)) if count else 1.0
