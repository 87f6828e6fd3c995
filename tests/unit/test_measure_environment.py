"""The table of rules and its page, and the rules about the pairs' own times, each broken and held."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.measure.environment import RULES, examine, notes
from pytest_specgate.measure.readings import Observed
from pytest_specgate.records import Finding, Round
from tests.unit.observing import finding, pair, pairs

PAGE = Path(__file__).parents[2] / "docs" / "environment.md"


def test_names_are_unique_and_findings_come_in_table_order() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [found.rule for found in examine(Observed(pairs((1.0, 0.5))))] == names


def test_the_page_shows_the_table_as_it_is() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert rows == [
        "| rule | what is looked at | threshold | the finding says |",
        *(f"| {rule.name} | {rule.looks_at} | {rule.threshold} | {rule.says} |" for rule in RULES),
    ]


def test_one_round_and_no_readings_hold_every_rule_and_say_why() -> None:
    found = examine(Observed(pairs((1.0, 0.5))))
    assert all(one.held and not one.noted for one in found)
    assert {one.rule: one.detail for one in found} == {
        "reference drift": "one round only: no drift to see",
        "pair noise": "one round only: no noise to see",
        "fresh starts": "the arms run side by side",
        "warm start": "one round only: nothing to compare the first call with",
        "order effect": "too few rounds: no effect of the order to see",
        "foreign load": "nothing was read",
        "CPU frequency": "nothing was read",
        "GPU clock events": "nothing was read",
        "SM clock": "nothing was read",
        "foreign GPU work": "nothing was read",
        "compilation": "nothing was read",
        "device allocations": "nothing was read",
        "other traffic": "no server was asked",
        "prefix cache": "no server was asked",
        "cold prompts": "no server was asked",
        "preemptions": "no server was asked",
        "arrivals": "no server was asked",
        "clock steps": "cannot be told: the clocks were not read",
    }


def test_only_what_is_noted_becomes_a_warning() -> None:
    found = (Finding("a", True, "fine"), Finding("b", True, "odd", noted=True), Finding("c", False, "bad"))
    assert notes(found) == ("b: odd",)


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


@pytest.mark.parametrize(("rounds", "held"), [((4, 8), True), ((4, 4), False)])
def test_texts_that_take_other_numbers_of_rounds_are_no_noise(rounds: tuple[int, int], held: bool) -> None:
    drawn = [
        replace(one, candidate=replace(one.candidate, rounds=(Round(3, 2, 1, 2, 0),) * count))
        for count, seconds in zip(rounds, (0.5, 1.0))
        for one in pairs((1.0, seconds))
    ]
    assert finding("pair noise", Observed(drawn)).held is held


@pytest.mark.parametrize(("arm", "first"), [("reference", (1.6, 0.5)), ("candidate", (1.0, 0.8))])
def test_a_cold_first_call_of_either_arm(arm: str, first: tuple[float, float]) -> None:
    cold = [pair("q0", 0, *first), *pairs((1.0, 0.5), (1.0, 0.5))[1:]]
    found = finding("warm start", Observed(cold))
    assert found == Finding("warm start", False, "first call 1.60x its later ones (at most 1.5x)"), arm


def test_a_warm_first_call() -> None:
    found = finding("warm start", Observed(pairs((1.2, 0.5), (1.0, 0.5))))
    assert found == Finding("warm start", True, "first call 1.20x its later ones (at most 1.5x)")


def _ordered(effect: float, prompts: int = 8, rounds: int = 4, noise: float = 0.01) -> Observed:
    """Alternating pairs whose candidate is faster by ``effect`` where the reference arm goes first."""
    rng = random.Random(5)
    made = []
    for number in range(rounds):
        for n in range(prompts):
            order = "AB" if (n + number) % 2 == 0 else "BA"
            factor = (1 + effect if order == "AB" else 1.0) * (1 + rng.gauss(0, noise))
            made.append(pair(f"q{n}", number, factor * (1 + n / 10), 0.5 * (1 + n / 10), order))
    return Observed(made)


def test_an_order_effect_is_noted_and_never_broken() -> None:
    found = finding("order effect", _ordered(0.03))
    assert (found.held, found.noted) == (True, True)
    assert found.detail.startswith("pairs that the reference arm began: ratio +")
    assert found.detail.endswith("; alternating orders cancel it")
    assert "ratio +2." in found.detail or "ratio +3." in found.detail


@pytest.mark.parametrize("effect", [0.0, 0.002])
def test_no_order_effect_or_a_tiny_one_is_no_note(effect: float) -> None:
    found = finding("order effect", _ordered(effect, noise=0.0001 if effect else 0.01))
    assert (found.held, found.noted) == (True, False)
    assert "alternating" not in found.detail


def test_an_exact_clock_shows_an_exact_order_effect() -> None:
    assert finding("order effect", _ordered(0.03, noise=0.0)).noted
    assert finding("order effect", _ordered(0.0, noise=0.0)).noted is False


def test_few_degrees_of_freedom_tell_nothing_about_the_order() -> None:
    found = finding("order effect", _ordered(0.5, prompts=4, rounds=2))
    assert found == Finding("order effect", True, "too few rounds: no effect of the order to see")


def test_calls_that_took_no_time_have_no_ratio_and_break_nothing() -> None:
    still = [pair("q0", number, 0.0, 0.0) for number in range(3)]
    found = {one.rule: one for one in examine(Observed(still))}
    assert found["pair noise"].detail == "one round only: no noise to see"
    assert found["order effect"].detail == "too few rounds: no effect of the order to see"
    assert all(one.held for one in found.values())
