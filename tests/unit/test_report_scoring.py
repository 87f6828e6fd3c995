"""What scoring took beside the candidate arm's time: for a case, for a run, and on the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specgate.measure.texts import arm_seconds
from pytest_specgate.records import Arm, Chunk, Measurement, Pair, Place, ScoringCost, Trace
from pytest_specgate.report.document import Report, new_report
from pytest_specgate.report.html.page import html
from pytest_specgate.report.phrases import scoring, scoring_of_all

COST = ScoringCost(texts=1.5, control=2.0, arm=6.0)


def trace(begin: float, end: float, arm: Arm) -> Trace:
    chunks = (Chunk(int(end * 1e9), 3),)
    return Trace("p", arm, (1, 2, 3), "a b c", 4, int(begin * 1e9), chunks, "length", max_tokens=3)


def measured(*spans: tuple[float, float], cost: ScoringCost | None = COST) -> Measurement:
    """A candidate that answered at these times, in seconds; the reference arm took ten times as long."""
    pairs = tuple(
        Pair("p", "p", number, "AB", trace(10 * a, 10 * b, Arm.REFERENCE), trace(a, b, Arm.CANDIDATE))
        for number, (a, b) in enumerate(spans)
    )
    return Measurement("e::c", "k", Place("cpu", 1, "float64"), {}, {}, pairs, greedy=True, scoring=cost)


def report(*taken: Measurement) -> Report:
    return new_report((), {"s.yaml": taken}, 0, {})


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        (((0, 2), (3, 4)), 3),
        (((0, 2), (0, 3), (0, 1)), 3),  # side by side
        (((1, 4), (2, 3), (5, 6)), 4),
        ((), 0),
    ],
)
def test_requests_that_ran_side_by_side_count_once(spans: tuple[tuple[float, float], ...], seconds: float) -> None:
    assert arm_seconds(measured(*spans)) == pytest.approx(seconds)
    assert arm_seconds(measured(*spans), Arm.REFERENCE) == pytest.approx(10 * seconds)


def test_a_case_tells_its_share_and_the_control_aside() -> None:
    assert scoring(measured((0, 6))) == "1.5 s, 25.0% of the candidate arm's; control aside, 2.0 s"
    assert scoring(measured((0, 6), cost=replace(COST, control=0.0))) == "1.5 s, 25.0% of the candidate arm's"


@pytest.mark.parametrize("cost", [None, replace(COST, arm=0.0)])
def test_what_was_not_scored_has_no_share(cost: ScoringCost | None) -> None:
    assert scoring(measured((0, 6), cost=cost)) == ""


def test_a_run_counts_the_cases_that_nothing_was_scored_of() -> None:
    both = report(measured((0, 6)), measured((0, 9), cost=None))
    said = "Scoring took 10.0% of the candidate arms' measured time in all, controls aside"
    assert scoring_of_all(both) == said
    assert said in html(both).replace("&#x27;", "'").replace("&#39;", "'")
    assert scoring_of_all(report(measured((0, 9), cost=None))) == ""
