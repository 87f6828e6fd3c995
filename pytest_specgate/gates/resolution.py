"""What a baseline lets later builds resolve: the smallest change of a time or a ratio that is told from none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_specgate.gates.parts import units
from pytest_specgate.gates.shift import from_log
from pytest_specgate.gates.wording import demands
from pytest_specgate.metrics import Family
from pytest_specgate.records import Samples
from pytest_specgate.stats import paired
from pytest_specgate.stats.samplesize import resolvable_loss
from pytest_specgate.stats.scatter import within
from pytest_specgate.stats.signedrank import stored_median_factor
from pytest_specgate.suite.cases import Gate

_CENTRES = ("median", "mean")


@dataclass(frozen=True, slots=True)
class Resolution:
    """``least`` is the smallest relative change that a build resolves, ``allowed`` what the gate allows."""

    gate: str
    metric: str
    kind: str
    allowed: float
    least: float
    scatter: float


def resolutions(asked: Sequence[Gate], baseline: Samples, rounds: int, alpha: float) -> Iterator[Resolution]:
    """One for each allowed change of a time or a ratio, were ``baseline`` stored and builds measured ``rounds`` rounds.

    ``alpha`` is the error rate of a FAIL at one look. Metrics that were not measured, and tails, are left out.
    """
    for gate in asked:
        logs = _logs(gate, baseline)
        if not logs:
            continue
        observed = units(logs, baseline)
        stored_rounds = min(len(series) for series in logs.values())
        scatter = within(observed.groups)
        if scatter is None:  # one round: nothing is known of the noise
            scatter = math.inf
        factor = stored_median_factor(rounds, stored_rounds)
        least = resolvable_loss(scatter, len(observed.groups) * rounds, factor, alpha)
        level = from_log(float(np.mean([np.median(series) for series in logs.values()])))
        for kind, allowance in demands(gate):
            yield Resolution(gate.spec.label, gate.spec.metric, kind, allowance.of(level) / level, least, scatter)


def _logs(gate: Gate, samples: Samples) -> dict[str, list[float]]:
    """The series on which the gate's change is judged, in logs; none where it is not judged by a shift of logs."""
    family, metric = gate.spec.info.family, gate.spec.metric
    series = {p.prompt: p.series[metric] for p in samples.prompts if p.series.get(metric)}
    if not gate.spec.compares or not all(map(paired.sane, series.values())):
        return {}
    if family is Family.SPEEDUP:
        return {prompt: list(values) for prompt, values in series.items()}
    if family is Family.LATENCY and gate.spec.statistic in _CENTRES and all(min(v) > 0 for v in series.values()):
        return {prompt: [math.log(value) for value in values] for prompt, values in series.items()}
    return {}
