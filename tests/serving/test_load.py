"""Requests by the clock: when they come, that both arms have the same times, and that nobody waits for another."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.engines.serving import alarm, client
from pytest_specgate.engines.serving.alarm import Alarm
from pytest_specgate.measure import server_rules
from pytest_specgate.measure.readings import Observed
from pytest_specgate.measure.schedule import arrivals
from pytest_specgate.measure.server_rules import arrivals as arrivals_rule
from pytest_specgate.records import Arm, Told
from pytest_specgate.suite.arrivals import LoadSpec
from tests.plugin.conftest import Project, project
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import served
from tests.unit.observing import pairs

__all__ = ["project"]
SPECULATES = Script(pattern=(1, 3, 2), k=4, per_request="detailed")


def load(**keys: object) -> LoadSpec:
    return LoadSpec.model_validate({"rate": "4/s", **keys})


def test_rates_are_written_by_second_or_minute() -> None:
    assert [load(rate=rate).rate for rate in ("4/s", "0.5 / s", "90/min")] == [4.0, 0.5, 1.5]
    assert LoadSpec.model_validate(load(seed=1).model_dump(mode="json")) == load(seed=1)


def test_an_even_beat() -> None:
    assert arrivals(load(arrival="fixed"), 4, round_number=0) == [0.0, 0.25, 0.5, 0.75]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99))
def test_random_times_grow_and_are_the_same_in_every_run(turn: int, number: int, seed: int) -> None:
    times = arrivals(load(seed=seed), 20, number, turn)

    assert times == arrivals(load(seed=seed), 20, number, turn) == sorted(times)
    assert times != arrivals(load(seed=seed), 20, number + 1, turn)
    assert times != arrivals(load(seed=seed + 1), 20, number, turn)


def test_random_gaps_are_those_of_independent_users() -> None:
    gaps = [b - a for a, b in pairwise(arrivals(load(rate="10/s"), 20_000, round_number=0))]

    # Exponential with mean 0.1: four standard errors of the mean, and of the share beyond it, which is 1/e.
    assert fmean(gaps) == pytest.approx(0.1, abs=4 * 0.1 / 20_000**0.5)
    assert fmean(gap > 0.1 for gap in gaps) == pytest.approx(0.3679, abs=4 * (0.3679 * 0.6321 / 20_000) ** 0.5)


def test_requests_are_submitted_when_they_come_not_when_others_are_answered(arms: Arms) -> None:
    engine, _, fast = arms()
    fast.together = 3  # nobody is answered before the last one came

    before = time.perf_counter_ns()
    found = engine.generate([ask("q1"), ask("q2", after=0.02), ask("q3", after=0.05)], Arm.CANDIDATE)

    assert found[1].submit_ns >= before + 20_000_000
    assert found[2].submit_ns >= before + 50_000_000
    assert all(trace.chunks[0].t_ns > found[2].submit_ns for trace in found)
    late = [trace.told.late for trace in found if trace.told is not None]
    assert late[0] is None
    assert all(one is not None and one >= 0 for one in late[1:])


def test_in_a_closed_loop_so_many_are_under_way_and_the_next_is_sent_where_one_has_ended(arms: Arms) -> None:
    engine, _, fast = arms()
    fast.together, asked = 3, [ask(f"q{number}", text=f"Say {number}.") for number in range(7)]
    known: list[int] = []
    fast.after_reply = lambda: known.append(len(fast.requests))

    found = engine.serve(asked, Arm.CANDIDATE, 3)

    assert [trace.prompt for trace in found] == [request.prompt for request in asked]
    # What the server knew of as each answer ended: three from the start, and one more for each that had ended before.
    assert known[0] == 3
    assert len(known) == 7
    assert all(count <= 3 + place for place, count in enumerate(known))


class Sluggish(Alarm):
    """Of a client that cannot keep up."""

    async def at(self, due_ns: int) -> None:
        """Return 30 ms after the time."""
        await super().at(due_ns + 30_000_000)


def test_our_own_lateness_is_told_and_is_no_part_of_a_requests_time(
    arms: Arms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "Alarm", Sluggish)
    engine, _, _ = arms()

    before = time.perf_counter_ns()
    (found,) = engine.generate([ask("q1", after=0.02)], Arm.CANDIDATE)

    assert found.submit_ns >= before + 50_000_000
    assert found.told is not None
    assert found.told.late is not None
    assert found.told.late >= 0.03


@pytest.mark.parametrize("precise", [True, False])
def test_an_alarm_wakes_everybody_and_nobody_too_early(precise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not precise:
        monkeypatch.setattr(alarm, "_timer", lambda: None)

    async def wake() -> list[int]:
        ring, begin = Alarm(), time.perf_counter_ns()
        due = [begin + after for after in (9_000_000, 1, 4_000_000, 4_000_000, 0)]

        async def one(due_ns: int) -> int:
            await ring.at(due_ns)
            return time.perf_counter_ns() - due_ns

        late = await asyncio.gather(*map(one, due))
        ring.close()
        ring.close()
        return late

    assert all(one >= 0 for one in asyncio.run(wake()))


def test_who_is_given_up_keeps_nobody_waiting() -> None:
    async def give_up() -> bool:
        ring = Alarm()
        soon = time.perf_counter_ns() + 5_000_000
        left, stays = (asyncio.ensure_future(ring.at(soon + more)) for more in (0, 1))
        await asyncio.sleep(0)
        left.cancel()
        await stays
        ring.close()
        return stays.done()

    assert asyncio.run(give_up())


KEPT_BACK = (
    "the client could not keep up: 3 requests left 20.00 ms (median) to 20.00 ms after they came, "
    "2 of them over 10 ms late (at most one in 100): free this machine, or lower the rate"
)


def late(*seconds: float | None) -> Observed:
    """Pairs whose candidates were sent so late."""
    made = pairs(*((1.0, 0.5) for _ in range(-(-len(seconds) // 3))))
    given = (replace(p, candidate=replace(p.candidate, told=Told(late=one))) for p, one in zip(made, seconds))
    return Observed(list(given))


@pytest.mark.parametrize(
    ("seconds", "held", "detail"),
    [
        ((None, None), True, "no requests came by the clock"),
        ((0.00002, 0.00004, 0.00006), True, "3 requests left 0.04 ms (median) to 0.06 ms after they came"),
        ((0.0, 0.0, 0.0, 0.5), True, "4 requests left 0.00 ms (median) to 500.00 ms after they came"),
        (
            (0.0, 0.02, 0.02),
            False,
            KEPT_BACK,
        ),
        ((*(0.0,) * 298, 0.02, 0.02), True, "300 requests left 0.00 ms (median) to 20.00 ms after they came"),
    ],
)
def test_a_client_that_cannot_keep_up_breaks_a_rule(seconds: tuple[float | None, ...], held: bool, detail: str) -> None:
    ruling = arrivals_rule(late(*seconds))

    assert (ruling.held, ruling.detail) == (held, detail)


def test_a_scenario_with_a_load_is_a_case_of_its_own(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_rules, "LARGEST_LATENESS", 3600.0)  # whatever else this machine does meanwhile
    scenario = {"category": "qa", "prompts": "prompts/p.jsonl", "load": {"rate": "200/s", "seed": 1}}
    gate = {"metric": "conditional_acceptance", "max_drop": "0.02"}
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        engines = served(plain.url, fast.url)
        project.suite(gate, engines=engines, scenarios={"qa": scenario}, measure={"rounds": 1})
        project.run("--specgate-update", "suites").assert_outcomes(passed=1)
        result = project.run("--specgate", "suites", "-v")
        scenario["load"] = {"rate": "200/s", "seed": 2}
        project.suite(gate, engines=engines, scenarios={"qa": scenario}, measure={"rounds": 1})
        changed = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1)
    assert "pair::conditional_acceptance[qa-t0-r200]" in result.stdout.str()
    changed.assert_outcomes(errors=1)
    assert "no baseline for this workload: load changed" in " ".join(changed.stdout.str().split())


def test_an_engine_without_a_clock_refuses(project: Project) -> None:
    scenario = {"category": "qa", "prompts": "prompts/p.jsonl", "load": {"rate": "4/s"}}
    project.suite(scenarios={"qa": scenario})

    result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    told = "tiny: tiny::qa-t0-r4: 'load' has requests come by the clock, which this engine cannot — use kind: openai"
    assert told in " ".join(result.stdout.str().split())
