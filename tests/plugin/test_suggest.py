"""``--specgate-suggest``: gates proposed from runs of unchanged code, ready to be pasted, and kept by further runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .conftest import PASS, UNDECIDED, Project

TAIL = {"metric": "ttft", "statistic": "p90", "limit": "<=9 s"}
ACCEPTANCE = {"metric": "conditional_acceptance", "limit": ">=1%"}


def proposed(result: pytest.RunResult) -> list[dict[str, object]]:
    """The gates of the output, as YAML reads them."""
    lines = result.outlines
    start = lines.index("gates:")
    found: list[dict[str, object]] = yaml.safe_load(
        "\n".join(line for line in lines[start:] if line == "gates:" or line.startswith("  - "))
    )["gates"]
    return found


def test_gates_are_proposed_that_unchanged_builds_keep(project: Project) -> None:
    project.suite(PASS, {"metric": "tpot", "limit": "<=9 s"}, {"metric": "exact_match", "limit": ">=1%"})

    result = project.run("--specgate-suggest=5")

    assert result.ret == 0
    result.assert_outcomes()
    gates = proposed(result)
    assert [gate["metric"] for gate in gates] == ["speedup", "tpot", "conditional_acceptance", "exact_match"]
    speedup, tpot, acceptance, exact = gates
    assert 1.3 < float(str(speedup["limit"]).strip(">=x")) < 1.5
    assert 0 < float(str(speedup["max_drop"]).strip("%")) < 10
    assert str(tpot["limit"]).startswith("<=")
    assert str(tpot["max_rise"]).endswith("%")
    assert acceptance["max_drop"] == "0.01"
    assert exact["limit"] == "==100%"
    assert not (project.path / "baselines").exists()

    project.suite(*gates)
    assert project.run("--specgate-update").ret == 0
    for seed in (101, 102, 103):
        project.suite(*gates, engines={"tiny": {"kind": "scripted", "options": {"seed": seed}}})
        project.run("--specgate").assert_outcomes(passed=4)


def test_what_it_rests_on_is_told(project: Project) -> None:
    project.suite(PASS)

    result = project.run("--specgate-suggest=4", "--specgate-false-alarm=5%")

    result.stdout.fnmatch_lines(
        [
            "proposed from 4 runs of unchanged code, for a false-alarm rate of 5% a build over * checks:",
            "  - {metric: speedup, limit: *} # 1.???x, runs differ by 0.??%",
            "  - {metric: conditional_acceptance, *} # 62.4% in every run",
        ]
    )


def test_a_stricter_rate_and_fewer_runs_leave_more_room(project: Project) -> None:
    project.suite(PASS)

    def drop(*arguments: str) -> float:
        return float(str(proposed(project.run(*arguments))[0]["max_drop"]).strip("%"))

    usual = drop("--specgate-suggest=8")
    assert drop("--specgate-suggest=8", "--specgate-false-alarm=0.01%") > usual
    assert drop("--specgate-suggest=3") > usual


def test_finer_gates_of_the_suite_are_named(project: Project) -> None:
    project.suite({"metric": "speedup", "max_drop": "0.1%"})

    result = project.run("--specgate-suggest=4")

    result.stdout.fnmatch_lines(
        ["note: suites/demo.specgate.yaml:*: speedup allows a drop of 0.1%, which is less than is proposed"]
    )


def test_what_cannot_be_proposed_is_said(project: Project) -> None:
    project.suite(PASS, TAIL)

    result = project.run("--specgate-suggest=3")

    result.stdout.fnmatch_lines(
        ["note: tiny::qa-t0-c1: nothing is proposed for ttft.p90: so few requests bound it on one side only"]
    )


def test_gates_that_judge_a_run_by_itself_are_left_as_they_are(project: Project) -> None:
    project.suite(PASS, {"metric": "greedy_exactness", "limit": "==100%"})

    gates = proposed(project.run("--specgate-suggest=3"))

    assert [gate["metric"] for gate in gates] == ["speedup", "conditional_acceptance"]


def test_cases_of_one_scenario_share_the_loosest_gate(project: Project) -> None:
    qa = {"category": "qa", "prompts": "prompts/p.jsonl", "sampling": [{"temperature": 0}, {"temperature": 0.7}]}
    project.suite(ACCEPTANCE, scenarios={"qa": qa})

    gates = proposed(project.run("--specgate-suggest=3"))

    assert [gate["metric"] for gate in gates] == ["speedup", "conditional_acceptance"]


def test_a_case_that_cannot_be_measured_ends_it(project: Project) -> None:
    project.suite(PASS, engines={"tiny": {"kind": "scripted", "options": {"fault": "crash"}}})

    result = project.run("--specgate-suggest=3")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["ERROR: tiny: q1: the script says crash*"])


def test_skipped_suites_are_left_out(project: Project) -> None:
    project.suite(UNDECIDED, tier="full")

    result = project.run("--specgate-suggest=3")

    result.stdout.fnmatch_lines(
        ["nothing was measured: no case is left", "*demo.specgate.yaml is left out: tier full *"]
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--specgate-suggest=2", "--specgate-suggest: '2' is no number of runs from 3 to 50 — 10 allow limits *"),
        ("--specgate-false-alarm=0", "--specgate-false-alarm: '0' is out of range — write a rate such as 1%"),
        ("--specgate-false-alarm=rare", "--specgate-false-alarm: 'rare' is no quantity — write it like 95% or 0.95"),
    ],
)
def test_wrong_values_are_one_line(project: Project, argument: str, message: str) -> None:
    project.suite(PASS)

    result = project.run("--specgate", argument)

    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_the_folder_stays_as_it_was(project: Project) -> None:
    suite = project.suite(PASS)
    before = suite.read_text()

    project.run("--specgate-suggest=3", "--specgate-report=out.json")

    assert suite.read_text() == before
    assert not Path(project.path / "out.json").exists()
