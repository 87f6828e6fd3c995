"""Request parameters in both engines: what each does to a text, that they agree, and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import Engine, EngineContext, seed_of
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Bias, Message, Request, Sampling, Trace
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

CANDIDATE = {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3}
TEXTS = tuple(" ".join(tiny.WORDS[(i * 3 + j * j) % 20] for j in range(3 + i)) for i in range(8))
IDS = {word: number for number, word in enumerate((*tiny.SPECIAL, *tiny.WORDS))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("parameters")
    tiny.pair(made, noise=0.02)
    return made


def build(folder: Path, kind: str) -> Engine:
    spec = EngineSpec(kind=kind, target="target", dtype="float64", candidate=CANDIDATE)
    engine = create(EngineContext("e", spec, folder))
    engine.start()
    return engine


@pytest.fixture(scope="module")
def native(folder: Path) -> Iterator[Engine]:
    made = build(folder, "native")
    yield made
    made.close()


@pytest.fixture(scope="module")
def transformers(folder: Path) -> Iterator[Engine]:
    made = build(folder, "transformers")
    yield made
    made.close()


def ask(sampling: Sampling, number: int = 0, **settings: Any) -> Request:
    return Request(f"p{number}", (Message("user", TEXTS[number]),), 32, sampling, **settings)


def texts(engine: Engine, requests: list[Request], arm: Arm) -> list[Trace]:
    return [trace for request in requests for trace in engine.generate([request], arm)]


GREEDY = {
    "repetition": Sampling(repetition_penalty=1.3),
    "bias": Sampling(logit_bias=(Bias(IDS["model"], 4.0), Bias(IDS["token"], -100.0))),
    "bad words": Sampling(bad_words=("the", "draft token", "a")),
    "least": Sampling(min_tokens=24),
    "all": Sampling(repetition_penalty=1.2, logit_bias=(Bias(IDS["model"], 2.0),), bad_words=("is",), min_tokens=12),
}


@pytest.mark.parametrize("name", GREEDY)
def test_both_engines_and_both_arms_honour_it_alike(native: Engine, transformers: Engine, name: str) -> None:
    requests = [ask(GREEDY[name], number) for number in range(len(TEXTS))]
    plain = texts(transformers, [replace(request, sampling=Sampling()) for request in requests], Arm.REFERENCE)
    own = texts(transformers, requests, Arm.REFERENCE)
    assert [trace.token_ids for trace in own] != [trace.token_ids for trace in plain]
    for traces in (
        texts(transformers, requests, Arm.CANDIDATE),
        native.generate(requests, Arm.REFERENCE),
        native.generate(requests, Arm.CANDIDATE),
    ):
        assert [trace.token_ids for trace in traces] == [trace.token_ids for trace in own]
    assert any(r.accepted for trace in traces for r in trace.rounds or ())


@pytest.mark.parametrize("name", GREEDY)
def test_the_scored_choice_is_the_shaped_one(native: Any, transformers: Any, name: str) -> None:
    requests = [ask(GREEDY[name], number) for number in range(len(TEXTS))]
    said = [trace.token_ids for trace in native.generate(requests, Arm.CANDIDATE)]
    plain = [replace(request, sampling=Sampling()) for request in requests]
    for engine in (native, transformers):
        for width in (None, 1, 4):
            assert [scores.best_ids for scores in engine.score(requests, said, width)] == said
        assert [scores.best_ids for scores in engine.score(plain, said)] != said


def test_what_a_request_forbids_is_as_far_from_the_choice_as_can_be(native: Any) -> None:
    (found,) = native.score([ask(Sampling(bad_words=("the",)))], [(IDS["model"], IDS["the"])])
    assert found.regrets[1] > 1e8 > abs(found.regrets[0])


def test_nothing_forbidden_is_said(native: Engine) -> None:
    words, banned = ("the", "a", "is"), {IDS["the"], IDS["a"], IDS["is"]}
    for trace in native.generate([ask(Sampling(bad_words=words), n) for n in range(8)], Arm.CANDIDATE):
        assert not banned & set(trace.token_ids)
    short = native.generate([ask(Sampling(), n) for n in range(8)], Arm.REFERENCE)
    assert min(trace.output_tokens for trace in short) < 24
    for trace in native.generate([ask(Sampling(min_tokens=24), n) for n in range(8)], Arm.CANDIDATE):
        assert trace.output_tokens >= 24
        assert not set(trace.eos_ids) & set(trace.token_ids[:23])


@pytest.mark.parametrize("penalty", [{"frequency_penalty": 2.0}, {"presence_penalty": 2.0}])
def test_penalties_of_the_output_spread_its_words(native: Engine, penalty: dict[str, float]) -> None:
    def repeats(sampling: Sampling) -> int:
        requests = [ask(sampling, n, ignore_eos=True) for n in range(8)]
        arms = [native.generate(requests, arm) for arm in (Arm.REFERENCE, Arm.CANDIDATE)]
        assert [t.token_ids for t in arms[0]] == [t.token_ids for t in arms[1]]
        return sum(times - 1 for trace in arms[0] for times in Counter(trace.token_ids).values())

    less, none = repeats(Sampling(**penalty)), repeats(Sampling())
    more = repeats(Sampling(**{name: -value for name, value in penalty.items()}))
    assert less < none <= more


def test_min_p_of_one_is_greedy(native: Engine, transformers: Engine) -> None:
    greedy = texts(transformers, [ask(Sampling())], Arm.REFERENCE)[0].token_ids
    for engine in (native, transformers):
        for arm in Arm:
            assert engine.generate([ask(Sampling(1.0, min_p=1.0, seed=5))], arm)[0].token_ids == greedy


@pytest.mark.parametrize("kind", ["native", "transformers"])
def test_the_checkpoints_own_penalty_holds_where_a_request_gives_none(folder: Path, kind: str) -> None:
    engine: Any = build(folder, kind)
    asked, off = ask(Sampling(repetition_penalty=1.3)), ask(Sampling(repetition_penalty=1.0))
    wanted, plain = texts(engine, [asked, ask(Sampling())], Arm.REFERENCE)
    assert "own_repetition_penalty" not in engine.workload()
    engine._started().model.generation_config.repetition_penalty = 1.3
    for arm in Arm:
        own, without = texts(engine, [ask(Sampling()), off], arm)
        assert (own.token_ids, without.token_ids) == (wanted.token_ids, plain.token_ids)
    assert engine.workload()["own_repetition_penalty"] == "1.3"
    assert engine.score([ask(Sampling())], [wanted.token_ids])[0].best_ids == wanted.token_ids
    engine.close()


def test_native_says_which_settings_of_a_checkpoint_it_leaves_out(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = tiny.model()
    made.generation_config.no_repeat_ngram_size = 3
    tiny.save(tmp_path / "target", made)
    tiny.save(tmp_path / "draft", tiny.model())
    build(tmp_path, "native").close()
    said = "e: kind native leaves out what the target's generation config sets, no_repeat_ngram_size: 3, in both arms"
    assert f"{said} alike" in caplog.messages


REFUSED = {
    "bias": (
        Sampling(logit_bias=(Bias(64, 1.0),)),
        (
            "e: logit_bias names token id 64, and the target scores ids up to 63 — "
            "look the id up in the target's own tokenizer"
        ),
    ),
    "word": (
        Sampling(bad_words=("unheard",)),
        "e: the target's tokenizer cannot write the bad word 'unheard' — remove it: it cannot be said either",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", ["native", "transformers"])
def test_what_the_target_cannot_know_is_refused(native: Engine, transformers: Engine, kind: str, name: str) -> None:
    sampling, text = REFUSED[name]
    with pytest.raises(EngineError) as raised:
        {"native": native, "transformers": transformers}[kind].generate([ask(sampling)], Arm.CANDIDATE)
    assert str(raised.value) == text


@pytest.mark.parametrize("name", ["frequency_penalty", "presence_penalty"])
def test_what_transformers_lacks_is_refused(transformers: Engine, name: str) -> None:
    with pytest.raises(EngineError) as raised:
        transformers.generate([ask(Sampling(**{name: 0.5}))], Arm.REFERENCE)
    assert str(raised.value) == f"e: transformers knows no {name} — use repetition_penalty, or kind: native"


def test_a_request_without_a_seed_is_drawn_anew(native: Engine) -> None:
    request = ask(Sampling(1.0, seed=None), ignore_eos=True)
    assert len({seed_of(request) for _ in range(5)}) == 5
    one, other = (trace.token_ids for trace in native.generate([request, request], Arm.CANDIDATE))
    assert one != other
    assert seed_of(ask(Sampling(seed=3))) == seed_of(ask(Sampling(seed=3))) != seed_of(ask(Sampling(seed=4)))
