"""One engine of one suite over its life: measured once, failures kept, baselines compared and stored."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate import baseline
from pytest_specgate.errors import AlreadyStored, EngineError, SpecgateError
from pytest_specgate.measure.budget import TimeBudget
from pytest_specgate.measure.requirements import requirements_unmet
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.refresh import unused_entries, update_baselines
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.cases import Suite, expand
from tests.unit import crashing
from tests.unit.project import PROMPTS, SPEEDUP, load, write

DRIFT = {"metric": "speedup", "max_drop": "5%"}
NONE = frozenset[str]()
USED_UP = "stopped after 1 of at most 8 rounds: the time for it is used up"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def settings(folder: Path, **chosen: object) -> Settings:
    return replace(Settings(folder / "baselines"), **chosen)  # type: ignore[arg-type]


def opened(path: Path, **chosen: object) -> SuiteSession:
    suite, _ = load(path)
    return SuiteSession(suite, "tiny", settings(path.parent, **chosen))


def judged(session: SuiteSession) -> list[Verdict]:
    cases = expand(session.suite)
    return [session.judge(gate, case) for case in cases for gate in case.gates]


def recorded(path: Path) -> Path:
    """Store what the suite measures now; the baseline's file."""
    session = opened(path, update=True)
    judged(session)
    (change,) = update_baselines(session, NONE)
    return change.path


# --- measuring once ---


def test_a_case_is_measured_once_whatever_asks_for_it(tmp_path: Path) -> None:
    told: list[str] = []
    session = opened(write(tmp_path, SPEEDUP, {"metric": "exact_match", "limit": "==100%"}), progress=told.append)
    (case,) = expand(session.suite)
    first = session.case(case)
    count = len(told)
    judged(session)
    assert session.case(case) is first
    assert len(told) == count
    assert session.results() == [first]


def test_a_failure_is_kept_and_raised_every_time(tmp_path: Path) -> None:
    crashing.BuggyGenerate.calls = 0
    session = opened(write(tmp_path, engines={"tiny": {"kind": "tests.unit.crashing:BuggyGenerate"}}))
    (case,) = expand(session.suite)
    raised = []
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            session.case(case)
        raised.append(caught.value)
    assert raised[0] is raised[1]
    assert crashing.BuggyGenerate.calls == 1
    assert session.results() == []
    assert str(raised[0]) == (
        "tiny: tiny::qa-t0-c1: IndexError: list index out of range — this is a fault of the engine's adapter"
    )


@pytest.mark.parametrize(
    ("engine", "what", "hint"),
    [
        (
            {"kind": "scripted", "options": {"fault": "start"}},
            "tiny: the script says that this engine cannot start",
            "set fault: none",
        ),
        (
            {"kind": "tests.unit.crashing:BuggyStart"},
            "tiny: cannot start: KeyError: 'weights'",
            "this is a fault of the engine's adapter",
        ),
    ],
)
def test_an_engine_that_cannot_start_is_tried_once_and_every_case_says_why(
    tmp_path: Path, engine: Mapping[str, object], what: str, hint: str
) -> None:
    crashing.BuggyStart.starts = 0
    scenarios = {name: {"category": "qa", "prompts": "p.jsonl"} for name in ("qa", "more")}
    verdicts = judged(opened(write(tmp_path, engines={"tiny": engine}, scenarios=scenarios)))
    assert [(v.case, v.outcome, v.reason, v.advice) for v in verdicts] == [
        (f"tiny::{name}-t0-c1", Outcome.ERROR, what, hint) for name in ("qa", "more")
    ]
    assert crashing.BuggyStart.starts <= 1


def test_a_case_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    scenarios = {
        "bad": {"category": "qa", "prompts": "p.jsonl"},
        "good": {"category": "qa", "prompts": {"file": "p.jsonl", "only": ["q2", "q3", "q4", "q5", "q6"]}},
    }
    path = write(tmp_path, options={"fault": "oom", "fail_on": "q1"}, scenarios=scenarios)
    assert [verdict.outcome for verdict in judged(opened(path))] == [Outcome.ERROR, Outcome.PASS]


def test_a_metric_that_the_engine_does_not_give_is_an_error(tmp_path: Path) -> None:
    gate = {"metric": "acceptance_rate", "limit": ">=10%"}
    (verdict,) = judged(opened(write(tmp_path, gate, options={"fault": "no_rounds"})))
    assert verdict.outcome is Outcome.ERROR
    assert verdict.measured is None


def test_without_a_memory_pass_memory_is_unmeasured_and_the_rest_is_judged(tmp_path: Path) -> None:
    gates = ({"metric": "host_memory_ratio", "limit": "<=2x"}, SPEEDUP)
    verdicts = judged(opened(write(tmp_path, *gates, measure={"memory": False})))
    assert [verdict.outcome for verdict in verdicts] == [Outcome.ERROR, Outcome.PASS]


def test_a_memory_pass_that_fails_costs_its_own_gates_alone(tmp_path: Path) -> None:
    gates = ({"metric": "host_memory_ratio", "limit": "<=2x"}, SPEEDUP)
    engines = {"tiny": {"kind": "tests.unit.crashing:CrashesAlone"}}
    memory, speed = judged(opened(write(tmp_path, *gates, engines=engines)))
    assert (memory.outcome, speed.outcome) == (Outcome.ERROR, Outcome.PASS)
    assert memory.reason == "tiny: the memory pass of the reference arm failed: ZeroDivisionError: no tokens"


def test_the_smaller_budget_counts(tmp_path: Path) -> None:
    session = opened(write(tmp_path, measure={"budget": "600 s"}), time=TimeBudget(1e-9, 1))
    (case,) = expand(session.suite)
    assert session.case(case).measurement.warnings == (USED_UP,)


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    session = opened(write(tmp_path))
    judged(session)
    session.close()
    session.close()


# --- baselines ---


def test_a_gate_that_compares_is_judged_by_what_was_stored(tmp_path: Path) -> None:
    path = write(tmp_path, DRIFT)
    stored = recorded(path)
    assert stored == tmp_path / "baselines" / "simulated-x1-none" / "demo.json"
    assert [verdict.outcome for verdict in judged(opened(path))] == [Outcome.PASS]
    slower = write(tmp_path, DRIFT, options={"speedup": 1.2})
    assert [verdict.outcome for verdict in judged(opened(slower))] == [Outcome.FAIL]


def test_a_changed_workload_is_no_baseline(tmp_path: Path) -> None:
    (stored,) = baseline.read(recorded(write(tmp_path, DRIFT))).values()
    path = write(tmp_path, DRIFT, prompts=PROMPTS[:4], scenario={"max_tokens": 9})
    (verdict,) = judged(opened(path))
    assert verdict.outcome is Outcome.ERROR
    assert verdict.reason == (
        f"tiny: tiny::qa-t0-c1: no baseline for this workload: max_tokens, prompts changed since {stored.recorded}"
    )
    assert verdict.advice == "record one: pytest --specgate-update demo.specgate.yaml"


def test_a_changed_subject_is_what_is_judged(tmp_path: Path) -> None:
    recorded(write(tmp_path, DRIFT, options={"k": 4}))
    (verdict,) = judged(opened(write(tmp_path, DRIFT, options={"k": 5})))
    assert verdict.outcome is Outcome.PASS


def test_a_limit_alone_needs_no_baseline_of_this_workload(tmp_path: Path) -> None:
    recorded(write(tmp_path))
    (verdict,) = judged(opened(write(tmp_path, prompts=PROMPTS[:4])))
    assert verdict.outcome is Outcome.PASS


def test_an_update_stores_what_was_measured_and_reads_back(tmp_path: Path) -> None:
    session = opened(write(tmp_path, DRIFT), update=True)
    (verdict,) = judged(session)
    assert verdict.outcome is Outcome.PASS
    yesterday_or_today = [datetime.date.today().isoformat()]
    (change,) = update_baselines(session, NONE)
    yesterday_or_today.append(datetime.date.today().isoformat())
    assert (change.case, change.old, change.refused) == ("tiny::qa-t0-c1", None, "")
    assert list(baseline.read(change.path)) == ["tiny::qa-t0-c1"]
    (again,) = update_baselines(session, NONE)
    assert again.old is not None
    assert again.old.recorded in yesterday_or_today


def test_an_update_keeps_what_was_not_measured(tmp_path: Path) -> None:
    scenarios = {name: {"category": "qa", "prompts": "p.jsonl"} for name in ("qa", "more")}
    session = opened(write(tmp_path, scenarios=scenarios), update=True)
    judged(session)
    path = update_baselines(session, NONE)[0].path
    before = baseline.read(path)["tiny::more-t0-c1"]
    recorded(write(tmp_path))
    assert baseline.read(path)["tiny::more-t0-c1"] == before


def test_a_broken_rule_refuses_the_update_and_says_which(tmp_path: Path) -> None:
    session = opened(write(tmp_path, options={"fault": "drift"}), update=True)
    judged(session)
    (change,) = update_baselines(session, NONE)
    assert change.new is None
    assert change.refused.startswith("environment rule 'reference drift' did not hold: reference arm +")
    assert not change.path.exists()


@pytest.mark.parametrize(
    ("only", "failed", "stored"),
    [
        (None, NONE, {"tiny::qa-t0-c1", "tiny::more-t0-c1"}),
        ("new", NONE, {"tiny::more-t0-c1"}),
        ("failed", frozenset({"tiny::qa-t0-c1"}), {"tiny::qa-t0-c1"}),
        ("failed", NONE, set()),
    ],
)
def test_an_update_is_narrowed(tmp_path: Path, only: str | None, failed: frozenset[str], stored: set[str]) -> None:
    recorded(write(tmp_path))
    scenarios = {name: {"category": "qa", "prompts": "p.jsonl"} for name in ("qa", "more")}
    session = opened(write(tmp_path, scenarios=scenarios), update=True, update_only=only)
    for case in expand(session.suite):
        with nullcontext() if only != "new" or "more" in case.id else pytest.raises(AlreadyStored):
            session.case(case)
    assert {change.case for change in update_baselines(session, failed)} == stored


def test_unused_entries_are_those_that_no_case_reads(tmp_path: Path) -> None:
    path = recorded(write(tmp_path))
    scenarios = {"other": {"category": "qa", "prompts": "p.jsonl"}}
    suite, _ = load(write(tmp_path, scenarios=scenarios))
    assert unused_entries(settings(tmp_path).baselines, suite.name, expand(suite)) == {path: ("tiny::qa-t0-c1",)}
    same, _ = load(write(tmp_path))
    assert unused_entries(settings(tmp_path).baselines, same.name, expand(same)) == {}
    path.write_text("{")
    assert unused_entries(settings(tmp_path).baselines, suite.name, expand(suite)) == {}


# --- what was measured earlier ---


def test_a_taken_measurement_is_judged_without_an_engine(tmp_path: Path) -> None:
    path = write(tmp_path)
    session = opened(path)
    (case,) = expand(session.suite)
    measurement = session.case(case).measurement
    again = SuiteSession(session.suite, "tiny", settings(tmp_path))
    again.take(case, measurement)
    assert judged(again) == judged(session)
    assert again.running is None


def test_a_taken_measurement_of_something_else_is_refused(tmp_path: Path) -> None:
    session = opened(write(tmp_path))
    (case,) = expand(session.suite)
    measurement = session.case(case).measurement
    other = opened(write(tmp_path, scenario={"max_tokens": 9}))
    (asked,) = expand(other.suite)
    other.take(asked, measurement)
    with pytest.raises(SpecgateError, match="tiny::qa-t0-c1: max_tokens changed since it was measured"):
        other.case(asked)


# --- requirements ---


def unmet_by(suite: Suite, chosen: Settings) -> str | None:
    return requirements_unmet(suite.spec.requires, chosen.device)


def requiring(folder: Path, **requires: object) -> Suite:
    return load(write(folder, requires=requires))[0]


def test_a_machine_that_has_everything(tmp_path: Path) -> None:
    assert unmet_by(requiring(tmp_path, device="cpu", memory="1 KiB", package="json"), settings(tmp_path)) is None


def test_a_package_that_is_not_there(tmp_path: Path) -> None:
    suite = requiring(tmp_path, package=["json", "no_such_package"])
    assert unmet_by(suite, settings(tmp_path)) == ("requires package 'no_such_package', which is not installed")


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    assert unmet_by(requiring(tmp_path, command=["sh"]), settings(tmp_path)) is None
    suite = requiring(tmp_path, command="no-such-server")
    assert unmet_by(suite, settings(tmp_path)) == "requires command 'no-such-server', which is not on PATH"


def test_a_submodule_of_a_package_that_is_not_there(tmp_path: Path) -> None:
    suite = requiring(tmp_path, package="no_such_package.part")
    assert unmet_by(suite, settings(tmp_path)) == ("requires package 'no_such_package.part', which is not installed")


def test_another_device_was_chosen(tmp_path: Path) -> None:
    suite = requiring(tmp_path, device="cuda")
    assert unmet_by(suite, settings(tmp_path, device="cpu")) == ("requires device cuda, --specgate-device says cpu")


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac may have it")
def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    suite = requiring(tmp_path, device="mps")
    assert unmet_by(suite, settings(tmp_path)) == "requires device mps, which this machine has not"


def test_more_memory_than_there_is(tmp_path: Path) -> None:
    unmet = unmet_by(requiring(tmp_path, memory="4096 TiB"), settings(tmp_path))
    assert unmet is not None
    assert unmet.startswith("requires 4.19e+06 GiB of free memory, ")
    assert unmet.endswith(" GiB are there")
