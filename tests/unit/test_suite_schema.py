"""The JSON Schema that editors use: up to date, and of one mind with the loader."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from pytest_specgate.suite.model import SuiteSpec
from pytest_specgate.suite.schema import json_schema

COMMITTED = Path(__file__).parents[2] / "docs" / "schema" / "suite.schema.json"
GOOD = yaml.safe_load("""
specgate: 1
requires: {device: cuda, memory: 40 GiB, package: vllm}
engines:
  tiny:
    target: m
    candidate: {method: draft_model, draft: d, num_draft_tokens: 4, options: {anything: [1, {a: b}]}}
  plain: {kind: "my_package.decoder:Mine"}
  served:
    kind: openai
    server: {model: smol, reference: {url: "http://127.0.0.1:1"}, candidate: {url: "https://host/v1", model: fast}}
scenarios:
  chat: {category: chat, prompts: p.jsonl, sampling: [{}, {temperature: 0.7, name: warm}], concurrency: [1, 8]}
  qa: {category: qa, prompts: {file: p.jsonl, limit: 3, only: [a]}, engines: [tiny], stop: ["x"]}
measure: {rounds: 3, budget: 90 s, memory: false}
gates:
  - {metric: speedup, limit: ">=1.2x"}
  - {metric: vram, limit: 4 GiB..6 GiB, max_rise: 5% + 64 MiB, engines: [tiny]}
  - {metric: acceptance_rate, max_drop: 0.05, waive: {reason: known, until: "2030-01-31"}, on_fail: warn, policy: prove}
""")
Change = Callable[[dict[str, Any]], object]


def test_the_committed_schema_is_that_of_the_models() -> None:
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"

    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == json.loads(text), (
        "write it anew: python -c 'import json; from pytest_specgate.suite.schema import json_schema; "
        "print(json.dumps(json_schema(), indent=2, ensure_ascii=False))' > docs/schema/suite.schema.json"
    )


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def verdicts(suite: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the schema and whether the models accept the suite."""
    by_schema = jsonschema.Draft202012Validator(json_schema()).is_valid(suite)
    try:
        SuiteSpec.model_validate(suite)
    except ValidationError:
        return by_schema, False
    return by_schema, True


def setting(*path: str | int, to: object) -> Change:
    def change(suite: dict[str, Any]) -> None:
        place: Any = suite
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


ACCEPTED: list[Change] = [
    lambda suite: None,
    setting("requires", "package", to=["vllm", "torch"]),
    setting("requires", "memory", to=1024),
    setting("requires", "memory", to="1.5gb"),
    setting("requires", "memory", to=None),
    setting("requires", "device", to=None),
    setting("measure", "budget", to=90),
    setting("measure", "budget", to="2 min"),
    setting("gates", 0, "limit", to="<= 1.2x"),
    setting("gates", 0, "limit", to="==1"),
    setting("gates", 1, "max_drop", to="1e+2 B"),
    setting("gates", 2, "limit", to=None),
    setting("engines", "tiny", "candidate", to=None),
    setting("scenarios", "chat", "prompts", to={"file": "p.jsonl"}),
    setting("tier", to="nightly"),
    setting("scenarios", "chat", "sampling", to=[{"logit_bias": {"0": -100, "151643": 2.5}, "bad_words": ["x y"]}]),
    setting("scenarios", "chat", "sampling", to=[{"repetition_penalty": None, "min_p": 0.1, "min_tokens": 4}]),
    setting("engines", "served", "server", "timeout", to="30 s"),
    setting("scenarios", "qa", "load", to={"rate": "4/s", "arrival": "fixed"}),
    setting("engines", "served", "server", "reference", to={"command": ["serve", 4096, "${port}"], "env": {"N": 2}}),
    setting("engines", "served", "server", "reference", to={"command": ["s"], "health": None, "ready_timeout": 9}),
    setting("requires", "command", to=["sh", "llama-server"]),
    setting("engines", "served", "server", "place", to={"device": "NVIDIA H200", "count": 8}),
    setting("extends", to=None),
]
REFUSED: list[Change] = [
    setting("specgate", to=2),
    setting("specgate", to=True),
    setting("extra", to=1),
    setting("engines", to={}),
    setting("engines", "my engine", to={}),
    setting("engines", "a" * 61, to={}),
    setting("engines", "tiny", "tagret", to="m"),
    setting("engines", "tiny", "dtype", to="float8"),
    setting("engines", "tiny", "threads", to=0),
    setting("engines", "tiny", "candidate", "method", to="magic"),
    setting("engines", "tiny", "candidate", "num_draft_tokens", to="4"),
    lambda suite: suite["engines"]["tiny"]["candidate"].pop("method"),
    lambda suite: suite["engines"]["served"]["server"].pop("model"),
    lambda suite: suite["engines"]["served"]["server"]["candidate"].pop("url"),
    setting("engines", "served", "server", "dialect", to="ollama"),
    setting("engines", "served", "server", "timeout", to="soon"),
    setting("scenarios", "qa", "load", to={"rate": "often"}),
    setting("scenarios", "qa", "load", to={"arrival": "fixed"}),
    setting("engines", "served", "server", "reference", to={"command": "serve --port 1"}),
    setting("engines", "served", "server", "reference", to={"command": ["serve", 1.5]}),
    setting("engines", "served", "server", "reference", to={"model": "smol"}),
    setting("engines", "served", "server", "together", to="no"),
    setting("engines", "served", "server", "api_key", to="sk-1"),
    setting("requires", "memory", to="40 GB/s"),
    setting("requires", "memory", to="lots"),
    setting("requires", "package", to=5),
    setting("measure", "budget", to="90"),
    setting("measure", "budget", to=0),
    setting("measure", "rounds", to=65),
    setting("measure", "memory", to=1),
    setting("scenarios", "chat", "prompts", to=5),
    setting("scenarios", "chat", "prompts", to={"limit": 1}),
    setting("scenarios", "chat", "concurrency", to=[]),
    setting("scenarios", "chat", "concurrency", to=4),
    setting("scenarios", "chat", "category", to="poetry"),
    lambda suite: suite["scenarios"]["chat"].pop("prompts"),
    setting("scenarios", "chat", "sampling", to=[{"temperature": 11}]),
    setting("scenarios", "chat", "sampling", to=[{"logit_bias": {"the": 1}}]),
    setting("scenarios", "chat", "sampling", to=[{"logit_bias": {"01": 1}}]),
    setting("scenarios", "chat", "sampling", to=[{"logit_bias": {"1": 101}}]),
    setting("scenarios", "chat", "sampling", to=[{"bad_words": [""]}]),
    setting("scenarios", "chat", "sampling", to=[{"repetition_penalty": 0}]),
    setting("scenarios", "chat", "sampling", to=[{"frequency_penalty": -2.1}]),
    setting("scenarios", "chat", "sampling", to=[{"min_p": 1.1}]),
    setting("scenarios", "chat", "sampling", to=[{"min_tokens": -1}]),
    setting("gates", to=[]),
    setting("gates", 0, to={"metric": "speedup"}),
    setting("gates", 0, to={"limit": ">=1x"}),
    setting("gates", 0, "metric", to="spedup"),
    setting("gates", 0, "limit", to=1.2),
    setting("gates", 0, "limit", to="1.2x"),
    setting("gates", 0, "max_drop", to="some"),
    setting("gates", 0, "max_drop", to=-1),
    setting("gates", 2, "waive", to={"reason": "known"}),
    lambda suite: suite.pop("gates"),
]


@pytest.mark.parametrize("change", ACCEPTED, ids=range(len(ACCEPTED)))
def test_both_accept(change: Change) -> None:
    suite = copy.deepcopy(GOOD)
    change(suite)

    assert verdicts(suite) == (True, True)


@pytest.mark.parametrize("change", REFUSED, ids=range(len(REFUSED)))
def test_both_refuse(change: Change) -> None:
    suite = copy.deepcopy(GOOD)
    change(suite)

    assert verdicts(suite) == (False, False)


def test_a_suite_with_a_base_may_leave_out_what_the_base_gives() -> None:
    schema = jsonschema.Draft202012Validator(json_schema())
    partial = {"extends": "base.yaml", "engines": {"tiny": {"candidate": {"num_draft_tokens": 8}}}}

    assert schema.is_valid(partial)
    assert schema.is_valid({**partial, "scenarios": {"chat": {"max_tokens": 8}}})
    assert not schema.is_valid({**partial, "extra": 1})
