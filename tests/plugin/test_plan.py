"""``--specgate-plan``: what would run and how long it would take; nothing runs and nothing is written."""

from __future__ import annotations

import json

import pytest

from pytest_specgate.history import store

from .conftest import PASS, Project

DRIFT = {"metric": "speedup", "max_drop": "50%"}


def test_no_time_is_made_up(project: Project) -> None:
    project.suite(PASS, {"metric": "host_memory", "limit": "<=9 GiB"})

    result = project.run("--specgate-plan", "--specgate-report=out.json", "--specgate-history=h")

    assert result.ret == 0
    result.assert_outcomes()
    result.stdout.fnmatch_lines(
        [
            "suites/demo.specgate.yaml",
            "case * prompts * rounds * generations * tokens * minutes * times from",
            "tiny::qa-t0-c1  6          1–8       12–96          ≤ 6,144   unknown    -",
            "no time is known of 1 case: run once with --specgate-history, or store a baseline",
            "not counted in measuring: starting engines, memory passes (two processes a case)",
            "nothing was run",
        ]
    )
    assert not (project.path / "out.json").exists()
    assert not (project.path / "h").exists()


def test_a_baseline_tells_times(project: Project) -> None:
    project.suite(DRIFT)
    project.run("--specgate-update")

    result = project.run("--specgate-plan")

    result.stdout.fnmatch_lines(
        ["tiny::qa-t0-c1 * 0.1–0.5 * baseline of * on simulated-x1-none", "measuring: 0.1–0.5 minutes for all cases"]
    )


def test_another_question_has_no_time(project: Project) -> None:
    project.suite(DRIFT)
    project.run("--specgate-update")
    project.suite(DRIFT, scenarios={"qa": {"category": "qa", "prompts": "prompts/p.jsonl", "max_tokens": 7}})

    project.run("--specgate-plan").stdout.fnmatch_lines(["tiny::qa-t0-c1 * unknown *-"])


def longer(project: Project, **changes: object) -> None:
    """The history's only run, as if its case had taken ten minutes, and two more to start."""
    path = project.path / "h" / "runs.jsonl"
    data = json.loads(path.read_text())
    data["seconds"] = 720.0
    data["cases"][0] |= {"seconds": 600.0, "rounds": 4, **changes}
    path.write_text(json.dumps(data) + "\n")


def test_a_history_tells_more(project: Project) -> None:
    project.suite(PASS)
    project.run("--specgate-history=h")
    longer(project)

    result = project.run("--specgate-plan", "--specgate-history=h")

    result.stdout.fnmatch_lines(
        [
            "tiny::qa-t0-c1 * 2.5–20, usually 10 * 1 run on simulated-x1-none, last *",
            "measuring: 2.5–20 minutes for all cases, usually 10",
            "whole run: the last one of at least these cases took 12 minutes (*)",
        ]
    )
    assert len(store.read(project.path / "h").runs) == 1


def test_gpus_are_counted_and_budgets_cut(project: Project) -> None:
    project.suite(PASS)
    project.run("--specgate-history=h")
    longer(project, subject={"device": "cuda:0"}, place={"device": "H200", "count": 2, "dtype": "bfloat16"})

    result = project.run("--specgate-plan", "--specgate-history=h", "--specgate-budget=5min")

    result.stdout.fnmatch_lines(
        [
            "measuring: 2.5–5.0 minutes for all cases, usually 5.0",
            "GPU minutes: 5.0–10 on 2",
            "--specgate-budget ends measuring after 5.0 minutes",
        ]
    )


def test_an_update_takes_its_sessions(project: Project) -> None:
    project.suite(DRIFT)

    result = project.run("--specgate-plan", "--specgate-update-sessions=3")

    result.stdout.fnmatch_lines(["tiny::qa-t0-c1 * 8–16 × 3 sessions  288–576 *"])
    assert not (project.path / "baselines").exists()


def test_selection_and_tiers_count(project: Project) -> None:
    project.suite(PASS, engines={"first": {"kind": "scripted"}, "second": {"kind": "scripted"}})
    project.suite(PASS, name="big", tier="full")
    project.suite(PASS, name="gpu", requires={"package": "no_such_package"})

    result = project.run("--specgate-plan", "-k", "not second")

    result.stdout.fnmatch_lines(["first::qa-t0-c1 *"])
    result.stdout.no_fnmatch_line("second::qa-t0-c1 *")
    result.stdout.fnmatch_lines(
        [
            "suites/big.specgate.yaml is left out: tier full runs with --specgate-tier full",
            "suites/gpu.specgate.yaml would be skipped here: requires package 'no_such_package', which is not *",
        ]
    )


def test_broken_sources_are_notes(project: Project) -> None:
    project.suite(DRIFT)
    project.run("--specgate-update")
    (path,) = (project.path / "baselines").glob("*/demo.json")
    path.write_text("{")
    project.write("h/runs.jsonl", '{"schema": 99}\n')

    result = project.run("--specgate-plan", "--specgate-history=h")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["note: *h/runs.jsonl:1: history schema 99 is newer than 1, *", "note: *demo.json:1:2: is no whole JSON *"]
    )


def test_a_bad_suite_is_still_an_error(project: Project) -> None:
    project.suite(PASS)
    project.write("suites/bad.specgate.yaml", "specgate: 1\n")

    result = project.run("--specgate-plan")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*bad.specgate.yaml:1:1: *"])


def test_a_plan_runs_in_one_process(project: Project) -> None:
    pytest.importorskip("xdist")
    project.suite(PASS)

    result = project.python("--specgate-plan", "-n2")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --specgate-plan runs in one process — leave out -n, or use -n 0"])
