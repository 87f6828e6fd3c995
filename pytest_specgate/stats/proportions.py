"""Exact limits for a share of independent trials (Clopper and Pearson): they cover at least what they promise."""

from __future__ import annotations

from scipy.stats import beta, fisher_exact


def exact_limits(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided limits of the share behind ``hits`` of ``trials``. Raises ValueError without a trial."""
    _refuse_impossible(hits, trials)
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.isf(tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def upper_limit(hits: int, trials: int, confidence: float = 0.95) -> float:
    """The one-sided upper limit: of 0 of n, the share that would still show nothing once in 20 times."""
    _refuse_impossible(hits, trials)
    return float(beta.isf(1 - confidence, hits + 1, trials - hits)) if hits < trials else 1.0


def chance_of_more(many: int, of: int, few: int, out_of: int) -> float:
    """One-sided Fisher p-value: how often chance alone puts as large a part of all hits on the first side, or larger.

    Raises ValueError where a side has no trial.
    """
    _refuse_impossible(many, of)
    _refuse_impossible(few, out_of)
    if many * out_of <= few * of:
        return 1.0
    return float(fisher_exact([(many, of - many), (few, out_of - few)], alternative="greater").pvalue)


def _refuse_impossible(hits: int, trials: int) -> None:
    if trials < 1 or not 0 <= hits <= trials:
        raise ValueError(f"{hits} of {trials} is no share — count at least one trial, and no more hits than trials")
