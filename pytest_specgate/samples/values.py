"""Samples → one number per metric: for tables, and for comparing over many baselines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.records import Counts, Samples
from pytest_specgate.samples.acceptance import SLOPE, WEIGHT


def values(samples: Samples) -> dict[str, float]:
    """Every metric that the samples hold: geometric means of ratios, pooled acceptance, means else."""
    found: dict[str, float] = {}
    for name, metric in METRICS.items():
        if name in samples.scalars:
            found[name] = samples.scalars[name]
        elif groups := [p.series[name] for p in samples.prompts if p.series.get(name)]:
            mean = fmean(fmean(group) for group in groups)
            found[name] = math.exp(mean) if metric.family is Family.SPEEDUP else mean
    found |= _slope(samples)
    found |= _acceptance([count for prompt in samples.prompts for count in prompt.counts])
    return {name: found[name] for name in METRICS if name in found}


def _slope(samples: Samples) -> dict[str, float]:
    """Slopes pooled by their weights."""
    held = [p.series for p in samples.prompts if p.series.get(SLOPE) and p.series.get(WEIGHT)]
    pairs = [pair for series in held for pair in zip(series[SLOPE], series[WEIGHT])]
    total = sum(weight for _, weight in pairs)
    return {SLOPE: sum(slope * weight for slope, weight in pairs) / total} if total > 0 else {}


def _acceptance(counts: list[Counts]) -> dict[str, float]:
    accepted, drafted = sum(c.accepted for c in counts), _sum(c.drafted for c in counts)
    tested, rounds = _sum(c.tested for c in counts), _sum(c.rounds for c in counts)
    if drafted == 0:
        return {}
    found = {"acceptance_rate": drafted, "conditional_acceptance": tested, "acceptance_length": rounds}
    offset = {"acceptance_length": 1}
    return {name: offset.get(name, 0) + accepted / trials for name, trials in found.items() if trials}


def _sum(values: Iterable[int | None]) -> int | None:
    """None where one of them is unmeasured."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)
