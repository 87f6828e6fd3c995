"""An engine that refuses: expected, unexpected, otherwise than expected, and one that runs all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.runner import run


def verdict(folder: Path, engine: dict[str, Any], **more: Any) -> Verdict:
    (folder / "p.jsonl").write_text('{"id": "a", "turns": ["Say it."]}\n')
    suite = {
        "specgate": 1,
        "engines": {"e": {"kind": "scripted", **engine}},
        "scenarios": {"qa": {"category": "qa", "prompts": "p.jsonl"}},
        "measure": {"rounds": 1, "memory": False},
        "gates": [{"metric": "exact_match", "limit": "==100%", **more}],
    }
    path = folder / "s.specgate.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in suite.items()))
    (found,) = run(path, baselines=folder / "none").verdicts
    return found


STARTLESS = {"options": {"fault": "start"}}


def test_an_unexpected_refusal_is_an_error_that_says_so(tmp_path: Path) -> None:
    found = verdict(tmp_path, STARTLESS)
    assert found.outcome is Outcome.ERROR
    assert found.refused
    assert found.refused in found.reason


def test_an_expected_refusal_passes_with_its_reason(tmp_path: Path) -> None:
    said = verdict(tmp_path, STARTLESS).refused
    found = verdict(tmp_path, {**STARTLESS, "expect": {"refused": said[-12:]}})
    assert (found.outcome, found.refused) == (Outcome.PASS, said)
    assert found.reason == f"refused, as the suite expects: {said}"


def test_another_refusal_than_expected_is_an_error(tmp_path: Path) -> None:
    found = verdict(tmp_path, {**STARTLESS, "expect": {"refused": "no such words"}})
    assert (found.outcome, found.refused) == (Outcome.ERROR, "")
    assert found.reason.startswith("expected to be refused with 'no such words', and what came is: ")
    assert found.advice == "look at what changed in the engine, or write in 'expect' what it says now"


def test_an_engine_that_runs_all_the_same_fails(tmp_path: Path) -> None:
    found = verdict(tmp_path, {"expect": {"refused": "cannot run"}})
    assert (found.outcome, found.refused) == (Outcome.FAIL, "")
    assert found.reason == "expected to be refused with 'cannot run', and it runs"
    assert found.advice == "remove 'expect' from the engine in the suite, and let its gates judge it"


def test_that_failure_can_be_waived(tmp_path: Path) -> None:
    waived = {"reason": "will be removed", "until": "2999-01-01"}
    found = verdict(tmp_path, {"expect": {"refused": "cannot run"}}, waive=waived)
    assert (found.outcome, found.softened) == (Outcome.FAIL, "waived until 2999-01-01: will be removed")


def test_a_crash_is_no_refusal(tmp_path: Path) -> None:
    engine = {"kind": "tests.unit.crashing:BuggyStart"}
    found = verdict(tmp_path, engine)
    assert (found.outcome, found.refused) == (Outcome.ERROR, "")


@pytest.mark.parametrize("package", ["no_such_package_at_all", ["json", "no_such_package_at_all"]])
def test_an_engine_whose_requirements_are_not_met_is_not_run(tmp_path: Path, package: Any) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "turns": ["Say it."]}\n')
    suite = f"""\
specgate: 1
engines:
  here: {{kind: scripted}}
  absent: {{kind: scripted, requires: {{package: {json.dumps(package)}}}}}
scenarios: {{qa: {{category: qa, prompts: p.jsonl}}}}
measure: {{rounds: 1, memory: false}}
gates: [{{metric: exact_match, limit: "==100%"}}]
"""
    (tmp_path / "s.specgate.yaml").write_text(suite)
    report = run(tmp_path / "s.specgate.yaml", baselines=tmp_path / "none")
    assert [found.case for found in report.verdicts] == ["here::qa-t0-c1"]
    assert "absent: not run: requires package 'no_such_package_at_all', which is not installed" in report.warnings
