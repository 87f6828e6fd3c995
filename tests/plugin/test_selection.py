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
