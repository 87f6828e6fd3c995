"""Each environment rule, broken and held; and what other processes did, from two readings."""

from __future__ import annotations

import pytest

from pytest_specgate.measure.environment import Observed, examine
from pytest_specgate.measure.host import HostReading, available_cores, foreign_cores, read_host
from pytest_specgate.records import Arm, Chunk, Finding, Pair, Trace


def trace(arm: Arm, seconds: float) -> Trace:
    end = Chunk(int(seconds * 1e9), 10)
    return Trace("q", arm, tuple(range(10)), "", 3, 0, (end,), "length")


def pair(prompt: str, number: int, reference: float, candidate: float) -> Pair:
    return Pair(prompt, prompt, number, "AB", trace(Arm.REFERENCE, reference), trace(Arm.CANDIDATE, candidate))


def pairs(*rounds: tuple[float, float], prompts: int = 3) -> list[Pair]:
    """Every prompt takes the same time: seconds of both arms, by round."""
    return [pair(f"q{n}", r, *seconds) for r, seconds in enumerate(rounds) for n in range(prompts)]


def finding(rule: str, observed: Observed) -> Finding:
    return next(found for found in examine(observed) if found.rule == rule)


def test_a_steady_quiet_run_keeps_every_rule_in_table_order() -> None:
    found = examine(Observed(pairs((1.0, 0.5), (1.0, 0.5)), 0.1, 4))
    assert [one.rule for one in found] == ["reference drift", "pair noise", "warm start", "foreign load"]
    assert all(one.held for one in found)


@pytest.mark.parametrize(
    ("last", "held", "detail"),
    [
        (1.19, True, "reference arm +19.0% from first to last round (at most ±20%)"),
        (1.21, False, "reference arm +21.0% from first to last round (at most ±20%)"),
        (0.84, True, "reference arm -16.0% from first to last round (at most ±20%)"),
        (0.82, False, "reference arm -18.0% from first to last round (at most ±20%)"),
    ],
)
def test_reference_drift(last: float, held: bool, detail: str) -> None:
    # The candidate drifts alike: pairs cancel it, the rule sees it all the same.
    found = finding("reference drift", Observed(pairs((1.0, 0.5), (last, last / 2))))
    assert found == Finding("reference drift", held, detail)


@pytest.mark.parametrize(("factor", "held"), [(1.1, True), (1.5, False)])
def test_pair_noise(factor: float, held: bool) -> None:
    found = finding("pair noise", Observed(pairs((1.0, 0.5), (1.0, 0.5 * factor))))
    assert found.held is held
    assert found.detail.endswith("(at most 15%)")


@pytest.mark.parametrize(("arm", "first"), [("reference", (1.6, 0.5)), ("candidate", (1.0, 0.8))])
def test_a_cold_first_call_of_either_arm(arm: str, first: tuple[float, float]) -> None:
    cold = [pair("q0", 0, *first), *pairs((1.0, 0.5), (1.0, 0.5))[1:]]
    found = finding("warm start", Observed(cold))
    assert found == Finding("warm start", False, "first call 1.60x its later ones (at most 1.5x)"), arm


@pytest.mark.parametrize(("foreign", "held"), [(1.0, True), (1.01, False)])
def test_foreign_load(foreign: float, held: bool) -> None:
    found = finding("foreign load", Observed(pairs((1.0, 0.5)), foreign, 4))
    detail = f"other processes used {foreign:.2f} of 4 cores (at most 1.00)"
    assert found == Finding("foreign load", held, detail)


def test_one_round_on_a_device_has_too_little_to_look_at_and_says_so() -> None:
    found = examine(Observed(pairs((1.0, 0.5))))
    assert all(one.held for one in found)
    assert [one.detail for one in found] == [
        "one round only: no drift to see",
        "one round only: no noise to see",
        "one round only: nothing to compare the first call with",
        "the device is not the CPU",
    ]


def test_foreign_cores_are_what_is_busy_beyond_our_own() -> None:
    first, last = HostReading(10.0, 100.0, 5.0), HostReading(14.0, 110.0, 9.0)
    assert foreign_cores(first, last) == pytest.approx(1.5)


def test_foreign_cores_are_never_negative_and_no_time_is_no_load() -> None:
    first = HostReading(10.0, 100.0, 5.0)
    assert foreign_cores(first, HostReading(12.0, 101.0, 7.0)) == 0.0
    assert foreign_cores(first, first) == 0.0


def test_readings_of_this_host_go_up() -> None:
    first = read_host()
    sum(n * n for n in range(100_000))
    last = read_host()
    assert last.wall > first.wall
    assert last.busy >= first.busy
    assert last.own > first.own
    assert available_cores() >= 1
