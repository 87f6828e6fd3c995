"""Other plugins beside ours, each for real, and all at once: outcomes, reports and engines stay what they are."""

from __future__ import annotations

import json

import pytest

from .conftest import FAIL, PASS, UNDECIDED, Project

ENGINE = """
import time
from pytest_specgate.engines.scripted import ScriptedEngine

class Logged(ScriptedEngine):
    def start(self):
        super().start()
        self.log("start")

    def close(self):
        super().close()
        self.log("close")

    def log(self, what):
        with open("log.txt", "a") as file:
            file.write(f"{self._name} {what}\\n")

class Hanging(Logged):
    def generate(self, requests, arm):
        time.sleep(3600)
"""
IMPATIENT = """
import pytest
import pytest_specgate.session

def pytest_collection_modifyitems(items):
    for item in items:
        if "::hangs::" in item.nodeid:
            item.add_marker(pytest.mark.timeout(5))
"""
#: An error that needs no memory pass, whose processes would start engines of their own.
NO_BASELINE = {"metric": "acceptance_length", "max_drop": "5%"}
ALL = (PASS, FAIL, UNDECIDED, NO_BASELINE)


@pytest.fixture
def logged(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with an engine that writes down when it starts and closes, and one that hangs."""
    project.write("logged.py", ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=":")
    return project


def log(project: Project) -> list[str]:
    return (project.path / "log.txt").read_text().splitlines()


def test_pytest_html_shows_every_gate(project: Project) -> None:
    pytest.importorskip("pytest_html")
    project.suite(*ALL)

    result = project.python("--specgate", "--html=tests.html", "--self-contained-html", "-p", "no:randomly")

    assert result.ret == 1
    text = (project.path / "tests.html").read_text(encoding="utf-8")
    for name in ("speedup", "conditional_acceptance", "decode_speedup", "acceptance_length"):
        assert f"{name}[qa-t0-c1]" in text
    assert "is below the limit" in text


def test_pytest_json_report_tells_the_outcomes(project: Project) -> None:
    pytest.importorskip("pytest_jsonreport")
    project.suite(*ALL)

    result = project.python("--specgate", "--json-report", "--json-report-file=tests.json")

    assert result.ret == 1
    report = json.loads((project.path / "tests.json").read_text())
    told = {test["nodeid"].rpartition("::")[2].partition("[")[0]: test["outcome"] for test in report["tests"]}
    assert told["speedup"] == "passed"
    assert told["conditional_acceptance"] == "failed"
    assert told["acceptance_length"] == "error"
    # It counts under our own name, or as skipped by a version that knows pytest's names alone.
    assert told["decode_speedup"] in {"inconclusive", "skipped"}


def test_pytest_rerunfailures_repeats_the_verdict_and_measures_nothing(logged: Project) -> None:
    pytest.importorskip("pytest_rerunfailures")
    logged.suite(PASS, FAIL, engines={"tiny": {"kind": "logged:Logged"}})

    result = logged.python("--specgate", "--reruns=2")

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*2 rerun*"])
    assert log(logged) == ["tiny start", "tiny close"]


def test_pytest_timeout_ends_a_hanging_engine_and_leaves_the_others(logged: Project) -> None:
    pytest.importorskip("pytest_timeout")
    engines = {"hangs": {"kind": "logged:Hanging"}, "works": {"kind": "logged:Logged"}}
    logged.suite(PASS, engines=engines)
    # What takes seconds on a busy machine is no hanging engine: that one alone has so short a limit.
    logged.write("conftest.py", IMPATIENT)

    result = logged.python("--specgate", "--timeout=600", "-p", "no:randomly")

    assert result.ret == 1
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*Timeout*5*"])
    assert log(logged) == ["hangs start", "hangs close", "works start", "works close"]


@pytest.mark.parametrize("seed", [1, 2])
def test_pytest_randomly_shuffles_and_changes_no_verdict(logged: Project, seed: int) -> None:
    pytest.importorskip("pytest_randomly")
    scenarios = {name: {"category": "qa", "prompts": "prompts/p.jsonl"} for name in ("a", "b")}
    engines = {name: {"kind": "logged:Logged"} for name in ("one", "two")}
    logged.suite(PASS, FAIL, engines=engines, scenarios=scenarios)

    result = logged.python("--specgate", f"--randomly-seed={seed}")

    result.assert_outcomes(passed=4, failed=4)
    assert sorted(log(logged)) == ["one close", "one start", "two close", "two start"]


def test_all_of_them_at_once(logged: Project) -> None:
    for name in (
        "pytest_html",
        "pytest_jsonreport",
        "pytest_rerunfailures",
        "pytest_timeout",
        "pytest_randomly",
        "xdist",
    ):
        pytest.importorskip(name)
    engines = {name: {"kind": "logged:Logged"} for name in ("one", "two")}
    logged.suite(*ALL, engines=engines)

    result = logged.python(
        *("--specgate-report=out.json", "--specgate-history=h", "--junitxml=junit.xml"),
        *("--html=tests.html", "--json-report", "--json-report-file=tests.json", "--reruns=1", "--timeout=1200"),
        *("-n2", "--dist=loadscope"),
    )

    assert result.ret == 1
    assert result.parseoutcomes() | {"warnings": 0} == {
        "passed": 2,
        "failed": 2,
        "inconclusive": 2,
        "errors": 2,
        "rerun": 4,
        "warnings": 0,
    }
    assert sorted(log(logged)) == ["one close", "one start", "two close", "two start"]
    for name in ("out.json", "h/runs.jsonl", "junit.xml", "tests.html", "tests.json"):
        assert (logged.path / name).stat().st_size > 0
