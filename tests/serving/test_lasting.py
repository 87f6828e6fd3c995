"""Requests at the edge over HTTP: honoured by servers that live on, and by the same ones after a long prompt."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm
from tests.plugin.conftest import Project, project
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import served
from tests.serving.test_other_traffic import crowded
from tests.serving.test_scoring import scoring
from tests.serving.test_started import STARTED

__all__ = ["project"]
HONOURS = Script(tokens=400, honours=True, window=128)
FAST = replace(HONOURS, pattern=(1, 3, 2), k=4)
GATE = {"metric": "request_honouring", "limit": "==100%"}


def swept(project: Project, plain: FakeServer, fast: FakeServer, **server: Any) -> dict[str, Any]:
    """The verdict on requests at the edge to these two."""
    project.suite(GATE, engines=served(plain.url, fast.url, **server))
    project.run("--specgate", "--specgate-report=out.json", "suites")
    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    return report["verdicts"][0]


def test_servers_that_do_what_is_asked_pass(project: Project) -> None:
    with scoring(HONOURS) as plain, scoring(FAST) as fast:
        verdict = swept(project, plain, fast)

    assert verdict["outcome"] == "PASS", verdict
    asked = [len(body["prompt"]) for body in fast.requests if isinstance(body.get("prompt"), list)]
    assert max(asked) == HONOURS.window


def test_servers_that_tell_no_ids_are_held_to_their_texts(project: Project) -> None:
    with scoring(replace(HONOURS, ids=False)) as plain, scoring(replace(FAST, ids=False)) as fast:
        verdict = swept(project, plain, fast, dialect="vllm")

    assert verdict["outcome"] == "PASS", verdict


def test_servers_without_a_tokenizer_are_asked_by_text(project: Project) -> None:
    with FakeServer(HONOURS) as plain, FakeServer(FAST) as fast:
        verdict = swept(project, plain, fast)

    assert "not asked: prompt lengths, windows, an empty prompt: the engine takes no token ids" in verdict["warnings"]


def test_a_server_that_says_wrong_tokens_after_a_long_prompt_is_caught(project: Project) -> None:
    with scoring(HONOURS) as plain, scoring(FAST) as fast:

        def spoil() -> None:
            if len(fast.requests[-1].get("prompt", ())) > 100:
                fast.script = replace(FAST, honours=False, wrong_every=2)

        fast.after_reply = spoil
        verdict = swept(project, plain, fast)

    assert verdict["outcome"] == "FAIL", verdict
    begin = "canary/after, candidate arm: output token"
    assert any(said.startswith(begin) for said in verdict["warnings"]), verdict


def test_without_scores_the_canary_is_held_against_itself(project: Project) -> None:
    with FakeServer(HONOURS) as plain, FakeServer(FAST) as fast:

        def spoil() -> None:
            if len(str(fast.requests[-1].get("messages", ""))) > 1000:
                fast.script = replace(FAST, honours=False, wrong_every=2)

        fast.after_reply = spoil
        verdict = swept(project, plain, fast, dialect="plain")

    assert verdict["outcome"] == "FAIL", verdict
    begin = "canary/after, candidate arm: another token from output token"
    assert any(said.startswith(begin) for said in verdict["warnings"]), verdict


def test_the_request_that_killed_a_server_is_named_and_nothing_more_is_asked(project: Project) -> None:
    with scoring(HONOURS) as plain, scoring(FAST) as fast:

        def die() -> None:
            if len(fast.requests[-1].get("prompt", ())) == 17:  # one more than a block
                fast.script = replace(FAST, drop_after=0)

        fast.after_reply = die
        verdict = swept(project, plain, fast)

    assert verdict["outcome"] == "FAIL", verdict
    assert "alive/after length/17: no answer to an ordinary request after length/17" in verdict["reason"]
    assert "not asked: what comes after length/17: the server does not answer any more" in verdict["warnings"]


def test_any_request_may_be_a_servers_last(project: Project) -> None:
    with scoring(HONOURS) as plain, scoring(FAST) as fast:

        def die() -> None:
            if fast.requests[-1].get("top_k") == 1:
                fast.script = replace(FAST, drop_after=0)

        fast.after_reply = die
        verdict = swept(project, plain, fast)

    assert verdict["outcome"] == "FAIL", verdict
    assert "not asked: what comes after filter/top_p: the server does not answer any more" in verdict["warnings"]


def test_what_a_server_says_it_does_not_take_is_listed_and_no_fault(project: Project) -> None:
    with scoring(HONOURS) as plain, scoring(replace(FAST, lacks="logit_bias")) as fast:
        verdict = swept(project, plain, fast)

    assert verdict["outcome"] == "PASS", verdict
    said = "status 400: logit_bias is not yet supported with speculative decoding)"
    begin = "not asked: logit_bias: the candidate arm takes none (candidate server "
    assert any(one.startswith(begin) and one.endswith(said) for one in verdict["warnings"]), verdict
    # What is not taken alone is left out of the mixed batch, which is asked all the same.
    assert not any("mixed batch: " in one for one in verdict["warnings"]), verdict


def test_a_started_server_that_dies_is_started_anew_and_asked_on(project: Project) -> None:
    def arm(**more: Any) -> dict[str, Any]:
        script = {"tokens": 400, "honours": True, "window": 96, **more}
        return {"command": [sys.executable, STARTED, "${port}", json.dumps(script)]}

    spec = {"model": "smol", "reference": arm(), "candidate": arm(pattern=[1, 3, 2], k=4, die_on=15)}
    project.suite(GATE, engines={"pair": {"kind": "openai", "server": spec}})
    project.run("--specgate", "--specgate-report=out.json", "suites")
    verdict = json.loads((project.path / "out.json").read_text(encoding="utf-8"))["verdicts"][0]

    assert verdict["outcome"] == "FAIL", verdict
    broken = [said.partition(",")[0] for said in verdict["warnings"] if ", candidate arm:" in said]
    assert broken == ["length/15"]
    assert "an illegal memory access" in str(verdict)
    assert "length/15: crashed (pair: the candidate server was ended by " in verdict["reason"]


# --- a soak ---

LEAK = {"metric": "host_memory_slope", "limit": "<=64 KiB"}
WEAR = {"metric": "acceptance_wear", "limit": ">=-0.02"}


def soaked(project: Project, gate: dict[str, str], candidate: dict[str, Any], blocks: int = 16) -> dict[str, Any]:
    def arm(**more: Any) -> dict[str, Any]:
        return {"command": [sys.executable, STARTED, "${port}", json.dumps(more)]}

    spec = {"model": "smol", "reference": arm(), "candidate": arm(pattern=[1, 3, 2], k=4, **candidate)}
    scenario = {"category": "qa", "prompts": {"file": "prompts/p.jsonl", "limit": 1}, "max_tokens": 13}
    measure = {"rounds": 1, "warmup": 1, "soak": blocks}
    engines = {"pair": {"kind": "openai", "server": spec}}
    project.suite(gate, engines=engines, scenarios={"qa": scenario}, measure=measure)
    project.run("--specgate", "--specgate-report=out.json", "suites")
    return json.loads((project.path / "out.json").read_text(encoding="utf-8"))["verdicts"][0]  # type: ignore[no-any-return]


def test_memory_that_grows_with_every_request_fails(project: Project) -> None:
    verdict = soaked(project, LEAK, {"leak": 1 << 20})

    assert verdict["outcome"] == "FAIL", verdict


def test_memory_that_stays_passes(project: Project) -> None:
    verdict = soaked(project, LEAK, {})

    assert verdict["outcome"] == "PASS", verdict


FAULTS = [
    ({"error_after": 3}, "broke off with an error: engine died"),
    ({"drop_after": 3}, "closed the connection in mid-answer"),
    ({"status": 500}, "refuses the request with status 500"),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
@pytest.mark.parametrize("after", [0, 2], ids=["watched", "soak"])
def test_a_request_that_fails_while_a_server_is_looked_at_is_an_error(
    arms: Arms, after: int, fault: dict[str, Any], said: str
) -> None:
    engine, _, fast = arms(Script(pattern=(1, 3, 2), k=4))
    fine, broken = fast.script, replace(fast.script, **fault)
    fast.script = fine if after else broken

    def break_it() -> None:
        fast.script = broken if len(fast.requests) >= after else fine

    fast.after_reply = break_it
    with pytest.raises(EngineError) as raised:
        engine.watch([[ask()]], Arm.CANDIDATE, 4)

    assert str(raised.value).startswith(f"pair: candidate server {fast.url} {said}")


@pytest.mark.parametrize("told", ["vllm", ""], ids=["by-answers", "by-counters"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_soak_keeps_the_waits_that_a_busy_server_asks_for(arms: Arms, status: int, told: str) -> None:
    engine, _, fast = arms(Script(pattern=(1, 3, 2), k=4, per_request=told))
    fine = fast.script

    def be_busy() -> None:
        fast.script = replace(fine, status=status, retry_after="0", busy=5) if len(fast.requests) == 2 else fine

    fast.after_reply = be_busy
    soak = engine.watch([[ask()]], Arm.CANDIDATE, 4).soak

    assert len(fast.requests) == 1 + 4 + 3
    assert soak is not None
    assert (len(soak.drafted), len(set(soak.drafted)), len(set(soak.accepted))) == (4, 1, 1)


def test_a_soak_waits_for_counters_that_come_late(arms: Arms) -> None:
    engine, _, _ = arms(Script(pattern=(1, 3, 2), k=4, tardy=True))

    soak = engine.watch([[ask()]], Arm.CANDIDATE, 4).soak

    assert soak is not None
    assert (len(soak.drafted), len(set(soak.drafted)), len(set(soak.accepted))) == (4, 1, 1)
    assert soak.accepted[0] > 0


def test_a_soak_takes_nothing_from_counters_that_count_others_too(arms: Arms) -> None:
    engine, _, fast = arms(Script(pattern=(1, 3, 2), k=4))
    crowded(fast)

    soak = engine.watch([[ask()]], Arm.CANDIDATE, 4).soak

    assert soak is not None
    assert soak.drafted == ()


def test_a_request_that_fails_in_a_soak_ends_its_case_alone(project: Project) -> None:
    prompts = {"file": "prompts/p.jsonl", "limit": 1}
    scenarios = {name: {"category": "qa", "prompts": prompts, "max_tokens": n} for name, n in (("a", 12), ("b", 13))}
    with FakeServer(Script()) as plain, FakeServer(Script(pattern=(1, 3, 2), k=4)) as fast:
        fine = fast.script

        def break_the_soak() -> None:
            # Of the shorter case: six requests warm up, one is measured, one is looked at, and then it is soaked.
            shorter = sum(body["max_tokens"] == 12 for body in fast.requests)
            fast.script = replace(fine, error_after=3) if shorter == 10 else fine

        fast.after_reply = break_the_soak
        measure = {"rounds": 1, "warmup": 6, "soak": 16}
        project.suite(WEAR, engines=served(plain.url, fast.url), scenarios=scenarios, measure=measure)
        result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1, errors=1)
    assert f"candidate server {fast.url} broke off with an error: engine died" in " ".join(result.stdout.str().split())


@pytest.mark.parametrize(("wears", "outcome"), [(0, "PASS"), (32, "FAIL")])
def test_acceptance_that_wears_off_fails(project: Project, wears: int, outcome: str) -> None:
    with FakeServer(Script()) as plain, FakeServer(Script(pattern=(1, 3, 2), k=4)) as fast:

        def wear() -> None:
            if wears and len(fast.requests) > wears:
                fast.script = replace(fast.script, pattern=(1, 2, 1))

        fast.after_reply = wear
        scenario = {"category": "qa", "prompts": {"file": "prompts/p.jsonl", "limit": 1}, "max_tokens": 13}
        measure = {"rounds": 1, "warmup": 1, "soak": 40}
        project.suite(WEAR, engines=served(plain.url, fast.url), scenarios={"qa": scenario}, measure=measure)
        project.run("--specgate", "--specgate-report=out.json", "suites")
    verdict = json.loads((project.path / "out.json").read_text(encoding="utf-8"))["verdicts"][0]

    assert verdict["outcome"] == outcome, verdict
