"""Measuring a case on the scripted engine: what runs when, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.run import Plan, asked, measure_case
from pytest_specgate.records import Arm, Finding, Measurement, Pair, Request, Trace
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.suite.cases import Case
from tests.unit.project import PROMPTS, context, load, started, write

BASE = {"tokens": 8, "noise": 0.0}


class Watched(ScriptedEngine):
    """Keeps its calls; the first ``slow`` of them after warming up take real time."""

    def __init__(self, given: EngineContext, pause: float = 0.0) -> None:
        super().__init__(given)
        self.calls: list[tuple[Arm, tuple[str, ...]]] = []
        self.pause = pause

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        self.calls.append((arm, tuple(request.prompt for request in requests)))
        time.sleep(self.pause)
        return super().generate(requests, arm)


def plan(rounds: int = 2, budget: float | None = None, told: list[str] | None = None) -> Plan:
    tell = (told if told is not None else []).append
    return Plan(Looks((rounds,)), 1, budget, lambda *_: ["nothing is ever enough"], tell)


def watched(folder: Path, count: int = 3, concurrency: int = 1, pause: float = 0.0) -> tuple[Watched, Case]:
    path = write(folder, prompts=PROMPTS[:count], options=BASE, scenario={"concurrency": [concurrency]})
    suite, case = load(path)
    engine = Watched(context(suite), pause)
    engine.start()
    return engine, case


class Careless(ScriptedEngine):
    """An adapter with a slip in it: what it returns passes through ``slip``."""

    slip: Callable[[list[Trace]], list[Trace]]

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        return self.slip(super().generate(requests, arm))


SLIPS: dict[str, tuple[Callable[[list[Trace]], list[Trace]], str]] = {
    "nothing": (lambda _: [], "generate() returned 0 traces for 2 requests — return one Trace for each request"),
    "order": (lambda traces: traces[::-1], "generate() answered q1 (reference) with q2 (reference) — return the"),
    "arm": (
        lambda traces: [replace(trace, arm=Arm.CANDIDATE) for trace in traces],
        "generate() answered q1 (reference) with q1 (candidate) — return the traces in the order",
    ),
    "none": (lambda traces: [None for _ in traces], "q1: the reference arm's answer is None, which is no Trace — see"),  # type: ignore[misc]
    "words": (
        lambda traces: [replace(trace, token_ids=("a", "b")) for trace in traces],  # type: ignore[arg-type]
        "q1: the reference arm's token_ids is ('a', 'b'), which is no tuple of int — see",
    ),
    "many": (
        lambda traces: [replace(trace, rounds="many") for trace in traces],  # type: ignore[arg-type]
        "q1: the reference arm's rounds is 'many', which is no tuple of Round — see",
    ),
    "no text": (
        lambda traces: [replace(trace, text=None) for trace in traces],  # type: ignore[arg-type]
        "q1: the reference arm's text is None, which is no str — see",
    ),
    "negative": (
        lambda traces: [replace(trace, prompt_tokens=-4) for trace in traces],
        "q1: the reference arm's prompt_tokens is -4, which is no whole number from 0 on — see",
    ),
    "silence": (
        lambda traces: [replace(trace, chunks=()) for trace in traces],
        "q1: the reference arm returned no chunks — give each Trace a Chunk for every delivery of tokens",
    ),
}


@pytest.mark.parametrize("name", SLIPS)
def test_what_an_adapter_returns_is_looked_at_first(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, prompts=PROMPTS[:2], options=BASE, scenario={"concurrency": [2]})
    suite, case = load(path)
    engine = Careless(context(suite))
    engine.slip, said = SLIPS[name]  # type: ignore[assignment]

    with pytest.raises(EngineError) as raised:
        measure_case(engine, case, plan())

    assert str(raised.value).startswith(f"{case.engine}: {said}")


def test_arms_are_warmed_up_and_then_alternate_abba(tmp_path: Path) -> None:
    engine, case = watched(tmp_path)
    measurement = measure_case(engine, case, plan())
    a, b = Arm.REFERENCE, Arm.CANDIDATE
    assert engine.calls[:2] == [(a, ("q1",)), (b, ("q1",))]
    first = [(a, "q1"), (b, "q1"), (b, "q2"), (a, "q2"), (a, "q3"), (b, "q3")]
    second = [(b, "q1"), (a, "q1"), (a, "q2"), (b, "q2"), (b, "q3"), (a, "q3")]
    assert engine.calls[2:] == [(arm, (prompt,)) for arm, prompt in first + second]
    assert [pair.order for pair in measurement.pairs] == ["AB", "BA", "AB", "BA", "AB", "BA"]


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_on_a_gpu_all_that_is_timed_has_run_before(tmp_path: Path, device: str) -> None:
    talks = {"id": "q9", "turns": ["Say it.", "And again."]}
    path = write(tmp_path, prompts=[*PROMPTS[:2], talks], options={**BASE, "device": device})
    suite, case = load(path)
    engine = Watched(context(suite))
    engine.start()
    measure_case(engine, case, plan())
    everything = ["q1", "q2", "q9/1", "q9/2"]
    before, warm = engine.calls[:8], engine.calls[8:10]
    assert before == [(arm, (prompt,)) for prompt in everything for arm in Arm]
    assert warm == [(arm, ("q1",)) for arm in Arm], "what the first calls lacked is there from the next one on"
    assert len(engine.calls) == 10 + 2 * 2 * len(everything)


def test_a_pair_for_every_prompt_and_round(tmp_path: Path) -> None:
    engine, case = watched(tmp_path)
    measurement = measure_case(engine, case, plan(rounds=4))
    assert [(pair.round, pair.prompt) for pair in measurement.pairs] == [
        (number, f"q{n}") for number in range(4) for n in (1, 2, 3)
    ]
    for pair in measurement.pairs:
        assert pair.reference.prompt == pair.candidate.prompt == pair.prompt
        assert (pair.reference.arm, pair.candidate.arm) == (Arm.REFERENCE, Arm.CANDIDATE)
    assert measurement.warnings == ()
    assert measurement.workload == {**engine.workload(), **asked(case)}
    assert all(finding.held for finding in measurement.findings)


def test_four_conversations_at_a_time_are_one_call_each_arm(tmp_path: Path) -> None:
    engine, case = watched(tmp_path, count=6, concurrency=4)
    measurement = measure_case(engine, case, plan(rounds=1))
    first, rest = ("q1", "q2", "q3", "q4"), ("q5", "q6")
    assert engine.calls[2:] == [
        (Arm.REFERENCE, first),
        (Arm.CANDIDATE, first),
        (Arm.CANDIDATE, rest),
        (Arm.REFERENCE, rest),
    ]
    assert [pair.order for pair in measurement.pairs] == ["AB"] * 4 + ["BA"] * 2


def test_an_engine_that_cannot_run_the_case_says_so_before_anything_runs(tmp_path: Path) -> None:
    options = {**BASE, "batch": False}
    suite, case = load(write(tmp_path, options=options, scenario={"concurrency": [4]}))
    engine = Watched(context(suite))
    with pytest.raises(EngineError) as caught:
        measure_case(engine, case, plan())
    assert str(caught.value) == (
        "tiny: concurrency 4: the script runs one request at a time — use concurrency: [1], or set batch: true"
    )
    assert engine.calls == []


def test_the_budget_stops_after_a_full_round_with_a_warning(tmp_path: Path) -> None:
    engine, case = watched(tmp_path, pause=0.005)
    measurement = measure_case(engine, case, plan(rounds=5, budget=0.01))
    assert measurement.warnings == ("stopped after 1 of at most 5 rounds: the time for it is used up",)
    assert [pair.prompt for pair in measurement.pairs] == ["q1", "q2", "q3"]


def test_a_budget_that_suffices_changes_nothing(tmp_path: Path) -> None:
    engine, case = watched(tmp_path)
    measurement = measure_case(engine, case, plan(budget=600))
    assert measurement.warnings == ()
    assert len(measurement.pairs) == 6


def test_measuring_ends_at_the_look_that_leaves_nothing_open(tmp_path: Path) -> None:
    engine, case = watched(tmp_path)
    seen: list[int] = []
    told: list[str] = []

    def still_open(pairs: Sequence[Pair], findings: Sequence[Finding], _: object) -> list[str]:
        assert all(finding.held for finding in findings)
        seen.append(len(pairs) // 3)
        return ["speedup: about 4 rounds would decide"] if len(pairs) < 12 else []

    measurement = measure_case(engine, case, Plan(doubling(8), 1, None, still_open, told.append))
    assert seen == [1, 2, 4]
    assert len(measurement.pairs) == 12
    assert measurement.warnings == ()
    assert [line.partition("; open: ")[2] for line in told] == [""] * 3 + ["speedup: about 4 rounds would decide"] * 9


def test_a_broken_rule_is_given_a_second_chance_and_then_told(tmp_path: Path) -> None:
    # Every call is 2 % slower than the one before, in the second chance too.
    suite, case = load(write(tmp_path, options={**BASE, "fault": "drift"}))
    engine, told = Watched(context(suite)), list[str]()
    measurement = measure_case(engine, case, plan(told=told))
    again = [line for line in told if line.endswith("measuring once more")]
    assert len(again) == 1
    assert again[0].startswith("tiny::qa-t0-c1: reference drift broken (reference arm +")
    assert _runs(engine, "q6") == 2 * 2 * 2
    assert len(measurement.pairs) == 12
    (drift,) = [finding for finding in measurement.findings if finding.rule == "reference drift"]
    assert not drift.held


def test_a_rule_that_holds_the_second_time_leaves_no_trace(tmp_path: Path) -> None:
    class SlowAtFirst(Watched):
        def _seconds_per_token(self, request: Request, arm: Arm) -> float:
            # Warm-up is two calls; of the first observation's 24, the first half are slow.
            slow = 2 < len(self.calls) <= 2 + 12
            return super()._seconds_per_token(request, arm) * (2 if slow else 1)

    suite, case = load(write(tmp_path, options=BASE))
    engine = SlowAtFirst(context(suite))
    measurement = measure_case(engine, case, plan())
    assert _runs(engine, "q6") == 2 * 2 * 2
    assert all(finding.held for finding in measurement.findings)
    assert len(measurement.pairs) == 12


def _runs(engine: Watched, prompt: str) -> int:
    return sum(prompt in prompts for _, prompts in engine.calls)


def test_progress_names_case_round_prompt_and_both_speeds(tmp_path: Path) -> None:
    engine, case = watched(tmp_path, count=2)
    told: list[str] = []
    measure_case(engine, case, plan(told=told))
    assert told[0].startswith("tiny::qa-t0-c1: round 1/2, prompt 1/2, 150.0 against 100.0 tokens/s, ")
    assert [line.split(", ")[:2] for line in told] == [
        [f"tiny::qa-t0-c1: round {number}/2", f"prompt {prompt}/2"] for number in (1, 2) for prompt in (1, 2)
    ]


def test_what_is_asked_tells_changed_parameters_apart(tmp_path: Path) -> None:
    _, case = load(write(tmp_path))
    before = asked(case)
    _, other = load(write(tmp_path, prompts=PROMPTS[:2], scenario={"max_tokens": 9, "concurrency": [2]}))
    after = asked(other)
    assert {name for name in before if before[name] != after[name]} == {"prompts", "max_tokens", "concurrency"}


def test_request_parameters_are_part_of_what_is_asked_and_leave_no_trace_where_there_are_none(tmp_path: Path) -> None:
    _, case = load(write(tmp_path))
    assert asked(case)["sampling"] == "temperature=0 top_k=0 top_p=1 seed=0"
    more = {"min_p": 0.1, "logit_bias": {"7": 2.0, "3": -1.5}, "min_tokens": 2, "bad_words": ["x"]}
    _, case = load(write(tmp_path, scenario={"sampling": [{**more, "repetition_penalty": 1.0}]}))
    assert asked(case)["sampling"] == (
        "temperature=0 top_k=0 top_p=1 seed=0 min_p=0.1 repetition_penalty=1 "
        "logit_bias=3:-1.5,7:2 min_tokens=2 bad_words='x'"
    )


def test_equal_scripts_are_measured_alike(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path))
    taken: list[Measurement] = [measure_case(started(suite), case, plan()) for _ in range(2)]
    assert taken[0].pairs == taken[1].pairs


class Foreseeing(Watched):
    """Refuses one prompt before it is asked for it."""

    def refuse(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.prompt == "q3":
                raise EngineError("tiny", "q3 is too long", "shorten it")


def test_what_an_engine_foresees_is_refused_before_anything_runs(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, prompts=PROMPTS[:3], options=BASE))
    engine = Foreseeing(context(suite))
    engine.start()
    with pytest.raises(EngineError, match="q3 is too long"):
        measure_case(engine, case, plan())
    assert engine.calls == []
