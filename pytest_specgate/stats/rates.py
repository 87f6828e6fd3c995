"""Limits for acceptance: ratios of counts that cluster by conversation.

Tokens of one text are accepted or refused together, so a binomial interval covers 40 % instead of 95 %; these treat
the conversation as the unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits


def pooled(hits: Sequence[float], trials: Sequence[float], alpha_low: float, alpha_high: float) -> Limits | CannotTell:
    """Σ hits ÷ Σ trials over clusters, with t limits from leverage-corrected residuals and Kish's degrees of freedom."""
    num, den = (np.asarray(x, dtype=float) for x in (hits, trials))
    num, den = num[den > 0], den[den > 0]
    if not den.size:
        return CannotTell("nothing was tested", "a run in which drafts are made")
    rate = float(num.sum() / den.sum())
    if den.size < 2:
        return CannotTell("one conversation says nothing about others", "2 conversations, better 16")
    weights = den / den.sum()
    residuals = (num - rate * den) / np.sqrt(1 - weights)
    freedom = float(1 / (weights**2).sum() - 1)
    error = float(np.sqrt((residuals**2).sum()) / den.sum())
    if error == 0.0:
        return CannotTell("all conversations show the same rate, so their scatter is unknown", "more conversations")
    return Limits(rate, rate - float(stats.t.isf(alpha_low, freedom)) * error, rate + float(stats.t.isf(alpha_high, freedom)) * error)


def paired_change(
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
    differences, weights = n1 / d1 - n0 / d0, d1 * d0 / (d1 + d0)
    mean = float((weights * differences).sum() / weights.sum())
    spread = float(((weights * (differences - mean)) ** 2).sum())
    error = float(np.sqrt(clusters / (clusters - 1) * spread) / weights.sum())
    low, high = (float(stats.t.isf(alpha, clusters - 1)) * error for alpha in (alpha_low, alpha_high))
    return Limits(mean, mean - low, mean + high)


def slope_per_doubling(
    clusters: Sequence[str], doublings: Sequence[float], hits: Sequence[float], trials: Sequence[float], alpha: float
) -> Limits | CannotTell:
    """Change of the rate per doubling of context, within clusters only: pooling confounds easy long prompts with decay."""
    names, x, h, t = np.asarray(clusters), *(np.asarray(v, dtype=float) for v in (doublings, hits, trials))
    numerators, denominators = [], []
    for name in np.unique(names):
        kept = (names == name) & (t > 0)
        if kept.sum() < 2:
            continue
        centred = x[kept] - np.average(x[kept], weights=t[kept])
        numerators.append(float((centred * h[kept]).sum()))
        denominators.append(float((t[kept] * centred**2).sum()))
    num, den = np.array(numerators), np.array(denominators)
    if num.size < 2 or den.sum() == 0:
        return CannotTell("too few conversations span a doubling of context", "2 conversations of different depths")
    slope = float(num.sum() / den.sum())
    spread = float(((num - slope * den) ** 2).sum())
    half = float(stats.t.isf(alpha, num.size - 1)) * float(np.sqrt(num.size / (num.size - 1) * spread) / den.sum())
    return Limits(slope, slope - half, slope + half)
