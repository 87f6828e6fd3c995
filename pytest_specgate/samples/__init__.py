"""Measurement → Samples: the per-prompt numbers that gates judge and baselines keep. Pure reduction of traces.

A trace that contradicts itself makes the whole case invalid: a wrong counter is no regression, and no pass either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pytest_specgate.errors import InvalidTrace
from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Measurement, Pair, PromptSamples, Samples, trace_problems
from pytest_specgate.samples import acceptance, latency, memory, output, speed


def reduce(measurement: Measurement, metrics: Iterable[str] = METRICS) -> Samples:
    """The numbers of a measured case; text scores only for the ``metrics`` asked for. Raises InvalidTrace."""
    _refuse_invalid(measurement)
    by_prompt: dict[str, list[Pair]] = {}
    for pair in measurement.pairs:
        by_prompt.setdefault(pair.prompt, []).append(pair)
    wanted = frozenset(metrics)
    prompts = tuple(_prompt(name, pairs, wanted, measurement.greedy) for name, pairs in by_prompt.items())
    return Samples(measurement.case, measurement.greedy, prompts, memory.scalars(measurement.memory))


def _prompt(name: str, pairs: list[Pair], wanted: frozenset[str], greedy: bool) -> PromptSamples:
    series = {**speed.series(pairs), **latency.series(pairs), **output.series(pairs, wanted, greedy=greedy)}
    ids = ",".join(map(str, pairs[0].candidate.token_ids))
    return PromptSamples(
        prompt=name,
        cluster=pairs[0].cluster,
        series=series,
        counts=acceptance.counts(pairs),
        digest=hashlib.sha256(ids.encode()).hexdigest()[:16],
    )


def _refuse_invalid(measurement: Measurement) -> None:
    if not measurement.pairs:
        raise InvalidTrace(f"{measurement.case}: nothing was measured — give the scenario at least one prompt")
    for pair in measurement.pairs:
        for trace in (pair.reference, pair.candidate):
            if problems := trace_problems(trace):
                where = f"{measurement.case}: {trace.prompt}, {trace.arm.value} arm, round {pair.round + 1}"
                raise InvalidTrace(f"{where}: {problems[0]} — the engine's own counters contradict each other")
