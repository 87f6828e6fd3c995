"""The verdicts as pytest's outcomes, and the exit codes that they lead to."""

from __future__ import annotations

import datetime

import pytest

from .conftest import ERROR, FAIL, PASS, UNDECIDED, Project

NEXT_YEAR = str(datetime.date.today() + datetime.timedelta(days=365))


def test_all_four_verdicts(project: Project) -> None:
    project.suite(PASS, FAIL, UNDECIDED, ERROR)

    result = project.run("--specgate", "-v")

    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 1, "failed": 1, "inconclusive": 1, "errors": 1}
    result.stdout.fnmatch_lines(
        [
            "suites/demo.specgate.yaml::tiny::speedup[[]qa-t0-c1] PASSED*",
            "suites/demo.specgate.yaml::tiny::conditional_acceptance[[]qa-t0-c1] FAILED*",
            "suites/demo.specgate.yaml::tiny::decode_speedup[[]qa-t0-c1] INCONCLUSIVE*",
            "suites/demo.specgate.yaml::tiny::vram_ratio[[]qa-t0-c1] ERROR*",
        ]
    )


def test_an_undecided_gate_is_counted_and_explained(project: Project) -> None:
    project.suite(PASS, UNDECIDED)

    result = project.run("--specgate")

    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 1, "inconclusive": 1}
    result.stdout.fnmatch_lines(
        [
            "suites/demo.specgate.yaml .[?]*",
            "INCONCLUSIVE suites/demo.specgate.yaml:6:5: tiny::decode_speedup[[]qa-*straddles the limit >=1.5x*",
        ]
    )


@pytest.mark.parametrize("how", ["option", "suite", "gate"])
def test_an_undecided_gate_fails_where_it_must_decide(project: Project, how: str) -> None:
    policy = {"policy": "prove"}
    gate = {**UNDECIDED, **(policy if how == "gate" else {})}
    project.suite(PASS, gate, **(policy if how == "suite" else {}))

    result = project.run("--specgate", *(["--specgate-strict"] if how == "option" else []))

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    reason = "under --specgate-strict" if how == "option" else "under policy prove"
    result.stdout.fnmatch_lines([f"  an undecided gate fails {reason}"])


def test_an_engine_that_is_never_decided_fails_the_run(project: Project) -> None:
    project.suite(UNDECIDED)

    result = project.run("--specgate")

    assert result.ret == 1
    assert result.parseoutcomes() == {"inconclusive": 1}
    what = "suites/demo.specgate.yaml::tiny: no gate reached PASS or FAIL, so nothing was gated"
    result.stdout.fnmatch_lines([f"ERROR: {what} — act on a reason above, or raise measure.rounds"])


def test_a_gate_that_warns_passes_and_is_shown(project: Project) -> None:
    project.suite({**FAIL, "on_fail": "warn"})

    result = project.run("--specgate", "-v")

    assert result.ret == 0
    assert result.parseoutcomes() == {"warned": 1}
    result.stdout.fnmatch_lines(
        ["*conditional_acceptance[[]qa-t0-c1] WARNED*", "FAIL (warn) suites/demo.specgate.yaml:5:5: *"]
    )


def test_a_waived_gate_passes_and_is_shown(project: Project) -> None:
    project.suite({**FAIL, "waive": {"reason": "known: the draft is old", "until": NEXT_YEAR}})

    result = project.run("--specgate")

    assert result.ret == 0
    assert result.parseoutcomes() == {"waived": 1}
    result.stdout.fnmatch_lines([f"FAIL (waived until {NEXT_YEAR}: known: the draft is old) suites/*"])


def test_an_expired_waiver_fails(project: Project) -> None:
    project.suite({**FAIL, "waive": {"reason": "known: the draft is old", "until": "2020-01-31"}})

    result = project.run("--specgate")

    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*(the waiver expired on 2020-01-31)*"])


@pytest.mark.parametrize("fault", ["crash", "oom", "start", "bad_trace"])
def test_what_cannot_be_measured_is_one_line_per_gate(project: Project, fault: str) -> None:
    project.suite(PASS, FAIL, engines={"tiny": {"kind": "scripted", "options": {"fault": fault}}})

    result = project.run("--specgate")

    assert result.ret == 1
    result.assert_outcomes(errors=2)
    result.stdout.no_fnmatch_line("*Traceback*")
    begin = "suites/demo.specgate.yaml:5:5: speedup on tiny::qa-t0-c1: "
    lines = [line for line in result.outlines if line.startswith(begin)]
    assert len(lines) == 1
    assert " — " in lines[0]


def test_a_crash_of_one_engine_leaves_the_other(project: Project) -> None:
    broken = {"kind": "scripted", "options": {"fault": "crash"}}
    project.suite(PASS, engines={"broken": broken, "sound": {"kind": "scripted"}})

    project.run("--specgate").assert_outcomes(passed=1, errors=1)


def test_the_failure_is_the_verdicts_own_text(project: Project) -> None:
    project.suite(FAIL)

    result = project.run("--specgate")

    result.stdout.fnmatch_lines(
        [
            "*FAILURES*",
            "*tiny::conditional_acceptance[[]qa-t0-c1]*",
            "suites/demo.specgate.yaml:5:5: conditional_acceptance on tiny::qa-t0-c1: * the limit >=90%",
            "  measured: *",
            "  limit >=90%: FAIL: *",
            "  next: *",
        ]
    )
    result.stdout.no_fnmatch_line("*judging.py*")
