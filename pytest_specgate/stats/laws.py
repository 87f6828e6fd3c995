"""Quantiles of the laws that limits come from, without what scipy's distribution objects cost at every call.

The numbers are those of ``scipy.stats``; a build asks for the same few of them thousands of times.
"""

from __future__ import annotations

from functools import lru_cache

from scipy import special, stats


def t_above(alpha: float, freedom: float) -> float:
    """What Student's t exceeds with probability ``alpha``."""
    return float(-special.stdtrit(freedom, alpha))


def normal_above(alpha: float) -> float:
    """What a standard normal variable exceeds with probability ``alpha``."""
    return float(-special.ndtri(alpha))


@lru_cache(maxsize=4096)
def binomial_below(alpha: float, trials: int, share: float) -> int:
    """Smallest count that is not exceeded with probability ``alpha`` or more."""
    return int(stats.binom.ppf(alpha, trials, share))


@lru_cache(maxsize=4096)
def binomial_above(alpha: float, trials: int, share: float) -> int:
    """Smallest count that is exceeded with probability ``alpha`` or less."""
    return int(stats.binom.isf(alpha, trials, share))
