"""What a suite may say of servers that specgate starts, and what it is told where it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.serving.launching import arm_server, hosts_for, shown_command
from pytest_specgate.errors import EngineError, LocatedError, MissingPackage
from pytest_specgate.records import Arm
from pytest_specgate.suite.cases import Suite
from pytest_specgate.suite.load import load_suite

SERVE = ["serve", "--port", "${port}"]
URL = "http://127.0.0.1:8000"


def load(folder: Path, reference: object, environ: dict[str, str] | None = None, **server: Any) -> Suite:
    arms = {"reference": reference, "candidate": {"command": SERVE}, **server}
    suite = {
        "specgate": 1,
        "engines": {"pair": {"kind": "openai", "server": {"model": "smol", **arms}}},
        "scenarios": {"qa": {"category": "qa", "prompts": "p.jsonl"}},
        "gates": [{"metric": "speedup", "limit": ">=1x"}],
    }
    (folder / "p.jsonl").write_text('{"id": "q", "turns": ["Say it."]}\n', encoding="utf-8")
    path = folder / "s.specgate.yaml"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return load_suite(path, folder, environ or {})


def context(suite: Suite) -> EngineContext:
    return EngineContext("pair", suite.spec.engines["pair"], suite.path.parent)


@pytest.mark.parametrize(
    ("reference", "server", "expected"),
    [
        ({}, {}, "a server without an address — give 'url', or 'command' to have it started"),
        ({"model": "a"}, {}, "a server without an address — give 'url', or 'command' to have it started"),
        ({"command": []}, {}, "a server without an address — give 'url', or 'command' to have it started"),
        (
            {"command": "serve --port 8000"},
            {},
            "'command' is one text — write a list of arguments: [llama-server, -m, model.gguf]",
        ),
        (
            {"url": URL, "env": {"A": "b"}},
            {},
            "'env' is for a server that is started — add 'command', or remove it",
        ),
        (
            {"url": URL, "ready_timeout": "5 s"},
            {},
            "'ready_timeout' is for a server that is started — add 'command', or remove it",
        ),
        (
            {"command": SERVE, "health": "health"},
            {},
            "'health' is no path: 'health' — write it like /health",
        ),
        (
            {"url": "http://127.0.0.1:${port}"},
            {},
            "${port} is for a server that is started — add 'command', or write the port",
        ),
        (
            {"url": URL},
            {"together": False},
            "'together: false' needs servers that specgate starts — give both arms a 'command'",
        ),
    ],
)
def test_what_does_not_go_together_is_told(
    tmp_path: Path, reference: object, server: dict[str, Any], expected: str
) -> None:
    with pytest.raises(LocatedError) as raised:
        load(tmp_path, reference, **server)

    assert str(raised.value).partition(": ")[2] == expected


@pytest.mark.parametrize("item", [4.5, True, None, ["a"], ""])
def test_an_argument_is_text_or_a_whole_number(tmp_path: Path, item: object) -> None:
    with pytest.raises(LocatedError):
        load(tmp_path, {"command": ["serve", item, "${port}"]})


def test_whole_numbers_may_be_written_as_such(tmp_path: Path) -> None:
    suite = load(tmp_path, {"command": ["serve", "-c", 4096, "${port}"], "env": {"OMP_NUM_THREADS": 2}})

    server = suite.spec.engines["pair"].server
    assert server is not None
    assert server.reference.command == ("serve", "-c", "4096", "${port}")
    assert server.reference.env == {"OMP_NUM_THREADS": "2"}
    assert (server.reference.health, server.reference.ready_timeout) == ("/health", 120.0)


def test_the_environment_fills_commands_in_and_the_port_stays(tmp_path: Path) -> None:
    arm = {
        "command": ["${env:SERVER}", "--port=${port}"],
        "url": "http://127.0.0.1:${port}/v1",
        "env": {"P": "${port}"},
    }

    suite = load(tmp_path, arm, {"SERVER": "/opt/serve"})

    server = suite.spec.engines["pair"].server
    assert server is not None
    assert server.reference.command == ("/opt/serve", "--port=${port}")
    assert server.reference.url == "http://127.0.0.1:${port}"
    assert server.reference.env == {"P": "${port}"}


def test_a_port_is_filled_in_nowhere_else(tmp_path: Path) -> None:
    with pytest.raises(LocatedError, match=r"'\$\{' without 'env:NAME\}'"):
        load(tmp_path, {"command": SERVE}, model="${port}")


def test_a_file_of_a_package_is_found_when_the_servers_are_to_be_started(tmp_path: Path) -> None:
    suite = load(tmp_path, {"command": ["serve", "-m", "pkg://json/decoder.py", "${port}"]})
    made = context(suite)
    assert made.spec.server is not None

    hosts = hosts_for(made, made.spec.server, {})

    found = hosts._launches[Arm.REFERENCE].command[2]
    assert Path(found).name == "decoder.py"
    assert Path(found).is_file()
    assert hosts._launches[Arm.REFERENCE].folder == tmp_path
    assert hosts._launches[Arm.REFERENCE].url == "http://127.0.0.1:${port}"


def test_a_file_of_a_package_that_is_not_there_is_told(tmp_path: Path) -> None:
    made = context(load(tmp_path, {"command": ["serve", "pkg://json/no.gguf", "${port}"]}))
    assert made.spec.server is not None
    with pytest.raises(EngineError, match=r"pair: package 'json' holds no 'no.gguf' — "):
        hosts_for(made, made.spec.server, {})

    made = context(load(tmp_path, {"command": ["serve", "pkg://no_such_package/no.gguf", "${port}"]}))
    assert made.spec.server is not None
    with pytest.raises(MissingPackage):
        hosts_for(made, made.spec.server, {})


def test_an_arm_with_an_address_is_left_to_others(tmp_path: Path) -> None:
    made = context(load(tmp_path, {"url": URL}))
    assert made.spec.server is not None

    hosts = hosts_for(made, made.spec.server, {})

    assert not hosts.runs(Arm.REFERENCE)
    assert hosts.runs(Arm.CANDIDATE)


def test_a_command_is_shown_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_API_KEY", "sk-do-not-show")
    arm = {"command": ["serve", "--api-key", "sk-do-not-show", "--name", "two words", "--port", "${port}"]}
    made = context(load(tmp_path, arm))
    assert made.spec.server is not None

    shown = shown_command(arm_server(made.spec.server, Arm.REFERENCE))

    assert shown == "serve --api-key ******** --name 'two words' --port ${port}"


# --- what a server cannot tell ------------------------------------------------------------------------------------

ELSE = "or name other engines in the gate's 'engines'"
RATES = f"it does not tell which draft tokens the target looked at — gate acceptance_rate or acceptance_length, {ELSE}"


def gated(folder: Path, metric: str, candidate: dict[str, Any], **server: Any) -> Suite:
    load(folder, {"url": URL}, candidate=candidate, **server)  # writes it; its own gate is told by any server
    path = folder / "s.specgate.yaml"
    suite = json.loads(path.read_text(encoding="utf-8"))
    suite["gates"].append({"metric": metric, "limit": ">=0.1"})
    path.write_text(json.dumps(suite), encoding="utf-8")
    return load_suite(path, folder, {})


@pytest.mark.parametrize(
    ("metric", "candidate", "server", "expected"),
    [
        ("conditional_acceptance", {"url": URL}, {"dialect": "sglang"}, f"SGLang (engine 'pair'): {RATES}"),
        ("acceptance_slope", {"url": URL}, {"dialect": "trtllm"}, f"TensorRT-LLM (engine 'pair'): {RATES}"),
        (
            "conditional_acceptance",
            {"command": ["/opt/bin/python", "-m", "sglang.launch_server", "--port", "${port}"]},
            {},
            f"SGLang (engine 'pair'): {RATES}",
        ),
        (
            "acceptance_rate",
            {"command": ["text-generation-launcher", "--port", "${port}"]},
            {},
            f"TGI (engine 'pair'): it tells no draft tokens at all — gate acceptance_length, {ELSE}",
        ),
        (
            "acceptance_length",
            {"url": URL},
            {"dialect": "plain"},
            f"the OpenAI protocol (engine 'pair'): it says nothing of speculation — gate speed and output, {ELSE}",
        ),
    ],
)
def test_a_metric_that_the_server_never_tells_is_refused_where_the_gate_is_written(
    tmp_path: Path, metric: str, candidate: dict[str, Any], server: dict[str, Any], expected: str
) -> None:
    with pytest.raises(LocatedError) as raised:
        gated(tmp_path, metric, candidate, **server)

    where, _, said = str(raised.value).partition(": ")
    assert where.startswith("s.specgate.yaml:1:")
    assert said == f"{metric} is not told by {expected}"


@pytest.mark.parametrize(
    ("metric", "candidate", "server"),
    [
        ("conditional_acceptance", {"url": URL}, {}),
        ("conditional_acceptance", {"url": URL}, {"dialect": "llamacpp"}),
        ("acceptance_slope", {"url": URL}, {"dialect": "vllm"}),
        ("acceptance_rate", {"url": URL}, {"dialect": "sglang"}),
        ("acceptance_length", {"command": ["text-generation-launcher", "${port}"]}, {}),
    ],
)
def test_what_a_server_may_tell_is_asked(
    tmp_path: Path, metric: str, candidate: dict[str, Any], server: dict[str, Any]
) -> None:
    assert [gate.spec.metric for gate in gated(tmp_path, metric, candidate, **server).gates] == ["speedup", metric]
