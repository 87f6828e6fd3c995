"""How much a baseline needs: enough that later builds resolve half of what each gate allows, within reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from pytest_specgate.gates.resolution import Resolution, resolutions
from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.records import PromptSamples, Samples
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.checks import by_rounds

#: More rounds than this buy little: the stored medians' noise is then a small part of a build's own.
MOST_ROUNDS = 16
#: A baseline is good when a change of this part of the allowed one can be told from none.
MARGIN = 0.5
#: An allowed change is this many times what sessions differ by, or restarts alone would fail builds (simulated).
SESSION_FACTOR = 5.0


def rounds_to_record(case: Case, rounds: int) -> Looks:
    """When to look while recording: from the suite's own number of rounds on, and further only for what compares.

    Where all gates are deterministic, one round tells all.
    """
    if not any(by_rounds(gate, greedy=case.sampling.greedy) for gate in case.gates):
        return Looks((1,))
    compares = any(gate.spec.compares for gate in case.gates)
    return Looks(tuple(range(rounds, MOST_ROUNDS + 1))) if compares and rounds < MOST_ROUNDS else Looks((rounds,))


def resolved(case: Case, samples: Samples, rounds: int, alpha: float) -> Iterator[Resolution]:
    """What builds of at most ``rounds`` rounds will resolve; ``alpha`` is a check's error rate over all its looks."""
    return resolutions(case.gates, samples, rounds, alpha / doubling(rounds).count)


def still_coarse(case: Case, samples: Samples, rounds: int, alpha: float) -> tuple[str, ...]:
    """What more rounds of recording would help, in words."""
    return tuple(
        f"{one.gate}: resolves {one.least:.1%}, wanted {MARGIN * one.allowed:.1%}"
        for one in resolved(case, samples, rounds, alpha)
        if one.least > MARGIN * one.allowed
    )


def merged(sessions: Sequence[Samples]) -> Samples:
    """All sessions as one run of more rounds; what there is one of per run is the first's."""
    prompts = tuple(map(_one_prompt, zip(*(session.prompts for session in sessions))))
    return replace(sessions[0], prompts=prompts)


def _one_prompt(sessions: Sequence[PromptSamples]) -> PromptSamples:
    first = sessions[0]
    series = {
        name: tuple(value for session in sessions for value in session.series.get(name, ())) for name in first.series
    }
    return replace(first, series=series, counts=tuple(count for session in sessions for count in session.counts))


def levels(sessions: Sequence[Samples]) -> dict[str, tuple[float, ...]]:
    """Mean log of each time and ratio, session by session; nothing for a single one."""
    if len(sessions) < 2:
        return {}
    found = {name: tuple(_level(session, name) for session in sessions) for name in METRICS}
    return {name: values for name, values in found.items() if all(map(math.isfinite, values))}


def _level(samples: Samples, metric: str) -> float:
    groups = [p.series[metric] for p in samples.prompts if p.series.get(metric)]
    family = METRICS[metric].family
    if not groups or family not in (Family.SPEEDUP, Family.LATENCY):
        return math.nan
    if family is Family.SPEEDUP:
        return fmean(fmean(group) for group in groups)
    return fmean(fmean(math.log(v) for v in group) for group in groups) if min(map(min, groups)) > 0 else math.nan


def spread(sessions: Sequence[float]) -> float:
    """Standard deviation of a metric's level between sessions, as a relative change; 0 where fewer than 3 tell it."""
    return math.expm1(stdev(sessions)) if len(sessions) > 2 else 0.0
