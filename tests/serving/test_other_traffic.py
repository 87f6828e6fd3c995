"""Counters that hold the requests of others: an environment finding, never a number of ours."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pytest_specgate.engines.serving.counters import FEWER, RESET, Seen, judge
from pytest_specgate.engines.serving.tally import Tally
from pytest_specgate.measure.readings import Observed
from pytest_specgate.measure.server_rules import other_traffic
from pytest_specgate.records import Arm, Counts, Told
from tests.plugin.conftest import Project, project
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import served
from tests.unit.observing import pairs

__all__ = ["project"]
SPECULATES = Script(pattern=(1, 3, 2), k=4)
OURS = Tally(requests=2, tokens=40, drafts=8, drafted=32, accepted=30, accepted_at=(8, 8, 7, 7))


def crowded(server: FakeServer) -> None:
    """Have somebody else's request end with every one of ours."""

    def somebody_else() -> None:
        server.counters.requests += 1
        server.counters.tokens += 5

    server.after_reply = somebody_else


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        (OURS, Seen(Counts(8, 8, 32, 31, 30), 0)),
        (replace(OURS, tokens=38), Seen(Counts(8, 8, 32, 31, 30), 0)),  # each text's end token left out
        (replace(OURS, requests=5, tokens=99), Seen(None, 3)),
        (replace(OURS, tokens=60), Seen(None, 1)),  # somebody's request is still running
        (replace(OURS, tokens=20), Seen(note=FEWER)),
        (replace(OURS, requests=1), Seen(note=FEWER)),
        (None, Seen(note=RESET)),
        (Tally(drafts=8, drafted=32, accepted=30), Seen(Counts(8, 8, 32, None, 30), None)),
        (Tally(tokens=40), Seen(None, 0)),
    ],
)
def test_counters_are_ours_if_they_count_as_much_as_we_got(found: Tally | None, seen: Seen) -> None:
    assert judge(found, requests=2, tokens=40) == seen


def test_an_engine_sees_the_request_of_somebody_else(arms: Arms) -> None:
    engine, _, fast = arms()
    crowded(fast)

    (found,) = engine.generate([ask("q1")], Arm.CANDIDATE)

    assert found.told is not None
    assert (found.told.counts, found.told.foreign) == (None, 1)


def test_requests_of_somebody_else_are_counted_once_for_all_that_ran_together(arms: Arms) -> None:
    engine, _, fast = arms()
    crowded(fast)

    found = engine.generate([ask("q1"), ask("q2"), ask("q3")], Arm.CANDIDATE)

    assert [trace.told and trace.told.foreign for trace in found] == [3, 0, 0]


def test_a_requests_own_metrics_are_free_of_other_traffic(arms: Arms) -> None:
    engine, _, fast = arms(replace(SPECULATES, per_request="detailed"))
    crowded(fast)

    (found,) = engine.generate([ask("q1")], Arm.CANDIDATE)

    assert found.rounds is not None
    assert found.told is not None
    assert found.told.foreign == 1


def test_the_rule_adds_up_what_both_arms_saw() -> None:
    told = [replace(p, candidate=replace(p.candidate, told=Told(foreign=n))) for n, p in enumerate(pairs((1.0, 0.5)))]

    ruling = other_traffic(Observed(told))

    assert not ruling.held
    assert ruling.detail == "3 requests of others beside 3 of ours (none is allowed)"


@pytest.mark.parametrize(
    ("told", "detail"),
    [
        (None, "no server was asked"),
        (Told(), "cannot be told: the servers have no counters of requests"),
        (Told(foreign=0), "no request of others beside 3 of ours"),
    ],
)
def test_the_rule_holds_where_nobody_was_seen(told: Told | None, detail: str) -> None:
    seen = [replace(p, candidate=replace(p.candidate, told=told)) for p in pairs((1.0, 0.5))]

    ruling = other_traffic(Observed(seen))

    assert (ruling.held, ruling.detail) == (True, detail)


def test_with_other_traffic_acceptance_and_times_are_inconclusive_with_the_reason(project: Project) -> None:
    gates = (
        {"metric": "conditional_acceptance", "limit": ">=40%"},
        {"metric": "ttft", "limit": "<=100 s"},
        {"metric": "exact_match", "limit": "==100%"},
    )
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        crowded(fast)
        project.suite(*gates, engines=served(plain.url, fast.url), measure={"rounds": 1})
        result = project.run("--specgate", "suites")

    outcomes = result.parseoutcomes()
    said = " ".join(result.stdout.str().split())
    assert (outcomes["passed"], outcomes["inconclusive"]) == (1, 2)
    assert "environment rule 'other traffic' did not hold: 6 requests of others beside 12 of ours" in said


def test_counters_that_are_reset_in_mid_run_leave_acceptance_unmeasured(project: Project) -> None:
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:

        def start_anew() -> None:
            if fast.counters.requests == 3:
                fast.counters = type(fast.counters)()

        fast.after_reply = start_anew
        project.suite(
            {"metric": "conditional_acceptance", "limit": ">=40%"},
            engines=served(plain.url, fast.url),
            measure={"rounds": 1},
        )
        result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    said = " ".join(result.stdout.str().split())
    assert "of 6 prompts came without rounds" in said
    assert RESET in said


def test_counters_that_come_late_are_waited_for(arms: Arms) -> None:
    engine, _, fast = arms()
    counters = fast.counters
    late = type(counters)()

    def count_late() -> None:
        fast.counters, shown = late, counters
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, lambda: setattr(fast, "counters", shown))

    fast.after_reply = count_late

    (found,) = engine.generate([ask("q1")], Arm.CANDIDATE)

    assert found.told is not None
    assert found.told.counts == Counts(rounds=6, drafts=6, drafted=24, tested=12, accepted=6)
