"""Two fake servers and an engine that asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.openai import OpenAIEngine
from pytest_specgate.records import Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script

Pair = Callable[..., tuple[OpenAIEngine, FakeServer, FakeServer]]


def ask(prompt: str = "q1", text: str = "Say it.", max_tokens: int = 64, **more: Any) -> Request:
    """A request of one turn."""
    return Request(prompt, (Message("user", text),), max_tokens, more.pop("sampling", Sampling()), **more)


@pytest.fixture(autouse=True)
def _library() -> None:
    """Say why nothing runs here where the library is missing."""
    pytest.importorskip("aiohttp", reason="serving needs pytest-specgate[http]")


@pytest.fixture
def arms(tmp_path: Path) -> Iterator[Pair]:
    """A started engine on two fake servers with these scripts; ``server`` keys are further ones of the suite."""
    with ExitStack() as stack:

        def make(
            candidate: Script | None = None, reference: Script | None = None, *, start: bool = True, **server: Any
        ) -> tuple[OpenAIEngine, FakeServer, FakeServer]:
            second = stack.enter_context(FakeServer(candidate or Script(pattern=(1, 3, 2), k=4)))
            first = stack.enter_context(FakeServer(reference or Script()))
            urls = {"reference": {"url": first.url}, "candidate": {"url": second.url}}
            spec = EngineSpec.model_validate({"kind": "openai", "server": {"model": "smol", **urls, **server}})
            engine = OpenAIEngine(EngineContext("pair", spec, tmp_path))
            stack.callback(engine.close)
            if start:
                engine.start()
            return engine, first, second

        yield make
