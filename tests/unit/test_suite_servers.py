"""What a suite may say of two servers at addresses, mistake by mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.errors import LocatedError
from pytest_specgate.suite.cases import Suite
from pytest_specgate.suite.load import load_suite

URL = {"url": "http://127.0.0.1:8000"}
GOOD: dict[str, Any] = {"model": "smol", "reference": URL, "candidate": {"url": "http://127.0.0.1:8001/v1/"}}


def load(folder: Path, engine: dict[str, Any], environ: dict[str, str] | None = None) -> Suite:
    suite = {
        "specgate": 1,
        "engines": {"pair": engine},
        "scenarios": {"qa": {"category": "qa", "prompts": "p.jsonl"}},
        "gates": [{"metric": "speedup", "limit": ">=1x"}],
    }
    (folder / "p.jsonl").write_text('{"id": "q", "turns": ["Say it."]}\n', encoding="utf-8")
    path = folder / "s.specgate.yaml"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return load_suite(path, folder, environ or {})


def told(folder: Path, engine: dict[str, Any]) -> str:
    """What is wrong and what to do, without the place."""
    with pytest.raises(LocatedError) as raised:
        load(folder, engine)
    return f"{raised.value.what} — {raised.value.hint}"


DIALECTS = "auto, vllm, sglang, llamacpp, tgi, trtllm, plain"
WRITE_URL = "write it like http://127.0.0.1:8000"
NO_ADDRESS = [
    ("127.0.0.1:8000", f"'url' is no http address — {WRITE_URL}"),
    ("ftp://host", f"'url' is no http address — {WRITE_URL}"),
    ("http://", f"'url' is no http address — {WRITE_URL}"),
    ("http://host:port", f"'url' is no address — {WRITE_URL}"),
    ("http://host/v1?key=abc", f"'url' goes on after the path — {WRITE_URL}"),
    (
        "https://me:secret@host",
        "'url' holds a user's name or password — leave it out, and name the key with 'api_key_env'",
    ),
]


@pytest.mark.parametrize(("url", "message"), NO_ADDRESS)
def test_what_is_no_address_is_told_and_not_shown(tmp_path: Path, url: str, message: str) -> None:
    assert told(tmp_path, {"kind": "openai", "server": {**GOOD, "reference": {"url": url}}}) == message


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (
            {"kind": "openai"},
            "kind openai needs 'server' — add 'server: {model: ..., reference: {url: ...}, candidate: {url: ...}}'",
        ),
        ({"server": GOOD}, "'server' is for servers behind HTTP — add 'kind: openai', or remove it"),
        (
            {"kind": "openai", "server": GOOD, "dtype": "bfloat16"},
            "kind openai takes no 'dtype' — remove it: a server is started with its own settings",
        ),
        (
            {"kind": "openai", "server": {**GOOD, "api_key_env": "sk-live-0123"}},
            "'api_key_env' is no variable's name — name the variable that holds the key, not the key",
        ),
        (
            {"kind": "openai", "server": {**GOOD, "body": {"temperature": 1}}},
            "'body' sets 'temperature', which specgate sets itself — use the scenario's 'sampling'",
        ),
        (
            {"kind": "openai", "server": {**GOOD, "body": {"stream": False}}},
            "'body' sets 'stream', which specgate sets itself — remove it: answers are always streamed",
        ),
        (
            {"kind": "openai", "server": {**GOOD, "dialect": "vlm"}},
            f"'dialect' cannot be 'vlm'; did you mean 'vllm'? — choose one of: {DIALECTS}",
        ),
        (
            {"kind": "openai", "server": {**GOOD, "place": {"count": 8}}},
            "'place' has no 'device' — add it: 'device: NVIDIA H200'",
        ),
    ],
)
def test_other_mistakes(tmp_path: Path, engine: dict[str, Any], message: str) -> None:
    assert told(tmp_path, engine) == message


def test_a_key_that_was_written_into_the_suite_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(LocatedError) as raised:
        load(tmp_path, {"kind": "openai", "server": {**GOOD, "api_key_env": "sk-live-0123"}})

    assert "sk-live" not in str(raised.value)


def test_addresses_lose_what_the_protocol_adds_and_may_come_from_the_environment(tmp_path: Path) -> None:
    engine = {"kind": "openai", "server": {**GOOD, "reference": {"url": "${env:PLAIN_URL}"}, "timeout": "2 min"}}
    server = load(tmp_path, engine, {"PLAIN_URL": "https://host/base/v1"}).spec.engines["pair"].server

    assert server is not None
    assert (server.reference.url, server.candidate.url) == ("https://host/base", "http://127.0.0.1:8001")
    assert server.timeout == 120.0
