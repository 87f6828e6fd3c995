"""The transformers engine, asked for several answers, for log-probabilities, and left in mid-answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.transformers import TransformersEngine
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Message, Request, Sampling, Trace
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

METHODS: dict[str, dict[str, Any]] = {
    "draft_model": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3},
    "prompt_lookup": {"method": "prompt_lookup", "num_draft_tokens": 3},
    "early_exit": {"method": "early_exit", "exit_layer": 3, "num_draft_tokens": 3},
}
DRAWN = Sampling(1.5, top_k=30, seed=3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    return folder


@pytest.fixture(scope="module", params=METHODS)
def engine(models: Path, request: pytest.FixtureRequest) -> Iterator[TransformersEngine]:
    asked: dict[str, Any] = {"target": "target", "dtype": "float64", "candidate": METHODS[request.param]}
    made = TransformersEngine(EngineContext("e", EngineSpec(**asked), models))
    made.start()
    yield made
    made.close()


def ask(number: int = 0, **settings: Any) -> Request:
    text = " ".join(tiny.WORDS[(number * 3 + at * at) % 20] for at in range(6))
    made = Request(f"p{number}", (Message("user", text),), 16, Sampling(), ignore_eos=True)
    return replace(made, **settings)


def one(engine: TransformersEngine, request: Request, arm: Arm) -> Trace:
    (trace,) = engine.generate([request], arm)
    assert trace_problems(trace) == ()
    return trace


@pytest.mark.parametrize("arm", Arm)
def test_several_answers_are_drawn_anew_in_the_requests_place(engine: TransformersEngine, arm: Arm) -> None:
    several, greedy = ask(sampling=DRAWN, n=3), ask(1, n=2)
    traces = engine.generate([several, greedy], arm)
    assert [trace.prompt for trace in traces] == ["p0"] * 3 + ["p1"] * 2
    assert len({trace.token_ids for trace in traces[:3]}) == 3
    assert traces[0].token_ids == one(engine, replace(several, n=1), arm).token_ids
    assert traces[3].token_ids == traces[4].token_ids == one(engine, replace(greedy, n=1), arm).token_ids
    assert [trace.token_ids for trace in engine.generate([several, greedy], arm)] == [t.token_ids for t in traces]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(repetition_penalty=1.3), DRAWN], ids=str)
@pytest.mark.parametrize("arm", Arm)
def test_log_probabilities_are_those_of_the_shaped_scores(
    engine: TransformersEngine, arm: Arm, sampling: Sampling
) -> None:
    asked = ask(sampling=sampling, logprobs=True)
    trace = one(engine, asked, arm)
    drawn = replace(asked, sampling=replace(sampling, temperature=sampling.temperature or 1.0))
    (own,) = engine.chances([drawn], [trace.token_ids])
    assert trace.logprobs is not None
    assert trace.logprobs == pytest.approx([math.log(chance) for chance in own.chance], abs=1e-4)
    assert len({round(log, 6) for log in trace.logprobs}) > 3
    assert one(engine, replace(asked, logprobs=False), arm).logprobs is None


@pytest.mark.parametrize("after", [1, 2, 5, 9])
@pytest.mark.parametrize("arm", Arm)
def test_what_comes_after_the_caller_left_reaches_nobody(engine: TransformersEngine, arm: Arm, after: int) -> None:
    whole = one(engine, ask(), arm)
    left = one(engine, ask(cancel_after=after, logprobs=True), arm)
    assert left.finish == "cancelled"
    assert after <= left.output_tokens <= after + (3 if arm is Arm.CANDIDATE else 0)
    assert left.token_ids == whole.token_ids[: left.output_tokens]
    assert left.rounds == (None if arm is Arm.REFERENCE else left.rounds)
    kept = [(r.drafted, r.accepted, r.emitted) for r in left.rounds or ()]
    assert kept == [(r.drafted, r.accepted, r.emitted) for r in (whole.rounds or ())[: len(kept)]]
    assert one(engine, ask(), arm).token_ids == whole.token_ids


@pytest.mark.parametrize("arm", Arm)
def test_a_text_that_ends_before_its_caller_leaves_ends_as_ever(engine: TransformersEngine, arm: Arm) -> None:
    trace = one(engine, ask(max_tokens=5, cancel_after=5), arm)
    assert (trace.finish, trace.output_tokens) == ("length", 5)
