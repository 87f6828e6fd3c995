"""pytest-xdist: engines stay whole, verdicts reach the controller, other modes are refused."""

from __future__ import annotations

import json

import pytest

from .conftest import FAIL, PASS, UNDECIDED, Project

ENGINES = {"one": {"kind": "scripted"}, "two": {"kind": "scripted"}}
XDIST = ("-p", "no:randomly", "-n2")


@pytest.mark.parametrize("mode", ["loadscope", "loadfile"])
def test_verdicts_and_measurements_reach_the_controller(project: Project, mode: str) -> None:
    project.suite(PASS, FAIL, UNDECIDED, engines=ENGINES)
    project.run("--specgate-update")

    result = project.python("--specgate", *XDIST, f"--dist={mode}", "--specgate-report=out.json")

    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 2, "failed": 2, "inconclusive": 2}
    result.stdout.fnmatch_lines(
        ["suites/demo.specgate.yaml · one", "suites/demo.specgate.yaml · two", "report written: out.json"]
    )
    report = json.loads((project.path / "out.json").read_text())
    assert len(report["verdicts"]) == 6
    cases = sorted(one["case"] for one in report["measurements"]["suites/demo.specgate.yaml"])
    assert cases == ["one::qa-t0-c1", "two::qa-t0-c1"]
    assert sorted(one["case"] for one in report["baselines"]["suites/demo.specgate.yaml"]) == cases
    assert report["checks"]["suites/demo.specgate.yaml"] > 0


def test_each_engine_starts_in_one_worker(project: Project) -> None:
    """Every measurement appears once: had two workers shared an engine, its case would be there twice."""
    two = {name: {"category": "qa", "prompts": "prompts/p.jsonl"} for name in ("qa", "more")}
    project.suite(PASS, UNDECIDED, engines=ENGINES, scenarios=two)

    project.python("--specgate", *XDIST, "--dist=loadscope", "--specgate-report=out.json")

    measured = json.loads((project.path / "out.json").read_text())["measurements"]["suites/demo.specgate.yaml"]
    cases = [one["case"] for one in measured]
    assert len(cases) == len(set(cases)) == 4


@pytest.mark.parametrize("mode", ["load", "each", "worksteal", "loadgroup"])
def test_other_modes_are_refused(project: Project, mode: str) -> None:
    project.suite(PASS)

    result = project.python("--specgate", *XDIST, f"--dist={mode}")

    assert result.ret == 4
    what = f"--specgate cannot run with --dist {mode}, which loads an engine in several workers at once"
    result.stderr.fnmatch_lines([f"ERROR: {what} — use --dist loadscope, --dist loadfile or -n 0"])


def test_no_suite_is_an_error_of_the_controller(project: Project) -> None:
    project.write("test_x.py", "def test_x(): pass\n")
    project.write("suites/gates.yaml", "a: 1\n")

    result = project.python("--specgate", *XDIST, "--dist=loadscope")

    assert result.ret == 4
    result.stdout.fnmatch_lines(["ERROR: --specgate found no suite; passed over: suites/gates.yaml — *"])


def test_an_engine_that_is_never_decided_fails_the_run(project: Project) -> None:
    project.suite(UNDECIDED)

    result = project.python("--specgate", *XDIST, "--dist=loadscope")

    assert result.ret == 1
    assert result.parseoutcomes() == {"inconclusive": 1}


def test_verdicts_are_those_of_a_run_in_one_process(project: Project) -> None:
    project.suite(PASS, FAIL, UNDECIDED, engines=ENGINES)
    project.run("--specgate", "--specgate-report=one.json")

    project.python("--specgate", *XDIST, "--dist=loadscope", "--specgate-report=many.json")

    one, many = (json.loads((project.path / name).read_text())["verdicts"] for name in ("one.json", "many.json"))
    key = lambda verdict: (verdict["case"], verdict["gate"])  # noqa: E731
    assert sorted(one, key=key) == sorted(many, key=key)


def test_runs_without_xdist(project: Project) -> None:
    project.suite(PASS)

    project.python("--specgate", "-p", "no:xdist", "-p", "no:randomly").assert_outcomes(passed=1)
