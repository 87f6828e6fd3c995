"""Measurement → Samples: the per-prompt numbers that gates judge and baselines keep. Pure reduction of traces.

A trace that contradicts itself makes the whole case invalid: a wrong counter is no regression, and no pass either.
Beside the metrics, ``series`` holds the reference arm's latencies (``reference_tpot``), the weight of each slope and,
where requests ran at the same time, ``block``: the number of the block, within its round, in which the prompt ran.
Where the arms were apart, all of a round is one block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import fmean

from pytest_specgate.errors import InvalidTrace
from pytest_specgate.identities import trace_problems
from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Arm, Measurement, Pair, PromptSamples, Samples, Trace
from pytest_specgate.samples import acceptance, device, growth, latency, memory, occupancy, output, serving, speed
from pytest_specgate.samples.blocks import block_numbers
from pytest_specgate.samples.choices import choices
from pytest_specgate.samples.draws import draws
from pytest_specgate.samples.semantic import BUNDLED

__all__ = ["reduce"]


def reduce(measurement: Measurement, metrics: Iterable[str] = METRICS) -> Samples:
    """The numbers of a measured case; text scores only for the ``metrics`` asked for. Raises InvalidTrace."""
    _refuse_invalid(measurement)
    by_prompt: dict[str, list[Pair]] = {}
    for pair in measurement.pairs:
        by_prompt.setdefault(pair.prompt, []).append(pair)
    wanted = frozenset(metrics)
    alone = [_prompt(name, pairs, wanted, measurement) for name, pairs in by_prompt.items()]
    together = _of_blocks(measurement.pairs, apart=measurement.apart)
    alike, unscored = _similarities(measurement, wanted)
    prompts = tuple(
        replace(p, series={**p.series, **together.get(p.prompt, {}), **alike.get(p.prompt, {})}) for p in alone
    )
    grown, used = growth.steps(measurement.memory), device.series(measurement)
    means = {name: fmean(values) for name, values in {**grown, **used}.items()}
    counted = {**serving.scalars(measurement.pairs), **occupancy.scalars(measurement.pairs)}
    scalars = {**memory.scalars(measurement.memory), **counted, **means}
    unscored = {**unscored, **memory.unscored(measurement.memory)}
    told = choices(measurement), draws(measurement)
    made = measurement.sweep, measurement.graded
    return Samples(measurement.case, measurement.greedy, prompts, scalars, *told, grown, used, *made, unscored)


def _similarities(
    measurement: Measurement, wanted: frozenset[str]
) -> tuple[Mapping[str, dict[str, tuple[float, ...]]], Mapping[str, str]]:
    """(series by prompt, why there are none) of the one text score that needs a model."""
    if "semantic_similarity" not in wanted:
        return {}, {}
    model = measurement.workload.get("embedding", BUNDLED)
    found, why = output.similarities(measurement.pairs, model, greedy=measurement.greedy)
    series = {prompt: {"semantic_similarity": values} for prompt, values in found.items()}
    return series, {"semantic_similarity": why} if why else {}


def _prompt(name: str, pairs: list[Pair], wanted: frozenset[str], measurement: Measurement) -> PromptSamples:
    greedy, stops = measurement.greedy, output.asked_stops(measurement)
    said = output.series(pairs, wanted, greedy=greedy, stops=stops)
    series = {**speed.series(pairs), **latency.series(pairs), **said}
    series |= acceptance.slopes(pairs)
    first = pairs[0].candidate
    told = ",".join(map(str, first.token_ids)) or first.text
    # Counts of several texts that ran side by side are not known again by one of them.
    alone = all(pair.candidate.told is None or pair.candidate.told.together == 1 for pair in pairs)
    return PromptSamples(
        prompt=name,
        cluster=pairs[0].cluster,
        series=series,
        counts=acceptance.counts(pairs),
        digest=hashlib.sha256(told.encode()).hexdigest()[:16] if alone else "",
    )


def _of_blocks(pairs: tuple[Pair, ...], *, apart: bool) -> Mapping[str, dict[str, tuple[float, ...]]]:
    """By prompt, the series that only all pairs together can tell; a fresh start of both arms is one block."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for arm, prefix in latency.PREFIXES.items():
        for prompt, rates in latency.throughput(pairs, arm).items():
            found.setdefault(prompt, {})[f"{prefix}throughput"] = rates
    numbers = {(pair.prompt, pair.round): 0 for pair in pairs} if apart else block_numbers(pairs)
    if numbers is not None:
        for prompt in dict.fromkeys(pair.prompt for pair in pairs):
            own = tuple(float(numbers[p.prompt, p.round]) for p in pairs if p.prompt == prompt)
            found.setdefault(prompt, {})["block"] = own
    return found


def _refuse_invalid(measurement: Measurement) -> None:
    if not measurement.pairs and measurement.sweep is None:
        raise InvalidTrace(f"{measurement.case}: nothing was measured — give the scenario at least one prompt")
    for pair in measurement.pairs:
        for trace in (pair.reference, pair.candidate):
            if problems := _problems(trace):
                where = f"{measurement.case}: {pair.prompt}, {trace.arm.value} arm, measuring round {pair.round + 1}"
                hint = "the engine's own counters contradict each other: mend what its adapter counts"
                raise InvalidTrace(f"{where}: {problems[0]} — {hint}")
        _refuse_mixed(measurement.case, pair)


def _problems(trace: Trace) -> tuple[str, ...]:
    """The broken identities, and times that say nothing was generated in any time."""
    problems = trace_problems(trace)
    if not problems and trace.seconds <= 0:
        return ("the output took no time at all",)
    return problems


def _refuse_mixed(case: str, pair: Pair) -> None:
    """A pair compares like with like, or its ratio means nothing."""
    arms = (pair.reference.arm, pair.candidate.arm)
    if arms != (Arm.REFERENCE, Arm.CANDIDATE):
        what = (
            f"{case}: {pair.prompt}, round {pair.round + 1}: traces come from the arms {arms[0].value}, {arms[1].value}"
        )
        raise InvalidTrace(f"{what} — a pair is one of each")
    prompts = {pair.prompt, pair.reference.prompt, pair.candidate.prompt}
    if len(prompts) > 1:
        what = f"{case}: a pair mixes prompts: {', '.join(sorted(prompts))}"
        raise InvalidTrace(f"{what} — a pair is one prompt by both arms")
