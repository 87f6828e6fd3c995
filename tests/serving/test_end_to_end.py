"""A suite on two servers, from ``pytest --specgate`` to verdicts, a baseline and a report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugin.conftest import Project, project
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script

__all__ = ["project"]
EXACT = (
    {"metric": "conditional_acceptance", "limit": ">=40%"},
    {"metric": "acceptance_length", "limit": ">=1.5"},
    {"metric": "exact_match", "limit": "==100%"},
    {"metric": "token_accounting", "limit": "==100%"},
)
SPECULATES = Script(pattern=(1, 3, 2), k=4)


def served(reference: str, candidate: str, **server: Any) -> dict[str, Any]:
    """The engine of a suite on these two addresses."""
    urls = {"reference": {"url": reference}, "candidate": {"url": candidate}}
    return {"pair": {"kind": "openai", "server": {"model": "smol", **urls, **server}}}


def test_a_suite_on_two_servers_is_measured_and_judged(project: Project) -> None:
    with FakeServer(Script()) as plain, FakeServer(SPECULATES) as fast:
        engines = served(plain.url, f"{fast.url}/v1/")
        project.suite(*EXACT, engines=engines, measure={"rounds": 1})
        result = project.run("--specgate", "--specgate-report=out.json", "suites")

    result.assert_outcomes(passed=4)
    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    ((measured,),) = report["measurements"].values()
    assert measured["place"]["device"] == "127.0.0.1 vllm"
    assert measured["subject"]["candidate_server"] == "vLLM 0.32.0"
    assert measured["workload"]["target"] == "smol"
    assert all(pair["candidate"]["told"]["foreign"] == 0 for pair in measured["pairs"])


def test_a_usage_that_lies_beside_ids_fails_the_accounting_and_is_nowhere_believed(project: Project) -> None:
    with FakeServer() as plain, FakeServer(Script(pattern=(1, 3, 2), k=4, claims=500)) as fast:
        gates = ({"metric": "token_accounting", "limit": "==100%"}, {"metric": "length_ratio", "limit": "1x..1x"})
        project.suite(*gates, engines=served(plain.url, fast.url), measure={"rounds": 1})
        result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1, failed=1)
    assert "usage says 513 tokens, 13 were returned" in " ".join(result.stdout.str().split())


def test_a_lost_acceptance_fails_against_the_baseline(project: Project) -> None:
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        project.suite(
            {"metric": "conditional_acceptance", "max_drop": "0.02"},
            engines=served(plain.url, fast.url, place={"device": "H200", "count": 2, "dtype": "bfloat16"}),
            measure={"rounds": 1},
        )
        project.run("--specgate-update", "suites").assert_outcomes(passed=1)
        assert (project.path / "baselines" / "h200-x2-bfloat16" / "demo.json").is_file()
        project.run("--specgate", "suites").assert_outcomes(passed=1)
        fast.script = Script(pattern=(1, 2, 1), k=4)
        result = project.run("--specgate", "suites")

    result.assert_outcomes(failed=1)


def test_a_server_that_is_not_there_stops_its_own_engine_alone(project: Project) -> None:
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        gone = fast.url
        fast.stop()
        project.suite(*EXACT[:1], engines={**served(plain.url, gone), "other": {"kind": "scripted"}})
        result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1, errors=1)
    hint = "(Connection refused) — start the server, or correct 'url'"
    assert f"pair: candidate server {gone} cannot be reached {hint}" in " ".join(result.stdout.str().split())


def test_a_server_that_dies_in_mid_run_is_an_error_with_what_it_did(project: Project) -> None:
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        fast.after_reply = lambda: setattr(fast, "script", Script(pattern=(1, 3, 2), k=4, drop_after=3))
        project.suite(*EXACT[:2], engines={**served(plain.url, fast.url), "other": {"kind": "scripted"}})
        result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=2, errors=2)
    told = f"pair: candidate server {fast.url} closed the connection in mid-answer"
    assert told in " ".join(result.stdout.str().split())


def test_a_key_is_sent_and_never_shown(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-do-not-show-me-1234"
    monkeypatch.setenv("SERVER_ACCESS", key)
    with FakeServer(key=key) as plain, FakeServer(SPECULATES, key="another") as fast:
        project.suite(*EXACT[:1], engines=served(plain.url, fast.url, api_key_env="SERVER_ACCESS"))
        result = project.run("--specgate", "--specgate-report=out.json", "--specgate-report=out.html", "suites")

    result.assert_outcomes(errors=1)
    shown = result.stdout.str() + result.stderr.str()
    written = [(project.path / name).read_text(encoding="utf-8") for name in ("out.json", "out.html")]
    assert "wrong key Bearer ********" in shown
    assert not any(key in text for text in (shown, *written))
