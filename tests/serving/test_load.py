"""Requests by the clock: when they come, that both arms have the same times, and that nobody waits for another."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.measure.schedule import arrivals
from pytest_specgate.records import Arm
from pytest_specgate.suite.arrivals import LoadSpec
from tests.plugin.conftest import Project, project
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import served

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

    found = engine.generate([ask("q1"), ask("q2", after=0.02), ask("q3", after=0.05)], Arm.CANDIDATE)

    begin = found[1].submit_ns - 20_000_000
    assert found[2].submit_ns == begin + 50_000_000
    assert all(trace.chunks[0].t_ns > begin + 50_000_000 for trace in found)


def test_a_scenario_with_a_load_is_a_case_of_its_own(project: Project) -> None:
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
