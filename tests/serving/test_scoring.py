"""Texts of servers held against the target: by the server's own log-probabilities, or by an engine of the suite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.logits import Scores
from pytest_specgate.records import Request
from tests.plugin.conftest import Project, project
from tests.serving.fake_server import FakeServer
from tests.serving.script import WORDS, Script
from tests.serving.target import pages, scores
from tests.serving.test_end_to_end import served

__all__ = ["project"]
PLAIN = Script(tokens=40)
FAST = replace(PLAIN, pattern=(1, 3, 2), k=4)
EXACT = {"metric": "greedy_exactness", "limit": "==100%"}
FIT = {"metric": "distribution_fit", "limit": "==100%"}


def scoring(script: Script) -> FakeServer:
    server = FakeServer(script)
    server.posts = dict(pages(script))
    return server


def run(project: Project, reference: Script, candidate: Script, *gates: Any, **keys: Any) -> tuple[Any, Any]:
    """The verdict of the first gate, and what the run measured."""
    with scoring(reference) as plain, scoring(candidate) as fast:
        engines = served(plain.url, fast.url, **keys.pop("server", {}))
        engines["pair"] |= keys.pop("engine", {})
        engines |= keys.pop("more", {})
        scenario = {"category": "qa", "prompts": "prompts/p.jsonl", "max_tokens": 64, **keys.pop("scenario", {})}
        project.suite(*gates, engines=engines, scenarios={"qa": scenario}, **{"measure": {"rounds": 1}, **keys})
        project.run("--specgate", "--specgate-report=out.json", "suites")
    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    return report["verdicts"][0], next(iter(report["measurements"].values()), None)


def test_equal_texts_are_exact_whatever_the_noise(project: Project) -> None:
    verdict, _ = run(project, PLAIN, FAST, EXACT)

    assert verdict["outcome"] == "PASS", verdict
    assert verdict["reason"] == "greedy exactness: all 240 tokens are those that the reference server chose"
    control = (
        "control: 240 tokens of the reference server, the worst 0 logits off; asked again, and in shorter forwards"
    )
    assert verdict["warnings"] == [f"{control}, the scores are the same to the last digit"]


def test_drafts_that_are_kept_unseen_are_not_the_targets_choice(project: Project) -> None:
    verdict, _ = run(project, PLAIN, replace(FAST, wrong_every=9), EXACT)

    assert verdict["outcome"] == "FAIL", verdict
    assert "of 240 tokens are not the target's choice" in verdict["reason"]


def test_a_reference_that_is_wrong_too_blames_nobody(project: Project) -> None:
    verdict, _ = run(project, replace(PLAIN, wrong_every=3), replace(FAST, wrong_every=9), EXACT)

    assert verdict["outcome"] == "INCONCLUSIVE", verdict
    assert "server and scorer disagree" in verdict["reason"]


def test_without_log_probabilities_and_without_a_scorer_nothing_is_judged(project: Project) -> None:
    verdict, _ = run(project, PLAIN, FAST, EXACT, server={"dialect": "plain"})

    assert verdict["outcome"] == "ERROR", verdict
    assert verdict["reason"] == "greedy_exactness: not measured by this engine (openai)"


# --- an engine of the suite scores ---


class Table(ScriptedEngine):
    """The fake servers' own target in this process; ``told`` are the prompts that it was asked about."""

    script = PLAIN

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        assert width is None
        return [self.of_one(request.token_ids or (), text) for request, text in zip(requests, texts)]

    def of_one(self, prompt: tuple[int, ...], text: tuple[int, ...]) -> Scores:
        rows = [scores(self.script, prompt, text[:at]) for at in range(len(text))]
        ranked = [sorted(row, key=lambda token: -row[token]) for row in rows]
        best, second = ([row[ids[n]] for row, ids in zip(rows, ranked)] for n in (0, 1))
        emitted = [row.get(token, -99.0) for row, token in zip(rows, text)]
        return Scores(tuple(best), tuple(ids[0] for ids in ranked), tuple(second), tuple(emitted))


LOCAL = {"local": {"kind": "tests.serving.test_scoring:Table"}}


def by_table(project: Project, reference: Script, candidate: Script, **server: Any) -> Any:
    gate = {**EXACT, "engines": ["pair"]}
    keys = {"engine": {"scorer": "local"}, "more": LOCAL, "server": server, "scenario": {"max_tokens": 32}}
    return run(project, reference, candidate, gate, **keys)[0]


def test_an_engine_of_the_suite_scores_servers_that_tell_ids(project: Project) -> None:
    right = by_table(project, PLAIN, FAST, dialect="plain")

    assert right["outcome"] == "PASS", right


def test_a_suite_s_scorer_finds_a_fault_by_itself(project: Project) -> None:
    wrong = by_table(project, PLAIN, replace(FAST, wrong_every=9), dialect="plain")

    assert wrong["outcome"] == "FAIL", wrong


def test_texts_without_ids_are_cut_anew_by_the_servers_own_tokenizer(project: Project) -> None:
    verdict = by_table(project, replace(PLAIN, ids=False), replace(FAST, ids=False, wrong_every=9), dialect="vllm")

    assert verdict["outcome"] == "FAIL", verdict


@pytest.mark.parametrize(
    ("reference", "candidate", "server", "reason"),
    [
        (
            replace(PLAIN, ids=False),
            replace(FAST, ids=False, words=("a b", *WORDS[1:])),
            {"dialect": "vllm"},
            "told no token ids of its answer to q1, and the text does not survive the tokenizer",
        ),
        (
            replace(PLAIN, ids=False),
            replace(FAST, ids=False),
            {"dialect": "plain"},
            "told no token ids of its answer to q1",
        ),
        (PLAIN, replace(FAST, template=9), {}, "reads another prompt of q1 than the other arm's (reference: 7 tokens"),
        (
            replace(PLAIN, ids=False, misread=2),
            replace(FAST, ids=False, misread=2),
            {"dialect": "vllm"},
            "read a prompt of 9 tokens for q1, and the scorer's would have 7",
        ),
    ],
    ids=["another text", "no tokenizer", "two templates", "another template"],
)
def test_what_was_not_emitted_or_not_read_is_not_scored(
    project: Project, reference: Script, candidate: Script, server: dict[str, Any], reason: str
) -> None:
    verdict = by_table(project, reference, candidate, **server)

    assert verdict["outcome"] == "ERROR", verdict
    assert reason in verdict["reason"]


# --- drawn tokens ---

DRAWN = {"sampling": [{"temperature": 1.0}], "max_tokens": 40}
SAMPLED = replace(PLAIN, drawn="target")


def drawn(project: Project, candidate: Script, rounds: int = 16, **sampling: Any) -> Any:
    scenario = {"sampling": [{"temperature": 1.0, **sampling}], "max_tokens": 40}
    return run(project, SAMPLED, candidate, FIT, scenario=scenario, measure={"rounds": rounds, "warmup": 1})[0]


def test_draws_from_the_target_fit(project: Project) -> None:
    verdict = drawn(project, replace(FAST, drawn="target"), rounds=2)

    # So few tokens exclude no shift of one point: see the property tests of bets for how many it takes.
    assert verdict["outcome"] == "INCONCLUSIVE", verdict
    assert "tokens show no fault beyond doubt" in verdict["reason"]


def test_draws_from_the_draft_do_not_fit(project: Project) -> None:
    verdict = drawn(project, replace(FAST, drawn="draft"))

    assert verdict["outcome"] == "FAIL", verdict


def test_tokens_outside_top_p_are_proof(project: Project) -> None:
    verdict = drawn(project, replace(FAST, drawn="unfiltered"), top_p=0.8)

    assert verdict["outcome"] == "FAIL", verdict
    assert "are such as the request forbids" in verdict["reason"]


def test_a_filter_that_is_kept_is_no_fault(project: Project) -> None:
    assert drawn(project, replace(FAST, drawn="target"), rounds=2, top_p=0.8)["outcome"] == "INCONCLUSIVE"


def test_the_reference_is_the_control_of_draws_too(project: Project) -> None:
    with_fault = replace(SAMPLED, drawn="draft")
    scenario = {"sampling": [{"temperature": 1.0}], "max_tokens": 40}
    verdict, _ = run(project, with_fault, SAMPLED, FIT, scenario=scenario, measure={"rounds": 32, "warmup": 1})

    assert verdict["outcome"] == "ERROR", verdict
    assert "the control failed: plain draws of the reference arm do not fit either" in verdict["reason"]
