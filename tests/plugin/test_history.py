"""``--specgate-history``: one line a run, whatever the run was, and nothing of it changes a verdict."""

from __future__ import annotations

import pytest

from pytest_specgate.history import store
from pytest_specgate.records import Outcome

from .conftest import ERROR, FAIL, PASS, UNDECIDED, Project


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_COMMIT", "abc1234")


def test_each_run_is_a_line_with_its_commit_and_numbers(project: Project) -> None:
    project.suite(PASS, FAIL, UNDECIDED, ERROR, {"metric": "ttft", "statistic": "p90", "limit": "<=9 s"})

    first = project.run("--specgate-history=h")
    second = project.run("--specgate-history=h")

    assert (first.ret, second.ret) == (1, 1)
    first.stdout.fnmatch_lines(["history appended to: h/runs.jsonl"])
    one, _ = store.read(project.path / "h").runs
    assert (one.source.commit, one.exit_status) == ("abc1234", 1)
    (case,) = one.cases
    assert (case.suite, case.case, case.place.slug) == (
        "suites/demo.specgate.yaml",
        "tiny::qa-t0-c1",
        "simulated-x1-none",
    )
    assert case.outcomes == {
        "speedup": Outcome.PASS,
        "conditional_acceptance": Outcome.FAIL,
        "decode_speedup": Outcome.INCONCLUSIVE,
        "vram_ratio": Outcome.ERROR,
        "ttft.p90": Outcome.PASS,
    }
    assert 1.4 < case.values["speedup"] < 1.6
    assert case.values["ttft.p90"] > case.values["ttft"]
    assert (case.baseline, case.anchor) == (None, None)


def test_the_baseline_and_the_first_one_stand_in_the_line(project: Project) -> None:
    gate = {"metric": "speedup", "max_drop": "50%"}
    project.suite(gate)
    project.run("--specgate-update")
    slower = {"tiny": {"kind": "scripted", "options": {"speedup": 1.4}}}
    project.suite(gate, engines=slower)
    project.run("--specgate-update", "--specgate-accept-loss")

    project.run("--specgate-history=h")

    (case,) = store.read(project.path / "h").runs[0].cases
    assert case.baseline is not None
    assert case.anchor is not None
    assert 1.3 < case.baseline.values["speedup"] < 1.45 < case.anchor.values["speedup"] < 1.6


def test_a_suite_of_another_name_finds_its_baseline(project: Project) -> None:
    project.suite({"metric": "speedup", "max_drop": "50%"})
    path = project.path / "suites/demo.specgate.yaml"
    path.write_text("name: renamed\n" + path.read_text())
    project.run("--specgate-update")

    project.run("--specgate-history=h")

    assert store.read(project.path / "h").runs[0].cases[0].baseline is not None


def test_workers_of_one_run_are_one_line(project: Project) -> None:
    engines = {"a": {"kind": "scripted"}, "b": {"kind": "scripted"}}
    project.suite(PASS, engines=engines)

    result = project.python("--specgate-history=h", "-n2", "--dist=loadscope", "-p", "no:randomly")

    assert result.ret == 0
    (run,) = store.read(project.path / "h").runs
    assert sorted(case.case for case in run.cases) == ["a::qa-t0-c1", "b::qa-t0-c1"]


def test_collecting_alone_appends_nothing(project: Project) -> None:
    project.suite(PASS)

    project.run("--specgate-history=h", "--collect-only")

    assert not (project.path / "h").exists()


def test_a_history_that_cannot_be_written_fails_the_run_and_no_test(project: Project) -> None:
    project.suite(PASS)
    project.write("taken", "a file where a folder must go")

    result = project.run("--specgate-history=taken/h")

    assert result.ret == 1
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["ERROR: *taken/h/runs.jsonl: cannot be written (Not a directory) — choose a writable *"]
    )


def test_a_file_is_no_folder(project: Project) -> None:
    project.suite(PASS)
    project.write("taken", "")

    result = project.run("--specgate-history=taken")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --specgate-history: 'taken' is no folder — name a folder"])


def test_an_ini_file_may_name_the_folder(project: Project) -> None:
    project.suite(PASS)
    project.write("pytest.ini", "[pytest]\nspecgate_history = kept\n")

    project.run("--specgate", "suites")

    assert len(store.read(project.path / "kept").runs) == 1
