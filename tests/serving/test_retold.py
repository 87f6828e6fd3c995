"""Answers without token ids, asked for again: believed only where the same text comes again with as many tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.engines.serving.dialects import DIALECTS
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.outside import Outside, Source
from pytest_specgate.records import Arm, Chunk, Request, Sampling, Told, Trace
from pytest_specgate.suite.setups import EngineSpec
from tests.serving.conftest import ask

#: "ab" by two tokens of its own, which its tokenizer would write as one.
TEXT, EMITTED, RECUT = "ab", [97, 98], [300]


class Server:
    """llama.cpp's pages: answers by seed, remembered where it was asked again."""

    def __init__(self, answers: Mapping[int | None, tuple[str, list[int]]]) -> None:
        self.answers, self.bodies = answers, list[Mapping[str, Any]]()

    def __call__(self, path: str, body: Mapping[str, Any]) -> Any:
        if path == "/completion":
            self.bodies.append(body)
            text, ids = self.answers.get(body.get("seed"), ("other", [1, 2]))
            return {"content": text, "tokens": ids}
        return {"/tokenize": {"tokens": RECUT}, "/detokenize": {"content": TEXT}}[path]


def outside(folder: Path, server: Server) -> Outside:
    urls = {arm: {"url": "http://127.0.0.1:9"} for arm in ("reference", "candidate")}
    spec = EngineSpec.model_validate({"kind": "openai", "server": {"model": "m", **urls}})
    source = Source(server, "m", DIALECTS["llamacpp"], "")
    return Outside(EngineContext("e", spec, folder), create, lambda _: source)


def trace(tokens: int) -> Trace:
    return Trace(
        "q1", Arm.CANDIDATE, (), TEXT, 3, 0, (Chunk(9, tokens),), "length", max_tokens=tokens, told=Told(tokens=tokens)
    )


def drawn(seed: int | None) -> Request:
    return replace(ask(sampling=Sampling(1.0, seed=seed)), token_ids=(5, 6, 7))


def test_a_draw_comes_again_by_its_seed(tmp_path: Path) -> None:
    from pytest_specgate.engines.base import seed_of

    first, second = drawn(3), drawn(4)
    server = Server({seed_of(first): (TEXT, EMITTED), seed_of(second): (TEXT, [97, 99])})
    found = outside(tmp_path, server).identify([first, second], [trace(2), trace(2)])

    assert [one.token_ids for one in found] == [(97, 98), (97, 99)]
    assert [body["temperature"] for body in server.bodies] == [1.0, 1.0]


def test_a_draw_that_comes_otherwise_is_cut_anew_and_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    server = Server({})
    assert outside(tmp_path, server).identify([drawn(3)], [trace(1)])[0].token_ids == (300,)
    with pytest.raises(Failure) as raised:
        outside(tmp_path, server).identify([drawn(3)], [trace(2)])
    assert str(raised.value) == (
        "counted 2 tokens in its answer to q1 and told no ids, and its text cut anew has 1; asked again it drew another"
        " — add 'body: {cache_prompt: false}' to the servers, so that draws come again by their seed"
    )


def test_a_character_cut_in_two_at_the_end_is_no_other_text(tmp_path: Path) -> None:
    from pytest_specgate.engines.base import seed_of

    server = Server(
        {seed_of(drawn(3)): (TEXT + "\ufffd", [97, 98, 227]), seed_of(drawn(4)): (TEXT + "c", [97, 98, 99])}
    )
    asked = outside(tmp_path, server)
    assert asked.identify([drawn(3)], [trace(3)])[0].token_ids == (97, 98, 227)
    with pytest.raises(Failure):
        asked.identify([drawn(4)], [trace(3)])


def test_without_a_seed_nothing_is_asked_again(tmp_path: Path) -> None:
    server = Server({})
    outside(tmp_path, server).identify([drawn(None)], [trace(1)])
    assert server.bodies == []
