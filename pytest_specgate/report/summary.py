"""Samples → one number per metric, for the old → new table of a baseline update and for reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from tabulate import tabulate

from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.records import Counts, Samples, Stored
from pytest_specgate.report.escape import flat
from pytest_specgate.units import format_value


def values(samples: Samples) -> dict[str, float]:
    """Every metric that the samples hold: geometric means of ratios, pooled acceptance, means else."""
    found: dict[str, float] = {}
    for name, metric in METRICS.items():
        if name in samples.scalars:
            found[name] = samples.scalars[name]
        elif groups := [p.series[name] for p in samples.prompts if p.series.get(name)]:
            mean = fmean(fmean(group) for group in groups)
            found[name] = math.exp(mean) if metric.family is Family.SPEEDUP else mean
    found |= _acceptance([count for prompt in samples.prompts for count in prompt.counts])
    return {name: found[name] for name in METRICS if name in found}


def _acceptance(counts: list[Counts]) -> dict[str, float]:
    drafted, tested = sum(c.drafted for c in counts), sum(c.tested for c in counts)
    accepted, rounds = sum(c.accepted for c in counts), sum(c.rounds for c in counts)
    if not (drafted and tested and rounds):
        return {}
    return {
        "acceptance_rate": accepted / drafted,
        "conditional_acceptance": accepted / tested,
        "acceptance_length": 1 + accepted / rounds,
    }


def change_lines(case: str, old: Stored | None, new: Stored) -> Iterator[str]:
    """What an update does to one case: old → new per metric, then what changed in the subject."""
    before, after = values(old.samples) if old else {}, values(new.samples)
    rows = [_row(name, before.get(name), after.get(name)) for name in METRICS if name in {**before, **after}]
    yield f"{flat(case)}: {'refreshed' if old else 'new'}"
    headers = ("metric", "old", "new", "change")
    yield from tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()
    if old is None:
        return
    for key in sorted({*new.subject, *old.subject}):
        was, now = old.subject.get(key, "-"), new.subject.get(key, "-")
        if was != now:
            yield f"  {flat(key)}: {flat(was)} → {flat(now)}"


def _row(name: str, old: float | None, new: float | None) -> tuple[str, str, str, str]:
    unit = METRICS[name].unit
    change = f"{new / old - 1:+.1%}" if old and new is not None else "-"
    was, now = ("-" if value is None else format_value(value, unit) for value in (old, new))
    return (name, was, now, change)
