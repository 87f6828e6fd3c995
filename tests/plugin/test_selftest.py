"""``--specgate-selftest``: gates that see a gross loss pass, silent ones fail the run, by name."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Project

SPEEDUP = {"metric": "speedup", "limit": ">=1.2x"}
ACCEPTANCE = {"metric": "conditional_acceptance", "limit": ">=50%"}
BLIND = {"metric": "exact_match", "limit": ">=0%"}
LOOSE = {"metric": "tpot", "limit": "<=10 s"}
BOOKS = {"metric": "token_accounting", "limit": "==100%"}


def test_gates_that_see_the_loss_pass(project: Project) -> None:
    project.suite(SPEEDUP, ACCEPTANCE)
    result = project.run("--specgate-selftest", "suites", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["selftest: engines ran with a gross loss planted; PASS says that the gate turned red*"]
    )
    assert result.ret == 0


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (BLIND, "*exact_match on tiny::qa-t0-c1: a silent gate: it stays green under sampler=2: *"),
        (LOOSE, "*tpot on tiny::qa-t0-c1: a silent gate: it stays green under delay=300%: *"),
        ({**LOOSE, "on_fail": "warn"}, "*a silent gate: it stays green under delay=300%: *"),
        (
            {**LOOSE, "waive": {"reason": "known", "until": "2099-01-01"}},
            "*a silent gate: it stays green under delay=300%: *",
        ),
    ],
)
def test_a_silent_gate_fails_the_run(project: Project, gate: dict[str, object], said: str) -> None:
    project.suite(SPEEDUP, gate)
    result = project.run("--specgate-selftest", "suites")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines([said, "*next: a gate that does not see this sees nothing smaller: *"])


def test_a_gate_that_only_warns_is_red_all_the_same(project: Project) -> None:
    project.suite({**SPEEDUP, "on_fail": "warn"})
    project.run("--specgate-selftest", "suites").assert_outcomes(passed=1)


def test_what_no_plant_strikes_is_skipped_by_name(project: Project) -> None:
    project.suite(SPEEDUP, BOOKS)
    result = project.run("--specgate-selftest", "suites", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*no planted loss strikes token_accounting*"])


def test_what_cannot_be_judged_is_an_error_and_not_a_red_gate(project: Project) -> None:
    project.suite({"metric": "speedup", "max_drop": "5%"})
    result = project.run("--specgate-selftest", "suites")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*under delay=300%: no baseline for tiny::qa-t0-c1*"])


def test_a_stored_baseline_is_compared_with_and_left_alone(project: Project) -> None:
    project.suite({"metric": "speedup", "max_drop": "5%"}, measure={"rounds": 4})
    project.run("--specgate-update", "suites").assert_outcomes(passed=1)
    (stored,) = (project.path / "baselines").rglob("*.json")
    before = stored.read_text(encoding="utf-8")
    project.run("--specgate-selftest", "suites").assert_outcomes(passed=1)
    assert stored.read_text(encoding="utf-8") == before


def test_a_disturbed_machine_is_not_the_gates_fault(project: Project) -> None:
    engine = {"kind": "scripted", "options": {"fault": "drift"}}
    project.suite(SPEEDUP, ACCEPTANCE, engines={"tiny": engine}, measure={"rounds": 4})
    result = project.run("--specgate-selftest", "suites", "-rs")
    result.stdout.fnmatch_lines(["*cannot be tested here under delay=300%: *"])
    assert result.ret == 0


@pytest.mark.parametrize("other", ["update", "plan", "suggest=3", "history=runs"])
def test_nothing_of_a_planted_engine_is_kept(project: Project, other: str) -> None:
    project.suite(SPEEDUP)
    result = project.run("--specgate-selftest", f"--specgate-{other}", "suites")
    name = other.partition("=")[0]
    result.stderr.fnmatch_lines([f"*--specgate-selftest: cannot go with --specgate-{name} — *"])
    assert result.ret == 4
