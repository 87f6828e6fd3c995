"""Requests that ran together are few observations: gates on them decide, and are no surer than the runs agree."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from pytest_specgate.gates.parts import shared_series
from pytest_specgate.gates.shift import shift_from_stored
from pytest_specgate.records import Outcome, Samples
from pytest_specgate.stats.limits import Limits
from tests.unit.judging import gate, samples, stored, verdict

PROMPTS, RUNS, SHARED = 24, 8, 0.02
#: What a check of five in a build of eight rounds may err, as a suite's defaults have it.
USUAL: dict[str, Any] = {"alpha": 0.01 / 5, "looks": 4}
LATENCIES = ("ttft", "tpot", "e2el")


def runs(random: np.random.Generator, level: float = 1.0, count: int = RUNS, *, blocks: bool = True) -> Samples:
    """Every latency, throughput and the speedup about ``level``: each run has noise of its own, shared by all in it."""
    own = random.normal(0, 0.03, (PROMPTS, count)) + np.linspace(-0.5, 0.5, PROMPTS)[:, None]
    logs = (own + random.normal(0, SHARED, count) + math.log(level)).tolist()
    times = [[math.exp(value) for value in row] for row in logs]
    same = [[2.0] * count] * PROMPTS
    series = dict.fromkeys(LATENCIES, times) | dict.fromkeys((f"reference_{name}" for name in LATENCIES), same)
    whole = [[fmean(column) for column in zip(*times)]]
    together = {"block": [[0.0] * count] * PROMPTS} if blocks else {}
    return samples(series | {"speedup": logs, "throughput": whole} | together)


UNITS = {"speedup": "x", "throughput": " tokens/s"}


@pytest.mark.parametrize("count", [4, RUNS])
@pytest.mark.parametrize("statistic", ["median", "mean"])
@pytest.mark.parametrize("metric", ["speedup", "throughput", *LATENCIES])
def test_gross_differences_are_decided_by_as_many_runs_as_suites_have(metric: str, statistic: str, count: int) -> None:
    random, unit = np.random.default_rng(1), UNITS.get(metric, " s")
    how = {} if metric == "speedup" else {"statistic": statistic}
    good, bad = runs(random, 1.0, count), runs(random, 4.0, count)

    limit = [verdict(gate(metric, limit=f"<=2{unit}", **how), found, **USUAL).outcome for found in (good, bad)]
    drift = [
        verdict(gate(metric, max_rise="90%", **how), found, runs(random, 1.0, count), **USUAL).outcome
        for found in (good, bad)
    ]

    assert limit == drift == [Outcome.PASS, Outcome.FAIL]


@pytest.mark.parametrize("statistic", ["median", "mean", "p90"])
def test_what_all_requests_of_a_run_share_is_no_change(statistic: str) -> None:
    random, alpha, builds = np.random.default_rng(2), 0.01, 200
    asked = gate("tpot", max_rise="0.0001%", statistic=statistic)

    outcomes = [verdict(asked, runs(random), runs(random), alpha=alpha).outcome for _ in range(builds)]

    assert outcomes.count(Outcome.FAIL) / builds <= alpha + 3 * math.sqrt(alpha / builds)


def test_a_median_right_at_its_limit_is_decided_as_rarely_as_allowed() -> None:
    random, alpha, builds = np.random.default_rng(3), 0.002, 400
    asked = gate("tpot", limit="<=1 s")

    outcomes = [verdict(asked, runs(random), alpha=alpha).outcome for _ in range(builds)]

    assert outcomes.count(Outcome.FAIL) / builds <= alpha + 3 * math.sqrt(alpha / builds)
    assert outcomes.count(Outcome.PASS) / builds <= 0.05 + 3 * math.sqrt(0.05 / builds)


def test_stored_runs_whose_medians_are_off_do_not_make_an_unchanged_build_fail() -> None:
    # Two of four stored runs of the baseline were half as long again: so are the medians of all its prompts.
    steady = runs(np.random.default_rng(4), count=4)
    stalled = [[value + 0.2 * (turn % 2) for turn, value in enumerate(p.series["speedup"])] for p in steady.prompts]
    before = samples({"speedup": stalled, "block": [[0.0] * 4] * PROMPTS})

    said = verdict(gate("speedup", max_drop="1%"), steady, before, **USUAL)

    assert said.outcome is Outcome.INCONCLUSIVE


def test_stalls_in_few_stored_runs_pass_no_build_at_the_limit() -> None:
    random, alpha, builds = np.random.default_rng(10), 0.0125, 400

    def stalling(count: int, level: float) -> Samples:
        stalls = (random.random(count) < 0.1) * random.exponential(0.2, count)
        logs = random.normal(level, 0.02, (PROMPTS, count)) + random.normal(0, 0.01, count) - stalls
        return samples({"speedup": logs.tolist(), "block": [[0.0] * count] * PROMPTS})

    def passed() -> bool:
        before, now = stalling(4, 0.4), stalling(RUNS, 0.4 + math.log1p(-0.05))
        found = shift_from_stored(shared_series(now, stored(before), "speedup"), now, before).limits(alpha)
        return isinstance(found, Limits) and found.low > math.log1p(-0.05)

    assert sum(passed() for _ in range(builds)) / builds <= alpha + 3 * math.sqrt(alpha / builds)


def test_few_runs_are_called_runs() -> None:
    found = runs(np.random.default_rng(5))
    tail = verdict(gate("ttft", limit="<=2 s", statistic="p99"), found, **USUAL).reason
    assert tail.endswith("; at least 437 runs are needed (this run had 8)")
    lower = verdict(gate("ttft", max_rise="10%", statistic="p90"), found, runs(np.random.default_rng(6)), **USUAL)
    assert lower.reason.startswith("ttft p90: 8 runs do not bound this tail; needed: ")
    single = verdict(gate("ttft", limit="<=2 s"), runs(np.random.default_rng(7), count=1), **USUAL).reason
    assert single == "ttft: one round has no scatter to judge by; needed: 2 rounds"


def test_a_fine_demand_on_few_runs_is_said_to_be() -> None:
    asked = gate("speedup", max_drop="3%")
    few, single = (
        verdict(
            asked,
            runs(np.random.default_rng(8), 2.0, count=4, blocks=blocks),
            runs(np.random.default_rng(9), 2.0, count=4, blocks=blocks),
            **USUAL,
        )
        for blocks in (True, False)
    )
    (warning,) = few.warnings
    assert warning.startswith("4 runs that scatter by ")
    assert warning.endswith(" up: an allowed drop of 3% will often stay undecided")
    assert single.warnings == ()


def test_a_mean_is_one_of_requests_whichever_run_they_were_in() -> None:
    # A first turn of all prompts, and a second one of a single conversation whose answers take longer.
    first = [[1.0 + 0.01 * (turn % 2) for turn in range(RUNS)] for _ in range(PROMPTS - 1)]
    times = [*first, [30.0 + 0.3 * (turn % 2) for turn in range(RUNS)]]
    found = samples({"ttft": times, "block": [[0.0] * RUNS] * (PROMPTS - 1) + [[1.0] * RUNS]})

    said = verdict(gate("ttft", limit="<=3 s", statistic="mean"), found, **USUAL)

    assert said.outcome is Outcome.PASS
    assert said.reason.startswith("ttft mean 2.2")
