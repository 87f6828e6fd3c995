"""What a case measured, in the numbers that a page shows: each with its 95 % interval where the data give one.

These describe; what a gate decides by are its verdict's own intervals, which hold its error rate. A number that is
not there is None, for which pages write "not measured".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_specgate.gates.parts import Units, units
from pytest_specgate.metrics import METRICS, Unit
from pytest_specgate.records import Arm, MemoryReading, Samples
from pytest_specgate.report.served import quantities
from pytest_specgate.samples.memory import SOURCES
from pytest_specgate.stats import paired, quantiles
from pytest_specgate.stats.grouped import Grouped
from pytest_specgate.stats.laws import t_above
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.rates import pooled_rate
from pytest_specgate.units import format_value

UNMEASURED = "not measured"
TAIL = 0.025
_TIMES = ("throughput", "ttft", "tpot", "itl", "e2el")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its limits; a limit that the data cannot give is None, and both are where there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ArmsRow:
    """One quantity of both arms, and candidate ÷ reference: of times and rates the mean over pairs of one prompt."""

    label: str
    unit: Unit
    reference: Estimate | None
    candidate: Estimate | None
    ratio: Estimate | None


def text(found: Estimate | None, unit: Unit) -> str:
    """``1.180x [1.150x, 1.210x]``; ``?`` for one limit that is open; "not measured" where there is no number."""
    if found is None or not math.isfinite(found.value):
        return UNMEASURED
    value = format_value(found.value, unit)
    if found.low is None and found.high is None:
        return value
    low, high = ("?" if end is None else format_value(end, unit) for end in (found.low, found.high))
    return f"{value} [{low}, {high}]"


def ratio_text(row: ArmsRow) -> str:
    """The ratio; ``-`` where both arms were measured and none can be formed, as of two zeros."""
    both = row.reference is not None and row.candidate is not None
    return "-" if both and row.ratio is None else text(row.ratio, Unit.RATIO)


def ends(found: Estimate) -> list[float]:
    """The value and the limits that are known."""
    return [end for end in (found.low, found.value, found.high) if end is not None]


def estimate(limits: Limits | CannotTell, otherwise: float | None = None) -> Estimate | None:
    """Limits as an estimate; the bare number ``otherwise`` where there are none."""
    if isinstance(limits, CannotTell):
        return None if otherwise is None or not math.isfinite(otherwise) else Estimate(otherwise)
    low, high = (end if math.isfinite(end) else None for end in (limits.low, limits.high))
    return Estimate(limits.estimate, low, high)


def pooled(counted: Sequence[Sequence[int]]) -> Estimate | None:
    """Σ hits ÷ Σ trials over clusters of (hits, trials), with limits that are shares too; None without a trial."""
    hits, trials = ([cluster[at] for cluster in counted if cluster[1]] for at in (0, 1))
    if not trials:
        return None
    found = estimate(pooled_rate(hits, trials, TAIL, TAIL), sum(hits) / sum(trials))
    if found is None or found.low is None or found.high is None:
        return found
    return Estimate(found.value, max(found.low, 0.0), min(found.high, 1.0))  # of few clusters: wider than a share is


def speedup(samples: Samples, name: str = "speedup") -> Estimate | None:
    """The geometric mean over these prompts."""
    observed = _observed(samples, name)
    return None if observed is None else _ratio(observed)


def by_prompt(samples: Samples) -> list[tuple[str, Estimate]]:
    """Each prompt's speedup, the slowest first; the scatter behind the limits is pooled over prompts."""
    series = {p.prompt: p.series["speedup"] for p in samples.prompts if p.series.get("speedup")}
    series = {prompt: logs for prompt, logs in series.items() if paired.sane(logs)}
    scatter, freedom = Grouped.of(list(series.values())).scatter() if series else (0.0, 0)
    found = []
    for prompt, logs in series.items():
        mean = fmean(logs)
        half = t_above(TAIL, freedom) * scatter / math.sqrt(len(logs)) if freedom else None
        ends = (None, None) if half is None else (math.exp(mean - half), math.exp(mean + half))
        found.append((prompt, Estimate(math.exp(mean), *ends)))
    return sorted(found, key=lambda pair: pair[1].value)


def by_round(samples: Samples) -> list[float]:
    """The geometric mean over prompts of every round that all prompts have."""
    series = [p.series["speedup"] for p in samples.prompts if p.series.get("speedup")]
    return [math.exp(fmean(logs)) for logs in zip(*series) if paired.sane(logs)]


def quantiles_of(samples: Samples, name: str) -> list[float] | None:
    """Quantiles 5, 25, 50, 75, 95 and 99 % over requests."""
    values = sorted(v for p in samples.prompts for v in p.series.get(name, ()))
    if not values or not paired.sane(values):
        return None
    return [quantiles.of_sorted(values, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)]


def median(samples: Samples, name: str) -> Estimate | None:
    """The median over requests with limits free of any law; requests of one block count as one."""
    observed = _observed(samples, name)
    if observed is None:
        return None
    values = [v for p in samples.prompts for v in p.series.get(name, ())]
    limits = quantiles.quantile(values, 0.5, TAIL, TAIL, len(observed.values))
    return estimate(limits, quantiles.of_sorted(sorted(values), 0.5))


def arms(samples: Samples, memory: dict[Arm, MemoryReading]) -> list[ArmsRow]:
    """Rates and times as medians over requests, memory peaks of each arm's own process, and what servers told."""
    rows = []
    for name in _TIMES:
        reference, candidate = median(samples, f"reference_{name}"), median(samples, name)
        label = "tokens per second" if name == "throughput" else f"{name}, median"
        rows.append(ArmsRow(label, METRICS[name].unit, reference, candidate, change(samples, name)))
    for name, label in (("vram", "device memory peak"), ("host_memory", "host memory peak")):
        peaks = [peak(memory.get(arm), name) for arm in Arm]
        one, other = (None if found is None else Estimate(found) for found in peaks)
        ratio = samples.scalars.get(f"{name}_ratio")
        rows.append(ArmsRow(label, Unit.BYTES, one, other, None if ratio is None else Estimate(ratio)))
    return rows + [_told(*told) for told in quantities(samples, memory)]


def _told(label: str, unit: Unit, values: Sequence[float | None]) -> ArmsRow:
    reference, candidate = (None if value is None else Estimate(value) for value in values)
    known = reference is not None and candidate is not None and reference.value > 0
    ratio = Estimate(candidate.value / reference.value) if known and candidate and reference else None
    return ArmsRow(label, unit, reference, candidate, ratio)


def peak(reading: MemoryReading | None, name: str) -> int | None:
    """The peak in bytes that the gate of this name would judge."""
    found = (getattr(reading, source, None) for source in SOURCES[name])
    return next((value for value in found if value), None)


def change(samples: Samples, name: str) -> Estimate | None:
    """Candidate ÷ reference of a series that both arms have, paired by prompt and round."""
    logs: dict[str, list[float]] = {}
    for prompt in samples.prompts:
        now, before = prompt.series.get(name, ()), prompt.series.get(f"reference_{name}", ())
        if len(now) == len(before) and all(value > 0 for value in (*now, *before)):
            logs[prompt.prompt] = [math.log(a / b) for a, b in zip(now, before)]
    observed = units({prompt: values for prompt, values in logs.items() if values}, samples)
    return _ratio(observed) if observed.values and paired.sane(observed.values) else None


def _observed(samples: Samples, name: str) -> Units | None:
    values = {p.prompt: p.series[name] for p in samples.prompts if p.series.get(name)}
    if not values or not all(map(paired.sane, values.values())):
        return None
    return units(values, samples)


def _ratio(observed: Units) -> Estimate | None:
    """The mean log with its t limits, as a ratio."""
    limits = paired.within_prompts(observed.groups, TAIL, TAIL, observed.weights)
    if isinstance(limits, CannotTell):
        return _exp(Estimate(_weighted(observed)))
    return _exp(Estimate(limits.estimate, limits.low, limits.high))


def _weighted(observed: Units) -> float:
    means: Sequence[float] = [fmean(group) for group in observed.groups]
    return sum(w * m for w, m in zip(observed.weights, means)) / sum(observed.weights)


def _exp(found: Estimate) -> Estimate | None:
    """Limits so wide that they are no floats are no limits."""
    try:
        value = math.exp(found.value)
        if found.low is None or found.high is None or found.high - found.low > math.log(1e4):
            return Estimate(value)
        return Estimate(value, math.exp(found.low), math.exp(found.high))
    except OverflowError:
        return None
