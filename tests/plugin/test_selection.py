"""-k, -m, --lf, -x and --deselect work as for any test, and change no verdict."""

from __future__ import annotations

import re

import pytest

from .conftest import FAIL, PASS, UNDECIDED, Project

ENGINES = {
    "first": {"kind": "scripted", "candidate": {"method": "draft_model", "draft": "d"}},
    "second": {"kind": "scripted", "candidate": {"method": "prompt_lookup"}},
}
SCENARIOS = {
    "a": {"category": "qa", "prompts": "prompts/p.jsonl"},
    "b": {"category": "long-form", "prompts": "prompts/p.jsonl"},
}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("speedup", 4),
        ("first", 4),
        ("scripted", 8),
        ("prompt_lookup and speedup", 2),
        ("long-form", 4),
        ("qa and second and conditional_acceptance", 1),
    ],
)
def test_keywords_match_engine_kind_method_category_and_gate(project: Project, expression: str, selected: int) -> None:
    project.suite(PASS, FAIL, engines=ENGINES, scenarios=SCENARIOS)

    result = project.run("--specgate", "--collect-only", "-q", "-k", expression)

    assert len([line for line in result.outlines if "::" in line]) == selected


@pytest.mark.parametrize(
    ("expression", "selected"),
    [("speedup", 4), ("long_form", 4), ("smoke", 8), ("specgate and qa", 4), ("full", 0)],
)
def test_markers_select(project: Project, expression: str, selected: int) -> None:
    project.suite(PASS, FAIL, engines=ENGINES, scenarios=SCENARIOS)

    result = project.run("--specgate", "--collect-only", "-q", "-m", expression)

    assert len([line for line in result.outlines if "::" in line]) == selected


def test_last_failed_runs_only_the_failed_gate(project: Project) -> None:
    project.suite(PASS, FAIL)
    project.run("--specgate").assert_outcomes(passed=1, failed=1)

    result = project.run("--specgate", "--lf")

    result.assert_outcomes(failed=1, deselected=1)


def test_exit_first_stops_behind_the_first_failure(project: Project) -> None:
    project.suite(FAIL, PASS)

    project.run("--specgate", "-x").assert_outcomes(failed=1)


def test_durations_name_the_gate_that_measured(project: Project) -> None:
    project.suite(PASS)

    result = project.run("--specgate", "--durations=1", "--durations-min=0")

    result.stdout.fnmatch_lines(["*s setup*suites/demo.specgate.yaml::tiny::speedup[[]qa-t0-c1]"])


def _interval(result: pytest.RunResult) -> str:
    (cell,) = re.findall(r"^qa-t0-c1 +speedup +(\S+ \[\S+ \S+\])", result.stdout.str(), re.MULTILINE)
    return str(cell)


def test_selection_leaves_intervals_as_they_are(project: Project) -> None:
    project.suite(PASS, FAIL, UNDECIDED)
    project.suite(*[{**PASS, "metric": m, "limit": ">=1 ms"} for m in ("tpot", "e2el")], name="more")
    everything = _interval(project.run("--specgate", "suites"))

    narrowed = _interval(project.run("--specgate", "suites", "-k", "demo and speedup and not decode_speedup"))
    failed_only = project.run("--specgate", "suites", "--lf")

    assert narrowed == everything
    assert failed_only.parseoutcomes()["failed"] == 1


def test_more_checks_widen_intervals(project: Project) -> None:
    """The counterpart: were the budget not shared, the test above could not fail."""
    project.suite(PASS)
    alone = _interval(project.run("--specgate", "suites"))

    project.suite(*[{**PASS, "metric": m, "limit": ">=1 ms"} for m in ("tpot", "e2el")], name="more")

    assert _interval(project.run("--specgate", "suites/demo.specgate.yaml", "suites/more.specgate.yaml")) != alone


MATRIX = """\
specgate: 1
matrix:
  engine: {kind: scripted}
  axes:
    model: {good: {}, gone: {options: {fault: start}}, odd: {options: {fault: diverge}}}
  rules:
    - {where: {model: gone}, engine: {expect: {refused: cannot start}}}
scenarios:
  qa: {category: qa, prompts: prompts/p.jsonl}
measure: {rounds: 1, memory: false, costs: false}
gates:
  - {metric: exact_match, limit: "==100%"}
  - {metric: length_ratio, limit: "1x..1x"}
"""


@pytest.mark.parametrize(
    ("arguments", "cells", "counted"),
    [
        (["-k", "not odd"], "good = gone r1 odd .", "1 works exactly (=), 1 refused (r), 1 not run (.; 1 of them "),
        (["-k", "good"], "good = gone . odd .", "1 works exactly (=), 2 not run (.; 2 of them "),
        # A text that parts shows by one gate alone: by the others nothing is known to work.
        (["-k", "length_ratio"], "good -1 gone r2 odd -1", "2 passed in part (-), 1 refused (r); none fail"),
        (["-k", "odd", "-x"], "good . gone . odd X1!", "1 broken (X), 2 not run (.; 2 of them "),
    ],
)
def test_what_was_deselected_is_fine_in_no_matrix(
    project: Project, arguments: list[str], cells: str, counted: str
) -> None:
    project.suite(PASS)
    project.write("suites/demo.specgate.yaml", MATRIX)

    result = project.run("--specgate", "-p", "no:randomly", *arguments)

    lines = result.outlines
    shown = [line.split() for line in lines if line.split()[:1] in (["good"], ["gone"], ["odd"])]
    assert " ".join(word for words in shown for word in words) == cells
    assert any(line.startswith(f"3 cells: {counted}") for line in lines), lines
    assert ("1: 1 of 2 gates ran, and passed" in " ".join(lines)) == ("length_ratio" in arguments)
