"""Limits for acceptance: ratios of counts that cluster by conversation.

Tokens of one text are accepted or refused together, so a binomial interval covers 40 % instead of 95 %; these treat
the conversation as the unit. Scatter is never believed to be below the binomial one: conversations that happen to
agree would otherwise decide with certainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import t_limits

_Vector = NDArray[np.float64]


def pooled_rate(
    hits: Sequence[float], trials: Sequence[float], alpha_low: float, alpha_high: float
) -> Limits | CannotTell:
    """Σ hits ÷ Σ trials over clusters: t limits from leverage-corrected residuals with Kish's degrees of freedom."""
    num, den = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    num, den = num[den > 0], den[den > 0]
    if not den.size:
        return CannotTell("nothing was tested", "a run in which drafts are made")
    if not (np.isfinite(num).all() and np.isfinite(den).all()):
        return CannotTell("a count is not a finite number", "counts without NaN or infinity")
    if den.size < 2:
        return CannotTell("one conversation says nothing about others", "2 conversations, better 16")
    rate, weights = float(num.sum() / den.sum()), den / den.sum()
    residuals = (num - rate * den) / np.sqrt(1 - weights)
    error = math.sqrt(float((residuals**2).sum())) / float(den.sum())
    least = math.sqrt(_trial_variance(num, den) / float(den.sum()))
    return t_limits(rate, max(error, least), float(1 / (weights**2).sum() - 1), (alpha_low, alpha_high))


def paired_rate_change(
    now: Sequence[tuple[float, float]], stored: Sequence[tuple[float, float]], alpha_low: float, alpha_high: float
) -> Limits | CannotTell:
    """Rate now minus rate stored on the same clusters of (hits, trials): Mantel–Haenszel weights, t over clusters."""
    n1, d1 = np.asarray(now, dtype=float).reshape(-1, 2).T
    n0, d0 = np.asarray(stored, dtype=float).reshape(-1, 2).T
    kept = (d1 > 0) & (d0 > 0)
    n1, d1, n0, d0 = n1[kept], d1[kept], n0[kept], d0[kept]
    clusters = n1.size
    if clusters < 2:
        return CannotTell("too few conversations that both runs share", "2 conversations, better 16")
    if not all(np.isfinite(x).all() for x in (n1, d1, n0, d0)):
        return CannotTell("a count is not a finite number", "counts without NaN or infinity")
    differences, weights = n1 / d1 - n0 / d0, d1 * d0 / (d1 + d0)
    mean = float((weights * differences).sum() / weights.sum())
    spread = float(((weights * (differences - mean)) ** 2).sum()) * clusters / (clusters - 1)
    variance = _trial_variance(np.concatenate([n1, n0]), np.concatenate([d1, d0]))
    least = variance * float((weights**2 * (1 / d1 + 1 / d0)).sum())
    error = math.sqrt(max(spread, least)) / float(weights.sum())
    return t_limits(mean, error, clusters - 1, (alpha_low, alpha_high))


def slope_part(
    doublings: Sequence[float] | _Vector, hits: Sequence[float] | _Vector, trials: Sequence[float] | _Vector
) -> tuple[float, float] | None:
    """(covariance, variance) of one text's rate and context, weighted by trials; None where context is constant.

    Their ratio is the text's slope, and its variance is that of one trial ÷ the second of them.
    """
    x, n, t = (np.asarray(values, dtype=float) for values in (doublings, hits, trials))
    x, n, t = x[t > 0], n[t > 0], t[t > 0]
    if x.size < 2 or not np.isfinite(x).all():
        return None
    centred = x - np.average(x, weights=t)
    variance = float((t * centred**2).sum())
    return (float((centred * n).sum()), variance) if variance > 0 else None


def pooled_slope(
    parts: Sequence[tuple[float, float]], counted: tuple[float, float], alpha_low: float, alpha_high: float
) -> Limits | CannotTell:
    """Σ covariance ÷ Σ variance over clusters, t limits over them; ``counted`` are all (hits, trials).

    A slope is taken within texts only: pooling would take easy long prompts for less decay.
    """
    num, den = np.asarray(parts, dtype=float).reshape(-1, 2).T
    if num.size < 2:
        return CannotTell("too few conversations span different contexts", "2 conversations of several depths each")
    if not (np.isfinite(num).all() and np.isfinite(den).all()):
        return CannotTell("a slope is not a finite number", "counts without NaN or infinity")
    slope = float(num.sum() / den.sum())
    spread = float(((num - slope * den) ** 2).sum()) * num.size / (num.size - 1)
    least = _one_trial(counted) * float(den.sum())
    error = math.sqrt(max(spread, least)) / float(den.sum())
    return t_limits(slope, error, num.size - 1, (alpha_low, alpha_high))


def paired_slope_change(
    now: Sequence[tuple[float, float]],
    stored: Sequence[tuple[float, float]],
    counted: tuple[float, float],
    alphas: tuple[float, float],
) -> Limits | CannotTell:
    """Slope now minus slope stored on the same clusters of :func:`slope_part`, weighted as paired rates are.

    ``counted`` are all (hits, trials) of both runs, ``alphas`` the (lower, upper) error rates.
    """
    n1, d1 = np.asarray(now, dtype=float).reshape(-1, 2).T
    n0, d0 = np.asarray(stored, dtype=float).reshape(-1, 2).T
    if n1.size < 2:
        return CannotTell("too few conversations that both runs share", "2 conversations of several depths each")
    if not all(np.isfinite(x).all() for x in (n1, d1, n0, d0)):
        return CannotTell("a slope is not a finite number", "counts without NaN or infinity")
    differences, weights = n1 / d1 - n0 / d0, d1 * d0 / (d1 + d0)
    mean = float((weights * differences).sum() / weights.sum())
    spread = float(((weights * (differences - mean)) ** 2).sum()) * n1.size / (n1.size - 1)
    least = _one_trial(counted) * float((weights**2 * (1 / d1 + 1 / d0)).sum())
    return t_limits(mean, math.sqrt(max(spread, least)) / float(weights.sum()), n1.size - 1, alphas)


def _trial_variance(hits: _Vector, trials: _Vector) -> float:
    """Least variance of one trial.

    Accepted tokens per round are no share; there, one round that differs by the whole mean is the least.
    """
    total = float(trials.sum())
    if (hits <= trials).all():
        return _one_trial((float(hits.sum()), total))
    return (float(hits.sum()) / total) ** 2 / total


def _one_trial(counted: tuple[float, float]) -> float:
    """Variance of one trial of a share: binomial with one hit and one miss added, so that 0 and 1 are not certain."""
    hits, trials = counted
    share = min(max((hits + 1) / (trials + 2), 0.0), 1.0)
    return share * (1 - share)
