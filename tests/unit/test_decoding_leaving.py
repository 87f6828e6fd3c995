"""Callers that leave in mid-round, several answers, and what is told of tokens: the decoder, the engine around it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import Temperature
from pytest_specgate.engines.base import EngineContext, seed_of
from pytest_specgate.engines.native import NativeEngine
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec
from tests import tiny
from tests.unit.decoding import OUTPUT, family

LLAMA = "Llama"


def decoder(drafts: int) -> Decoder:
    made = family(LLAMA)
    return Decoder(Network(made.target), DraftModel(Network(made.draft)) if drafts else None, drafts)


@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_those_who_wait_get_the_place_of_those_who_leave_and_notice_nothing(slots: int, drafts: int) -> None:
    made = family(LLAMA)
    jobs = made.jobs(range(8), [OUTPUT] * 8)
    leaving = {0: 1, 2: 4, 3: 2, 6: 7}
    asked = [replace(job, cancel_after=leaving.get(number)) for number, job in enumerate(jobs)]
    texts = decoder(drafts).run(asked, slots)
    for number, text in enumerate(texts):
        whole = made.outputs[number][:OUTPUT]
        if number not in leaving:
            assert (text.tokens, text.finish) == (whole, "length")
            continue
        assert text.finish == "cancelled"
        assert leaving[number] <= len(text.tokens) <= leaving[number] + drafts
        assert text.tokens == whole[: len(text.tokens)]
        assert 1 + sum(r.emitted for r in text.rounds) == sum(chunk.tokens for chunk in text.chunks)


def test_a_text_that_ends_before_its_caller_leaves_ends_as_ever() -> None:
    (text,) = decoder(3).run([replace(family(LLAMA).jobs([1], [5])[0], cancel_after=5)], 1)
    assert (text.finish, len(text.tokens)) == ("length", 5)


@pytest.mark.parametrize("settings", [{}, {"greedy": False, "seed": 5, "processors": (Temperature(0.8),)}], ids=str)
def test_log_probabilities_are_those_of_the_shaped_scores(settings: dict[str, Any]) -> None:
    made = family(LLAMA)
    jobs = made.jobs(range(3), [OUTPUT] * 3, logprobs=True, **settings)
    jobs[1] = replace(jobs[1], logprobs=False)
    texts = decoder(3).run(jobs, 3)
    assert texts[1].logprobs is None
    for job, text in ((jobs[0], texts[0]), (jobs[2], texts[2])):
        ids = torch.tensor([[*job.prompt, *text.tokens]])
        with torch.inference_mode():
            scores = made.target(ids).logits[0, len(job.prompt) - 1 : -1]
        logs = (scores / (0.8 if settings else 1.0)).log_softmax(dim=-1)
        assert text.logprobs == pytest.approx([float(logs[at, token]) for at, token in enumerate(text.tokens)])
        assert len({round(one, 9) for one in text.logprobs or ()}) > 3


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> NativeEngine:
    folder: Path = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    candidate = {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3}
    asked: dict[str, Any] = {"kind": "native", "target": "target", "dtype": "float64", "candidate": candidate}
    spec = EngineSpec(**asked)
    made = NativeEngine(EngineContext("e", spec, folder))
    made.start()
    return made


@pytest.mark.parametrize("arm", list(Arm))
def test_several_answers_are_traces_in_the_requests_place(engine: NativeEngine, arm: Arm) -> None:
    one = Request("p", (Message("user", " ".join(tiny.WORDS[:4])),), 12, Sampling(1.5, seed=3), ignore_eos=True)
    other = replace(one, prompt="q", sampling=Sampling())
    traces = engine.generate([replace(one, n=3, logprobs=True), other], arm)
    assert [trace.prompt for trace in traces] == ["p", "p", "p", "q"]
    assert not any(trace_problems(trace) for trace in traces)
    assert len({trace.token_ids for trace in traces}) == 4
    assert all(math.fsum(trace.logprobs or ()) < 0 for trace in traces[:3])
    (alone,) = engine.generate([one], arm)
    (greedy,) = engine.generate([other], arm)
    assert (traces[0].token_ids, traces[3].token_ids) == (alone.token_ids, greedy.token_ids)


def test_each_answer_has_a_seed_of_its_own_and_the_first_that_of_a_single_one() -> None:
    asked = Request("p", (), 1, Sampling(1.0, seed=3), n=4)
    assert len({seed_of(asked, choice) for choice in range(4)}) == 4
    assert seed_of(asked, 0) == seed_of(replace(asked, n=1))
    assert seed_of(replace(asked, sampling=Sampling(1.0, seed=None))) != seed_of(
        replace(asked, sampling=Sampling(1.0, seed=None))
    )
