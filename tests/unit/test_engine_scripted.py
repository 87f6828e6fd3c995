"""The scripted fake: its traces are true unless its script says otherwise, and every fault shows."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.engines.script import FAULTS
from pytest_specgate.errors import EngineError, OutOfMemory
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Capability, Message, Request, Sampling, Trace
from pytest_specgate.suite.model import EngineSpec

FOLDER = Path(__file__).parent


def scripted(**options: object) -> Engine:
    return create(EngineContext("fake", EngineSpec(kind="scripted", options=options), FOLDER))


def request(prompt: str = "p1", max_tokens: int = 64) -> Request:
    return Request(prompt, (Message("user", "say it in words"),), max_tokens, Sampling())


def both(engine: Engine, prompt: str = "p1", max_tokens: int = 64) -> tuple[Trace, Trace]:
    (reference,) = engine.generate([request(prompt, max_tokens)], Arm.REFERENCE)
    (candidate,) = engine.generate([request(prompt, max_tokens)], Arm.CANDIDATE)
    return reference, candidate


@given(
    tokens=st.integers(1, 80),
    budget=st.integers(1, 80),
    k=st.integers(1, 12),
    acceptance=st.floats(0, 1),
    prompt=st.text(min_size=1),
)
def test_both_arms_tell_the_same_words_in_valid_traces(
    tokens: int, budget: int, k: int, acceptance: float, prompt: str
) -> None:
    reference, candidate = both(scripted(tokens=tokens, k=k, acceptance=acceptance), prompt, budget)
    assert trace_problems(reference) == ()
    assert trace_problems(candidate) == ()
    assert reference.token_ids == candidate.token_ids
    assert reference.output_tokens == min(tokens, budget)
    assert reference.finish == candidate.finish == ("eos" if tokens <= budget else "length")
    assert reference.rounds is None


def test_equal_scripts_yield_equal_traces_and_calls_differ() -> None:
    first, second = scripted(), scripted()
    assert both(first) == both(second)
    again = both(first)
    assert again[0].seconds != both(second, "p2")[0].seconds
    assert again[0].token_ids == both(scripted())[0].token_ids


def test_the_speedup_is_the_scripts() -> None:
    engine = scripted(speedup=1.7, noise=0.02)
    ratios = [math.log(a.seconds / b.seconds) for a, b in (both(engine, f"p{n}") for n in range(200))]
    assert math.exp(mean(ratios)) == pytest.approx(1.7, rel=0.01)


def test_the_acceptance_is_the_scripts() -> None:
    engine = scripted(acceptance=0.6, tokens=64)
    rounds = [r for n in range(200) for r in both(engine, f"p{n}")[1].rounds[:-1]]
    assert sum(r.accepted for r in rounds) / sum(r.tested for r in rounds) == pytest.approx(0.6, abs=0.03)


def test_requests_of_one_call_overlap() -> None:
    traces = scripted(noise=0).generate([request("a"), request("b")], Arm.REFERENCE)
    assert [t.submit_ns for t in traces] == [1_000_000_000] * 2
    assert traces[0].seconds == traces[1].seconds == pytest.approx(0.32)


def test_drift_slows_every_call() -> None:
    engine = scripted(fault="drift", noise=0)
    seconds = [engine.generate([request()], Arm.REFERENCE)[0].seconds for _ in range(3)]
    assert seconds == sorted(set(seconds))


def test_diverge_changes_one_token() -> None:
    reference, candidate = both(scripted(fault="diverge"))
    different = [a != b for a, b in zip(reference.token_ids, candidate.token_ids, strict=True)]
    assert sum(different) == 1
    assert trace_problems(candidate) == ()


def test_truncate_halves_the_output() -> None:
    reference, candidate = both(scripted(fault="truncate"))
    assert (reference.output_tokens, candidate.output_tokens) == (32, 16)
    assert candidate.finish == "eos"


def test_overrun_adds_a_token_after_the_end() -> None:
    reference, candidate = both(scripted(fault="overrun"))
    assert candidate.token_ids[:-1] == reference.token_ids
    assert candidate.token_ids[-2] in candidate.eos_ids


def test_nan_repeats_token_zero_up_to_the_budget() -> None:
    candidate = both(scripted(fault="nan"), max_tokens=40)[1]
    assert candidate.token_ids == (0,) * 40
    assert candidate.text == " ".join(["<unk>"] * 40)


def test_bad_trace_contradicts_itself() -> None:
    candidate = both(scripted(fault="bad_trace"))[1]
    assert trace_problems(candidate)[0] == "round 1: accepted 3, tested 2, drafted 4 are out of order"


def test_never_drafts_has_rounds_without_drafts() -> None:
    candidate = both(scripted(fault="never_drafts"))[1]
    assert {(r.drafted, r.accepted, r.emitted) for r in candidate.rounds} == {(0, 0, 1)}


def test_no_rounds_is_unmeasured_and_undeclared() -> None:
    engine = scripted(fault="no_rounds")
    assert both(engine)[1].rounds is None
    assert Capability.ROUNDS not in engine.capabilities


def test_faults_strike_the_named_prompt_alone() -> None:
    engine = scripted(fault="crash", fail_on="p2")
    both(engine, "p1")
    with pytest.raises(EngineError, match="p2: the script says crash"):
        both(engine, "p2")
    both(engine, "p1")


@pytest.mark.parametrize(
    ("fault", "error"), [("crash", EngineError), ("oom", OutOfMemory), ("interrupt", KeyboardInterrupt)]
)
def test_faults_that_raise_leave_the_reference_arm_alone(fault: str, error: type[BaseException]) -> None:
    engine = scripted(fault=fault)
    engine.generate([request()], Arm.REFERENCE)
    with pytest.raises(error):
        engine.generate([request()], Arm.CANDIDATE)


def test_an_engine_that_cannot_start() -> None:
    with pytest.raises(EngineError, match=r"^fake: the script says that this engine cannot start — set fault: none$"):
        scripted(fault="start").start()


def test_facts() -> None:
    engine = scripted(device="GPU of dreams", k=3, memory={"reference": 5, "candidate": 7})
    engine.start()
    engine.check(8, greedy=False)
    assert engine.place().slug == "gpu-of-dreams-x1-none"
    assert engine.workload() == {"target": "scripted-target"}
    assert engine.subject() == {"engine": "scripted", "k": "3", "device": "GPU of dreams"}
    assert engine.memory([Arm.REFERENCE]).host_rss == 5
    assert engine.memory([Arm.REFERENCE, Arm.CANDIDATE]).max_process_vram == 7
    engine.close()
    engine.close()


def test_one_at_a_time() -> None:
    engine = scripted(batch=False)
    engine.check(1, greedy=True)
    assert Capability.BATCH not in engine.capabilities
    with pytest.raises(EngineError) as raised:
        engine.check(2, greedy=True)
    assert str(raised.value) == (
        "fake: concurrency 2: the script runs one request at a time — use concurrency: [1], or set batch: true"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"speedpu": 2}, "fake: unknown option 'speedpu'; did you mean 'speedup'? — valid: tokens, "),
        ({"fault": "ooms"}, "fake: unknown fault 'ooms'; did you mean 'oom'? — valid: none, "),
        ({"tokens": "many"}, "fake: option tokens: 'many' is of the wrong kind — write it like 32"),
        ({"tokens": 1.5}, "fake: option tokens: 1.5 is of the wrong kind — write it like 32"),
        ({"k": True}, "fake: option k: True is of the wrong kind — write it like 4"),
        (
            {"k": 0},
            "fake: tokens, k, seconds_per_token and speedup are above 0 — correct the engine's options",
        ),
        ({"speedup": math.nan}, "fake: tokens, k, seconds_per_token and speedup are above 0"),
        ({"noise": -1}, "fake: noise is at least 0, and acceptance between 0 and 1 — correct the engine's options"),
        ({"acceptance": 3}, "fake: noise is at least 0, and acceptance between 0 and 1 — correct the engine's options"),
        ({"memory": {"reference": 1, "candidate": -1}}, "fake: memory is in bytes, above 0 — correct the"),
        ({"memory": {"reference": 1}}, "fake: memory lacks candidate — give bytes for both arms"),
    ],
)
def test_options_are_checked(options: dict[str, object], text: str) -> None:
    with pytest.raises(EngineError) as raised:
        scripted(**options)
    assert str(raised.value).startswith(text)


def test_every_fault_is_described() -> None:
    assert all(FAULTS.values())
