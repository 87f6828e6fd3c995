"""How checks become a verdict: the worst one speaks, and nothing softens silently."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from pytest_specgate.gates import error_verdict
from pytest_specgate.gates.advice import ADVICE
from pytest_specgate.gates.decision import Evidence, decide, exact
from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.records import Interval, Outcome
from tests.unit.judging import CASE, gate, samples, verdict

MATCHING, DIFFERING = samples({"exact_match": [[1.0]]}), samples({"exact_match": [[0.5]]})
ALL = {"limit": "==100%"}


def waiver(until: str) -> dict[str, str]:
    return {"reason": "known: ties in bfloat16", "until": until}


def test_a_verdict_names_gate_case_place_and_numbers() -> None:
    said = verdict(gate("exact_match", **ALL), DIFFERING)

    assert (said.gate, said.metric, said.case) == ("exact_match", "exact_match", CASE)
    assert said.location == "a.specgate.yaml:7:3"
    assert said.measured == Interval(0.5, 0.5, 0.5)
    assert said.advice == ADVICE["exact_match"]


def test_a_pass_needs_no_advice() -> None:
    said = verdict(gate("exact_match", **ALL), MATCHING)

    assert (said.outcome, said.advice, said.softened) == (Outcome.PASS, "", "")


def test_every_metric_has_advice() -> None:
    assert ADVICE.keys() == METRICS.keys()


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_judged_and_unmeasured_is_an_error(name: str) -> None:
    whole = METRICS[name].family in (Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS)
    limit = "==100%" if whole else ">=0 ms" if METRICS[name].unit.value == "s" else ">=0"
    demand = {"max_drop": "1%"} if name == "task_score" else {"limit": limit}
    drawn = METRICS[name].family is Family.DISTRIBUTION
    said = verdict(gate(name, **demand), samples({}, greedy=not drawn), samples({}))

    assert said.outcome is Outcome.ERROR
    assert said.reason == f"{name}: not measured by this engine (e)"


def test_no_baseline_is_an_error_that_says_how_to_record_one() -> None:
    said = verdict(gate("exact_match", max_drop="1%"), MATCHING)

    assert (said.outcome, said.reason) == (Outcome.ERROR, "no baseline for e::short-t0-c1")
    assert said.advice == "record one: pytest --specgate-update a"


def test_recording_needs_no_baseline() -> None:
    said = verdict(gate("exact_match", max_drop="1%"), MATCHING, updating=True)

    assert (said.outcome, said.reason) == (Outcome.PASS, "recorded: there is nothing to compare with yet")


def test_a_limit_is_judged_while_recording() -> None:
    assert verdict(gate("exact_match", max_drop="1%", **ALL), DIFFERING, updating=True).outcome is Outcome.FAIL


def test_a_gate_without_comparison_needs_no_baseline() -> None:
    assert verdict(gate("exact_match", **ALL), MATCHING).baseline is None


@pytest.mark.parametrize(
    ("spec", "softened", "note"),
    [
        ({}, "", ""),
        ({"on_fail": "warn"}, "warn", ""),
        # Until and including its last day; the context's today is 2030-01-31.
        ({"waive": waiver("2030-01-31")}, "waived until 2030-01-31: known: ties in bfloat16", ""),
        ({"waive": waiver("2030-01-30")}, "", " (the waiver expired on 2030-01-30)"),
        ({"waive": waiver("2030-01-30"), "on_fail": "warn"}, "warn", " (the waiver expired on 2030-01-30)"),
    ],
)
def test_a_failure_stays_a_failure_and_says_how_it_is_softened(spec: dict[str, Any], softened: str, note: str) -> None:
    said = verdict(gate("exact_match", **ALL, **spec), DIFFERING)

    assert (said.outcome, said.softened) == (Outcome.FAIL, softened)
    assert said.reason == "exact match 50.0% is below the limit ==100%" + note


@pytest.mark.parametrize("spec", [{"on_fail": "warn"}, {"waive": waiver("2031-01-01")}])
def test_only_failures_are_softened(spec: dict[str, Any]) -> None:
    assert verdict(gate("exact_match", **ALL, **spec), MATCHING).softened == ""
    error = verdict(gate("exact_match", **ALL, **spec), samples({}))
    assert (error.outcome, error.softened) == (Outcome.ERROR, "")


def test_a_waiver_expires_overnight() -> None:
    waived = gate("exact_match", **ALL, waive=waiver("2030-01-31"))

    assert verdict(waived, DIFFERING, today=dt.date(2030, 1, 31)).softened
    assert not verdict(waived, DIFFERING, today=dt.date(2030, 2, 1)).softened


def test_the_worst_check_speaks() -> None:
    before = samples({"exact_match": [[0.5]]})

    said = verdict(gate("exact_match", max_drop="1%", **ALL), DIFFERING, before)

    assert [check.outcome for check in said.checks] == [Outcome.FAIL, Outcome.PASS]
    assert said.outcome is Outcome.FAIL
    assert said.reason == said.checks[0].reason


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    said = error_verdict(gate("exact_match", **ALL), CASE, "out of memory:\n  tried 2 GiB", "use less\n")

    assert (said.outcome, said.reason, said.advice) == (Outcome.ERROR, "out of memory: tried 2 GiB", "use less")
    assert said.location == "a.specgate.yaml:7:3"


@pytest.mark.parametrize(
    ("failing", "passing", "outcome"),
    [
        ((1.2, 1.4), (1.25, 1.35), Outcome.PASS),
        ((0.9, 1.4), (1.0, 1.35), Outcome.PASS),
        ((0.9, 1.4), (0.95, 1.35), Outcome.INCONCLUSIVE),
        ((0.8, 0.99), (0.85, 0.95), Outcome.FAIL),
        ((1.9, 2.5), (2.05, 2.4), Outcome.INCONCLUSIVE),
        ((2.1, 2.5), (2.2, 2.4), Outcome.FAIL),
        ((-math.inf, 0.9), (-math.inf, 0.8), Outcome.FAIL),
        ((-math.inf, 1.5), (-math.inf, 1.5), Outcome.INCONCLUSIVE),
        ((1.2, math.inf), (1.2, math.inf), Outcome.INCONCLUSIVE),
        ((2.1, math.inf), (2.2, math.inf), Outcome.FAIL),
    ],
)
def test_three_valued_decisions(failing: tuple[float, float], passing: tuple[float, float], outcome: Outcome) -> None:
    evidence = Evidence(*(Interval(1.3, low, high) for low, high in (failing, passing)))

    assert decide(evidence, 1.0, 2.0) is outcome


def test_an_exact_number_at_its_bound_keeps_it() -> None:
    assert decide(exact(0.1 + 0.2), None, 0.3) is Outcome.PASS
    assert decide(exact(0.300001), None, 0.3) is Outcome.FAIL
