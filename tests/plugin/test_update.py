"""--specgate-update: what is stored, what is not, and that a later run compares with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import PASS, Project

DRIFT = {"metric": "acceptance_length", "max_drop": "1%"}
CRASH = {"tiny": {"kind": "scripted", "options": {"fault": "crash"}}}


def _with(**options: object) -> dict[str, object]:
    return {"tiny": {"kind": "scripted", "options": options}}


def _stored(project: Project) -> list[Path]:
    return sorted(path.relative_to(project.path) for path in project.path.glob("baselines/**/*.json"))


def test_update_then_compare(project: Project) -> None:
    project.suite(DRIFT)
    before = project.run("--specgate")
    updated = project.run("--specgate-update")
    same = project.run("--specgate")
    project.suite(DRIFT, engines=_with(acceptance=0.3))
    worse = project.run("--specgate")

    before.assert_outcomes(errors=1)
    updated.assert_outcomes(passed=1)
    same.assert_outcomes(passed=1)
    worse.assert_outcomes(failed=1)


def test_the_table_shows_old_and_new_and_the_file(project: Project) -> None:
    project.suite(PASS)

    first = project.run("--specgate-update")
    second = project.run("--specgate-update")

    (path,) = _stored(project)
    assert path == Path("baselines/simulated-x1-none/demo.json")
    first.stdout.fnmatch_lines(["tiny::qa-t0-c1: new", "metric * old * new * change*", f"baseline written: {path}"])
    second.stdout.fnmatch_lines(["tiny::qa-t0-c1: refreshed", f"baseline written: {path}"])


def test_a_plain_run_stores_nothing(project: Project) -> None:
    project.suite(PASS)

    project.run("--specgate")

    assert _stored(project) == []


def test_what_crashed_is_not_stored(project: Project) -> None:
    project.suite(PASS, engines=CRASH)

    result = project.run("--specgate-update")

    result.assert_outcomes(errors=1)
    assert _stored(project) == []
    result.stdout.fnmatch_lines(["no baseline was written"])


def test_entries_that_no_case_reads_are_named_and_kept(project: Project) -> None:
    names = [f"old{number}" for number in range(5)]
    project.suite(PASS, scenarios={name: {"category": "qa", "prompts": "prompts/p.jsonl"} for name in names})
    project.run("--specgate-update")
    project.suite(PASS)

    result = project.run("--specgate-update")

    (path,) = _stored(project)
    idle = "no case reads tiny::old0-t0-c1, tiny::old1-t0-c1, tiny::old2-t0-c1 and 2 more"
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"warning: {path}: {idle} — delete what will not come back"])
    assert len(json.loads((project.path / path).read_text())["cases"]) == 6


def test_only_new_leaves_what_is_there(project: Project) -> None:
    project.suite(DRIFT)
    project.run("--specgate-update")
    old = (project.path / _stored(project)[0]).read_text()
    two = {name: {"category": "qa", "prompts": "prompts/p.jsonl"} for name in ("qa", "more")}
    project.suite(DRIFT, engines=_with(acceptance=0.9), scenarios=two)

    result = project.run("--specgate-update-only=new")

    new = (project.path / _stored(project)[0]).read_text()
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["tiny::more-t0-c1: new"])
    assert set(json.loads(new)["cases"]) == {"tiny::qa-t0-c1", "tiny::more-t0-c1"}
    assert json.loads(new)["cases"]["tiny::qa-t0-c1"] == json.loads(old)["cases"]["tiny::qa-t0-c1"]


def test_only_new_measures_an_entry_of_another_workload(project: Project) -> None:
    project.suite(DRIFT)
    project.run("--specgate-update")
    project.suite(DRIFT, scenarios={"qa": {"category": "qa", "prompts": "prompts/p.jsonl", "max_tokens": 17}})

    result = project.run("--specgate-update-only=new")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["baseline written: *"])


def test_only_new_with_nothing_missing_measures_nothing(project: Project) -> None:
    project.suite(DRIFT)
    project.run("--specgate-update")

    result = project.run("--specgate-update-only=new", "-rs")

    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*stored on * only what is missing is measured*"])


def test_only_failed_refreshes_cases_whose_gates_fail(project: Project) -> None:
    two = {name: {"category": "qa", "prompts": "prompts/p.jsonl"} for name in ("qa", "more")}
    gates = ({"metric": "speedup", "limit": ">=3x", "scenarios": ["qa"]}, {**PASS, "scenarios": ["more"]})
    project.suite(*gates, scenarios=two)

    result = project.run("--specgate-update-only=failed")

    (path,) = _stored(project)
    assert set(json.loads((project.path / path).read_text())["cases"]) == {"tiny::qa-t0-c1"}
    result.assert_outcomes(passed=1, failed=1)


def test_an_interrupt_keeps_the_old_baseline_and_stores_what_was_whole(project: Project) -> None:
    engines = {"tiny": {"kind": "scripted"}, "late": {"kind": "scripted", "options": {"fault": "interrupt"}}}
    project.suite(PASS)
    project.run("--specgate-update")
    project.suite(PASS, engines=engines)

    result = project.python("--specgate-update", "-p", "no:randomly")

    assert result.ret == 2
    (path,) = _stored(project)
    assert set(json.loads((project.path / path).read_text())["cases"]) == {"tiny::qa-t0-c1"}


def test_update_is_refused_under_xdist(project: Project) -> None:
    project.suite(PASS)

    result = project.python("--specgate-update", "-n2", "--dist=loadscope")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --specgate-update runs in one process — leave out -n, or use -n 0"])


def test_an_unwritable_place_fails_the_run_and_says_so(project: Project) -> None:
    project.suite(PASS)
    project.write("baselines/simulated-x1-none", "a file where a folder must go")

    result = project.run("--specgate-update")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["ERROR: *baselines/simulated-x1-none*"])


def test_a_fault_of_ours_costs_its_own_step_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("slope")

    monkeypatch.setattr("pytest_specgate.refresh.baseline.write", broken)
    project.suite(PASS)

    result = project.run("--specgate-update", "--specgate-report=out.json")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "report written: out.json",
            "ERROR: the baselines of tiny: KeyError: 'slope' (at test_update.py:*) — a fault of pytest-specgate: *",
        ]
    )
    assert json.loads((project.path / "out.json").read_text())["measurements"]
