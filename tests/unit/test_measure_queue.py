"""Requests that wait for each other's place: what runs together, what is one observation, what stored numbers mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate import samples
from pytest_specgate.baseline import mismatch
from pytest_specgate.engines.base import EngineContext, Queues
from pytest_specgate.engines.planted import planted
from pytest_specgate.engines.plants import parse_plant
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.gates.parts import units
from pytest_specgate.measure.run import Plan, measure_case
from pytest_specgate.records import Arm, Capability, Measurement, Stored
from pytest_specgate.stats.looks import Looks
from pytest_specgate.suite.cases import Case, Suite
from tests.unit.apart_engines import OneAtATime
from tests.unit.project import PROMPTS, context, load, started, write
from tests.unit.queueing import CHANGE_NS, Boastful, Queueing

A, B = Arm.REFERENCE, Arm.CANDIDATE
EVERYBODY = tuple(str(prompt["id"]) for prompt in PROMPTS)
TALKS = [{"id": f"c{n}", "turns": [f"Say {n}.", "Say it again.", "Once more."][: 1 + n % 3]} for n in range(5)]


def plan(rounds: int = 2, told: list[str] | None = None) -> Plan:
    return Plan(Looks((rounds,)), 1, None, lambda *_: ["open"], (told if told is not None else []).append)


def asked(folder: Path, **scenario: object) -> tuple[Suite, Case]:
    options: Mapping[str, object] = {"tokens": 8, "noise": 0.0}
    return load(write(folder, options=options, scenario=scenario or {"concurrency": [2]}))


def taken(folder: Path, **scenario: object) -> tuple[Queueing, Measurement]:
    suite, case = asked(folder, **scenario)
    engine = Queueing(context(suite))
    return engine, measure_case(engine, case, plan())


def test_a_round_is_one_run_of_all_requests_and_its_arms_take_turns(tmp_path: Path) -> None:
    engine, measurement = taken(tmp_path)

    assert engine.calls[2:] == [(arm, EVERYBODY, 2) for arm in (A, B, B, A)]
    assert [pair.order for pair in measurement.pairs] == ["AB"] * 6 + ["BA"] * 6
    assert {pair.run for pair in measurement.pairs} == {0}
    assert [pair.prompt for pair in measurement.pairs] == [*EVERYBODY, *EVERYBODY]


@pytest.mark.parametrize("scenario", [{"concurrency": [1]}, {"concurrency": [6]}, {"load": {"rate": "4/s"}}], ids=str)
def test_where_nobody_has_to_wait_nothing_changes(tmp_path: Path, scenario: dict[str, Any]) -> None:
    suite, case = asked(tmp_path, **scenario)
    engine = Queueing(context(suite))
    engine.capabilities |= {Capability.ARRIVALS}

    measurement = measure_case(engine, case, plan())

    assert {slots for _, _, slots in engine.calls} == {None}
    assert {pair.run for pair in measurement.pairs} == {None}
    assert "batching" not in measurement.workload


def test_a_turn_of_all_conversations_is_a_run(tmp_path: Path) -> None:
    suite, case = load(
        write(tmp_path, prompts=TALKS, options={"tokens": 8, "noise": 0.0}, scenario={"concurrency": [2]})
    )
    engine = Queueing(context(suite))

    measurement = measure_case(engine, case, plan(rounds=1))

    first, second = ("c0", "c1/1", "c2/1", "c3", "c4/1"), ("c1/2", "c2/2", "c4/2")
    assert engine.calls[2:] == [
        (A, first, 2),
        (B, first, 2),
        (B, second, 2),
        (A, second, 2),
        (A, ("c2/3",), 2),
        (B, ("c2/3",), 2),
    ]
    assert [pair.run for pair in measurement.pairs] == [0] * 5 + [1] * 3 + [2]
    blocks = {p.prompt: p.series["block"] for p in samples.reduce(measurement).prompts}
    assert blocks == {**dict.fromkeys(first, (0.0,)), **dict.fromkeys(second, (1.0,)), "c2/3": (2.0,)}


def test_a_run_is_one_observation_even_where_its_requests_never_overlap(tmp_path: Path) -> None:
    # With as many places as there are kinds of lengths, everybody ends at once and the next ones begin afterwards.
    _, measurement = taken(tmp_path, concurrency=[3])
    by_start = sorted(measurement.pairs[:6], key=lambda pair: pair.candidate.submit_ns)
    assert max(pair.candidate.chunks[-1].t_ns for pair in by_start[:1]) < by_start[-1].candidate.submit_ns

    found = samples.reduce(measurement)

    assert {p.series["block"] for p in found.prompts} == {(0.0, 0.0)}
    observed = units({p.prompt: p.series["speedup"] for p in found.prompts}, found)
    assert [len(group) for group in observed.groups] == [2]
    assert observed.weights == (6.0,)


def test_waiting_is_no_part_of_a_requests_time_and_throughput_is_that_of_the_whole_run(tmp_path: Path) -> None:
    engine, measurement = taken(tmp_path)
    found = samples.reduce(measurement)

    # 10 ms a token of the reference arm, 8 tokens, as often as the prompt's number says.
    alone = {p.prompt: p.series["reference_e2el"][0] for p in found.prompts}
    assert alone == pytest.approx({f"q{n}": 0.08 * (1 + n % 3) for n in range(1, 7)})
    assert max(p.series["reference_ttft"][0] for p in found.prompts) == pytest.approx(0.03)
    references = [pair.reference for pair in measurement.pairs[:6]]
    begin, end = min(t.submit_ns for t in references), max(t.chunks[-1].t_ns for t in references)
    (rates,) = (p.series["reference_throughput"] for p in found.prompts if "reference_throughput" in p.series)
    assert rates[0] == pytest.approx(6 * 8 / ((end - begin) / 1e9))
    # Two places: 16, 24, 8, 16, 24 and 8 tokens' time make 48 each at best, and not the 24 + 16 + 24 of blocks.
    assert end - begin == pytest.approx(0.48e9, abs=3 * CHANGE_NS)
    del engine


def test_progress_tells_the_speed_of_the_whole_run(tmp_path: Path) -> None:
    suite, case = asked(tmp_path)
    told: list[str] = []
    measure_case(Queueing(context(suite)), case, plan(told=told))
    assert [line.split(", ")[:3] for line in told] == [
        [f"tiny::qa-t0-c2: round {number}/2", "prompt 6/6", "150.0 against 100.0 tokens/s"] for number in (1, 2)
    ]


def test_stored_numbers_of_blocks_are_not_those_of_a_queue(tmp_path: Path) -> None:
    suite, case = asked(tmp_path)
    blocks = measure_case(started(suite), case, plan())
    queue = measure_case(Queueing(context(suite)), case, plan())
    stored = Stored(blocks.place, blocks.workload, blocks.subject, "2026-01-01", samples.reduce(blocks))

    assert queue.workload["batching"] == "continuous"
    assert mismatch(stored, queue.workload) == ("batching",)
    assert mismatch(stored, blocks.workload) == ()


def test_arms_that_are_never_up_together_have_a_queue_too(tmp_path: Path) -> None:
    class Both(Queueing, OneAtATime):
        def __init__(self, given: EngineContext) -> None:
            OneAtATime.__init__(self, given)
            self.queued: list[tuple[Arm, int]] = []
            self.capabilities |= {Capability.QUEUE}

        def generate(self, requests: Any, arm: Arm) -> Any:
            return OneAtATime.generate(self, requests, arm)

        def serve(self, requests: Any, arm: Arm, slots: int) -> Any:
            assert self.starts[-1] is arm
            self.queued.append((arm, slots))
            self.calls = []
            return Queueing.serve(self, requests, arm, slots)

    suite, case = asked(tmp_path)
    engine = Both(context(suite))

    measurement = measure_case(engine, case, plan())

    assert engine.queued == [(A, 2), (B, 2), (B, 2), (A, 2)]
    assert {pair.run for pair in measurement.pairs} == {0}
    assert {len(p.series.get("throughput", ())) for p in samples.reduce(measurement).prompts} == {0, 2}


def test_a_queue_that_is_declared_and_not_there_is_told(tmp_path: Path) -> None:
    suite, case = asked(tmp_path)
    with pytest.raises(EngineError) as raised:
        measure_case(Boastful(context(suite)), case, plan())
    assert str(raised.value) == (
        "tiny: declares Capability.QUEUE and has no serve() — add one (pytest_specgate.engines.base.Queues), or take "
        "it out of the engine's capabilities"
    )


def test_a_planted_delay_makes_the_whole_run_longer(tmp_path: Path) -> None:
    suite, case = asked(tmp_path)
    spec = suite.spec.engines["tiny"].model_copy(update={"kind": "tests.unit.queueing:Queueing"})
    plain, slow = (
        create(EngineContext("tiny", one, tmp_path)) for one in (spec, planted(spec, parse_plant("delay=50%"), 1))
    )
    assert isinstance(slow, Queues)
    assert slow.capabilities == plain.capabilities

    rates = [throughput(measure_case(engine, case, plan())) for engine in (plain, slow)]

    assert rates[0] / rates[1] == pytest.approx(1.5, rel=1e-3)


def test_a_planted_engine_has_no_queue_of_its_own() -> None:
    from pytest_specgate.suite.model import EngineSpec

    spec = planted(EngineSpec(kind="scripted"), parse_plant("delay=50%"), 1)
    slow = create(EngineContext("tiny", spec, Path()))
    assert Capability.QUEUE not in slow.capabilities
    assert isinstance(slow, Queues)
    with pytest.raises(EngineError, match="the wrapped engine has no queue"):
        slow.serve([], B, 2)


def throughput(measurement: Measurement) -> float:
    found = [p.series["throughput"] for p in samples.reduce(measurement).prompts if "throughput" in p.series]
    return math.fsum(rates[0] for rates in found)
