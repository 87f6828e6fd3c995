"""How requests begin, and what comes of it in a server's prefix cache: hits counted, cold ones held to be cold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specgate.measure.anew import decode_case, encode_case
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.measure.readings import Observed
from pytest_specgate.measure.server_rules import cold_prompts, prefix_cache
from pytest_specgate.records import Arm, Pair, Told
from pytest_specgate.samples.serving import scalars
from pytest_specgate.suite.model import ScenarioSpec
from pytest_specgate.suite.prefixes import PrefixSpec, made_up
from tests.plugin.conftest import Project, project
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import SPECULATES, served
from tests.unit.observing import pairs
from tests.unit.project import load, write

__all__ = ["project"]
TALK = [
    {"id": "chat", "system": "Be brief.", "turns": ["Hello.", "And then?"]},
    {"id": "qa", "turns": ["Hello."]},
]
GATE = {"metric": "prefix_cache_hit_rate", "limit": "<=100%"}
CACHES = {"caches": True}


# --- the setting -------------------------------------------------------------------------------------------------


def scenario(prefix: object) -> PrefixSpec:
    return ScenarioSpec.model_validate({"category": "qa", "prompts": "p.jsonl", "prefix": prefix}).prefix


@pytest.mark.parametrize(
    ("prefix", "shown"),
    [
        ("as_is", "as_is"),
        ("cold", "cold seed=0"),
        ({"kind": "cold", "seed": 4}, "cold seed=4"),
        ("shared", "shared tokens=512"),
        ({"kind": "shared", "tokens": 64}, "shared tokens=64"),
        ({"kind": "shared", "text": "Read this."}, "shared text=7b5ca05455cbd229"),
    ],
)
def test_how_it_is_written_and_shown(prefix: object, shown: str) -> None:
    assert str(scenario(prefix)) == shown


@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        ({"kind": "cold", "tokens": 64}, "'tokens' is for prompts with 'kind: shared' — remove it, or write that kind"),
        ({"text": "Read."}, "'text' is for prompts with 'kind: shared' — remove it, or write that kind"),
        ({"kind": "shared", "seed": 1}, "'seed' is for prompts with 'kind: cold' — remove it, or write that kind"),
        ({"kind": "shared", "text": "R", "tokens": 9}, "both 'text' and 'tokens' — keep one: a text has its own"),
    ],
)
def test_what_does_not_go_together(prefix: object, why: str) -> None:
    with pytest.raises(ValidationError) as raised:
        scenario(prefix)
    assert why in str(raised.value)


@given(st.integers(1, 400))
def test_a_text_that_is_made_up_has_the_length_that_was_asked_for(words: int) -> None:
    assert len(made_up(words).split()) == words
    assert made_up(400).startswith(made_up(words))


def first_words(folder: Path, prefix: object, series: str = "", rounds: int = 2) -> list[str]:
    """The first message of every request of all rounds."""
    _, case = load(write(folder, prompts=TALK, scenario={"prefix": prefix}))
    dialogue = Dialogue(case, series)
    dialogue.answers["chat/1"] = "Hi."
    asked = [
        dialogue.request(conversation, turn, number)
        for number in range(rounds)
        for conversation in case.scenario.conversations
        for turn in range(len(conversation.turns))
    ]
    return [request.messages[0].content for request in asked]


def test_cold_requests_begin_each_in_its_own_way_and_the_same_in_every_run(tmp_path: Path) -> None:
    timed, warm = first_words(tmp_path, "cold"), first_words(tmp_path, "cold", "warm-up 0")

    assert len({text[:20] for text in (*timed, *warm)}) == len(timed) + len(warm) == 12
    assert timed == first_words(tmp_path, "cold")
    assert not set(timed) & set(first_words(tmp_path, {"kind": "cold", "seed": 1}))
    assert [text.partition("\n")[2] for text in timed[:3]] == ["Be brief.", "Be brief.", "Hello."]


def test_shared_requests_begin_alike(tmp_path: Path) -> None:
    made, own = first_words(tmp_path, "shared"), first_words(tmp_path, {"kind": "shared", "text": "Read this."})

    assert {text.partition("\n\n")[0] for text in made} == {made_up(512)}
    assert own[:3] == ["Read this.\n\nBe brief.", "Read this.\n\nBe brief.", "Read this.\n\nHello."]


def test_requests_are_as_they_are_unless_asked_otherwise(tmp_path: Path) -> None:
    assert first_words(tmp_path, "as_is", rounds=1) == ["Be brief.", "Be brief.", "Hello."]


def test_a_process_of_its_own_asks_the_same(tmp_path: Path) -> None:
    _, case = load(write(tmp_path, prompts=TALK, scenario={"prefix": {"kind": "shared", "text": "Read."}}))

    assert decode_case(json.loads(json.dumps(encode_case(case)))).scenario.spec.prefix == case.scenario.spec.prefix


# --- what servers tell -------------------------------------------------------------------------------------------


def test_cached_tokens_of_each_answer_are_its_own(arms: Arms) -> None:
    engine, _, _ = arms(Script(**CACHES))  # type: ignore[arg-type]

    first, second = (engine.generate([ask("q", "one two three four")], Arm.CANDIDATE)[0] for _ in range(2))

    assert first.told is not None
    assert second.told is not None
    assert (first.prompt_tokens, first.told.cached) == (4, 0)
    assert (second.prompt_tokens, second.told.cached) == (4, 3)


def test_counters_tell_of_all_that_ran_together_where_answers_do_not(arms: Arms) -> None:
    hits = 'vllm:prefix_cache_hits_total{engine="0"} %d.0\n'
    engine, _, fast = arms(replace(SPECULATES, gauges=hits % 100))
    fast.after_reply = lambda: setattr(fast, "script", replace(SPECULATES, gauges=hits % 112))

    found = engine.generate([ask("q1"), ask("q2")], Arm.CANDIDATE)

    assert [trace.told and trace.told.cached for trace in found] == [12, 0]


def told(*rates: tuple[int | None, int | None]) -> list[Pair]:
    """Pairs whose prompts have 40 tokens, so many of them cached by either arm."""
    made = pairs((1.0, 0.5), prompts=len(rates))
    return [
        replace(
            pair,
            reference=replace(pair.reference, prompt_tokens=40, told=Told(cached=one)),
            candidate=replace(pair.candidate, prompt_tokens=40, told=Told(cached=other)),
        )
        for pair, (one, other) in zip(made, rates)
    ]


def test_the_hit_rate_is_a_share_of_all_prompts_tokens() -> None:
    assert scalars(told((0, 20), (0, 38))) == {"reference_prefix_cache_hit_rate": 0.0, "prefix_cache_hit_rate": 0.725}
    assert scalars(told((0, 20), (0, None))) == {"reference_prefix_cache_hit_rate": 0.0}
    assert scalars(pairs((1.0, 0.5))) == {}


@pytest.mark.parametrize(
    ("rates", "held", "noted", "detail"),
    [
        ([(20, 20)], True, False, "as they are; of the prompts' tokens were cached: reference 50.0%, candidate 50.0%"),
        ([(20, 24)], True, True, "reference 50.0%, candidate 60.0%"),
        ([(0, 8)], True, True, "reference 0.0%, candidate 20.0%"),
        ([(0, 20)], False, False, "candidate 50.0% (one arm never hits, the other above 20%)"),
        ([(None, 20)], True, False, "cannot be told: a server does not tell which tokens of a prompt were cached"),
    ],
)
def test_arms_that_hit_differently_are_told(
    rates: list[tuple[int | None, int | None]], held: bool, noted: bool, detail: str
) -> None:
    ruling = prefix_cache(Observed(told(*rates)))

    assert (ruling.held, ruling.noted and ruling.held) == (held, noted)
    assert ruling.detail.endswith(detail)


@pytest.mark.parametrize(
    ("rates", "held", "detail"),
    [
        ([(0, 0), (20, 20)], True, "0 of 4 cold requests came from a prefix cache"),  # a chat template begins them all
        ([(0, 0), (0, 32)], False, "1 of 4 cold requests came from a prefix cache (none may)"),
        ([(44, 0), (0, 0)], True, "0 of 4"),  # a sum over both, with the first of them
        ([(78, 78), (0, 0)], False, "4 of 4"),
        ([(None, 0)], True, "cannot be told"),
    ],
)
def test_cold_requests_must_not_come_from_a_cache(
    rates: list[tuple[int | None, int | None]], held: bool, detail: str
) -> None:
    ruling = cold_prompts(Observed(told(*rates), prefix="cold"))

    assert ruling.held is held
    assert ruling.detail.startswith(detail)


# --- from a suite to its verdicts --------------------------------------------------------------------------------


def run(
    project: Project, prefix: object, *gates: Mapping[str, object], **scripts: Script
) -> tuple[Any, dict[str, Any]]:
    """Two rounds; the result, and the measurement."""
    prompts = [{"id": f"q{n}", "turns": [f"Say {n}, and then say in a few words why it is {n}."]} for n in range(1, 7)]
    project.write("suites/prompts/p.jsonl", "\n".join(map(json.dumps, prompts)))
    asked = {"category": "qa", "prompts": "prompts/p.jsonl", "prefix": prefix}
    slow = Script(**CACHES)  # type: ignore[arg-type]
    with (
        FakeServer(scripts.get("reference", slow)) as plain,
        FakeServer(scripts.get("candidate", replace(SPECULATES, **CACHES))) as fast,  # type: ignore[arg-type]
    ):
        engines = served(plain.url, fast.url)
        project.suite(*gates, engines=engines, scenarios={"qa": asked}, measure={"rounds": 2, "warmup": 1})
        result = project.run("--specgate", "--specgate-report=out.json", "suites")
    ((measured,),) = json.loads((project.path / "out.json").read_text(encoding="utf-8"))["measurements"].values()
    return result, measured


def finding(measured: dict[str, Any], rule: str) -> tuple[bool, str]:
    (found,) = [(one["held"], one["detail"]) for one in measured["findings"] if one["rule"] == rule]
    return found


SPEED = {"metric": "ttft", "limit": "<=100 s"}


def test_a_cold_scenario_meets_no_cache(project: Project) -> None:
    result, measured = run(project, "cold", {**GATE, "limit": "<=20%"}, SPEED)

    assert finding(measured, "cold prompts") == (True, "0 of 24 cold requests came from a prefix cache")
    assert measured["workload"]["prefix"] == "cold seed=0"
    assert result.parseoutcomes().get("failed", 0) == result.parseoutcomes().get("errors", 0) == 0


def test_a_shared_beginning_is_cached_and_its_share_can_be_gated(project: Project) -> None:
    prefix = {"kind": "shared", "tokens": 200}
    result, measured = run(project, prefix, {**GATE, "limit": ">=95%"})

    result.assert_outcomes(passed=1)
    held, detail = finding(measured, "prefix cache")
    assert held
    assert detail.startswith("requests begin all alike (shared); of the prompts' tokens were cached: reference 9")
    assert measured["workload"]["prefix"] == "shared tokens=200"


def test_a_reference_server_without_a_cache_is_no_fair_one(project: Project) -> None:
    plain = Script(gauges="vllm:prefix_cache_hits_total 0\n")
    result, measured = run(project, {"kind": "shared", "tokens": 200}, SPEED, reference=plain)

    held, detail = finding(measured, "prefix cache")
    assert (held, "reference 0.0%" in detail) == (False, True)
    assert result.parseoutcomes() == {"inconclusive": 1}


def test_a_server_that_tells_no_cached_tokens_has_no_rate(project: Project) -> None:
    result, _ = run(project, "as_is", GATE, candidate=SPECULATES)

    result.assert_outcomes(errors=1)
    said = " ".join(result.stdout.str().split())
    assert "prefix_cache_hit_rate: not measured by this engine (openai) — have the server tell cached tokens" in said


def test_texts_that_are_scored_by_their_prompts_cannot_be_cold(project: Project) -> None:
    cold = {"category": "qa", "prompts": "prompts/p.jsonl", "prefix": "cold"}
    project.suite({"metric": "greedy_exactness", "limit": "==100%"}, scenarios={"qa": cold})

    result = project.run("--specgate", "suites")

    told = "greedy_exactness scores texts by their prompts, which 'prefix: cold' of scenario 'qa' changes from round to"
    assert told in " ".join(result.stdout.str().split())
