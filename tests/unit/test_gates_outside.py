"""Greedy exactness of servers: the noise that the reference arm shows, and what is a fault beyond it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.gates.noise import LEAST_OUTSIDE, tolerance
from pytest_specgate.logits import Between, Choices, Control, Divergence, Scores, TextRegrets
from pytest_specgate.measure.margins import rescored
from pytest_specgate.measure.outside import control_from
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.stats.choosing import beyond, more_than, reach, upper_scale
from tests.unit.judging import gate, samples, verdict

EXACT = gate("greedy_exactness", limit="==100%")
CONTROL = Control(2000, 5, 0.0, 0.0, 0.0, 0, False, 0.0, 0.0, Between(0.02, 0.2, 0.1))
QUIET = (0.0,) * 200


def judged(
    own: tuple[float, ...], theirs: tuple[float, ...] = QUIET, control: Control = CONTROL, **changes: Any
) -> Verdict:
    """Two texts of 200 tokens whose last ones are each arm's own: ``own`` are the candidate's regrets there."""

    def text(regrets: tuple[float, ...]) -> TextRegrets:
        whole = (*QUIET[len(regrets) :], *regrets)
        return TextRegrets("p", whole, own=tuple(range(200 - len(regrets), 200)))

    parting = Divergence("p", 200 - len(own), 1, 2, -0.1, 0.0)
    found = Choices((text(own),), (text(theirs),), (parting,), 0, control, control_fresh=True, **changes)
    return verdict(EXACT, replace(samples({}), choices=found))


def test_the_noise_of_a_server_is_never_taken_for_less_than_its_kernels_may_differ() -> None:
    assert tolerance(CONTROL, "served") == LEAST_OUTSIDE
    loud = replace(CONTROL, between=Between(0.08, 0.2, 0.4))
    assert tolerance(loud, "served") == pytest.approx(0.08 * 6.23, rel=0.01)


@pytest.mark.parametrize(
    ("own", "outcome", "says"),
    [
        ((), Outcome.PASS, "all 200 tokens are those that the reference server chose"),
        ((0.0, 0.1, 0.0), Outcome.PASS, "(3 differ from the reference server's, 1 near ties)"),
        ((0.0, 0.3, 0.0), Outcome.INCONCLUSIVE, "one of 200 tokens lies beyond the noise"),
        ((0.3, 0.3, 0.0), Outcome.FAIL, "2 of 200 tokens are not the target's choice"),
        ((6.0, 0.0, 0.0), Outcome.FAIL, "1 of 200 tokens are not the target's choice: p, output token 198, lies 6"),
        ((0.1,) * 60, Outcome.FAIL, "60 of the 60 tokens that differ from the reference server's lie below"),
    ],
)
def test_only_what_the_reference_did_not_choose_is_judged(own: tuple[float, ...], outcome: Outcome, says: str) -> None:
    found = judged(own)
    assert (found.outcome, says in found.reason) == (outcome, True), found.reason


def margins(*of: float) -> Scores:
    return Scores((0.0,) * len(of), (1,) * len(of), tuple(-one for one in of), (0.0,) * len(of))


@pytest.mark.parametrize(
    ("again", "half", "note"),
    [
        ((0.5, 1.0), (0.5,), "; asked again, and in shorter forwards, the scores are the same to the last digit"),
        (
            (0.5, 1.0),
            (0.625,),
            (
                "; asked again, or in shorter forwards, margins differ by up to 0.12 logits: "
                "the scorer's kernels are not batch-invariant"
            ),
        ),
        (
            (0.5, 1.25),
            (0.5,),
            (
                "; asked again, or in shorter forwards, margins differ by up to 0.25 logits: "
                "the scorer's kernels are not batch-invariant"
            ),
        ),
    ],
)
def test_the_control_says_whether_scores_depend_on_the_forward(
    again: tuple[float, ...], half: tuple[float, ...], note: str
) -> None:
    made = rescored(CONTROL, [margins(0.5, 1.0)], [margins(*again)], [margins(*half)])
    (said, *_) = judged((), control=made).warnings
    assert said == f"control: 2000 tokens of the reference server, the worst 0.1 logits off{note}"
    assert tolerance(made, "served") == tolerance(CONTROL, "served")


def test_a_control_that_nobody_asked_again_says_nothing_of_it() -> None:
    assert judged(()).warnings[0] == "control: 2000 tokens of the reference server, the worst 0.1 logits off"


def test_a_token_of_the_reference_excuses_one_as_bad() -> None:
    worse = replace(CONTROL, between=Between(0.02, 0.2, 0.4))
    assert judged((0.3, 0.3), control=worse).outcome is Outcome.PASS


def test_what_only_a_far_token_of_the_reference_excuses_is_no_pass() -> None:
    far = replace(CONTROL, between=Between(0.02, 0.2, 3.0))
    found = judged((0.7, 0.7), control=far)
    assert (found.outcome, "within 3 logits of noise" in found.reason) == (Outcome.PASS, True), found.reason
    found = judged((2.0, 2.0), control=far)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reason == (
        "greedy exactness: no token lies farther off than one of the reference server's own (3 logits), which hides "
        "faults: p, output token 199, lies 2 logits below it, and its noise is 0.25"
    )
    assert found.checks[0].needed == "score with the server's own weights and dtype, or by the server itself"


def test_a_wrong_reference_blames_nobody() -> None:
    found = judged((6.0,), (6.0, 6.0), replace(CONTROL, between=Between(0.02, 0.2, 6.0)))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "the reference arm fails the same test" in found.reason


def test_a_loud_scorer_cannot_pass_and_still_fails_what_is_far_off() -> None:
    loud = replace(CONTROL, between=Between(0.3, 0.2, 1.0))
    assert judged((0.5,), control=loud).outcome is Outcome.INCONCLUSIVE
    assert "server and scorer disagree by up to" in judged((0.5,), control=loud).reason
    assert judged((9.0,), control=loud).outcome is Outcome.FAIL


# --- the noise, told by choices ---


def drawn(source: random.Random, tokens: int, noise: Callable[[], float]) -> tuple[list[float], list[float]]:
    """(margins of what both choose, regrets of what the scorer would not): a third of the tokens nearly tie."""
    kept, flips = list[float](), list[float]()
    for _ in range(tokens):
        gap = source.expovariate(0.5) if source.random() < 0.35 else 3 + source.expovariate(0.25)
        (flips if noise() > gap else kept).append(gap)
    return kept, flips


def test_a_sample_without_a_flip_bounds_the_noise_too() -> None:
    kept, flips = drawn(random.Random(3), 2000, lambda: 0.0)
    assert flips == []
    assert 0.005 < upper_scale(kept, flips) < 0.05


@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_the_upper_limit_lies_above_the_noise_and_not_far(sigma: float) -> None:
    source = random.Random(5)
    kept, flips = drawn(source, 2000, lambda: source.gauss(0, sigma))
    # Half of a normal's spread: an exponential law with as much in its tail beyond one sigma.
    assert 0.5 * sigma < upper_scale(kept, flips) < 2 * sigma


@pytest.mark.parametrize("sigma", [0.01, 0.12, 0.3])
def test_right_software_fails_next_to_never(sigma: float) -> None:
    """Both arms' choices are the target's with fresh noise: of 60 builds none may fail."""
    source, failed = random.Random(11), 0
    for _ in range(60):
        kept, flips = drawn(source, 600, lambda: source.gauss(0, sigma))
        scale = upper_scale(kept, flips)
        small = sum(gap < 2 for gap in (*kept, *flips)) / 1200
        noise = max(LEAST_OUTSIDE, reach(600, small, scale, 1e-3**0.5), *flips)
        _, again = drawn(source, 600, lambda: source.gauss(0, sigma))
        failed += sum(regret > noise for regret in again) > 1 or max(again, default=0) > 2 * noise
    assert failed == 0


def test_reach_is_where_the_expected_number_is_met() -> None:
    assert beyond(1000, 0.2, 0.1, reach(1000, 0.2, 0.1, 0.03)) == pytest.approx(0.03)
    assert reach(10, 0.1, 0.01, 1.0) == 0.0
    assert (more_than(0, 3.0), round(more_than(1, 3.0), 4)) == (1.0, 0.9502)


def test_a_control_is_made_of_the_reference_texts() -> None:
    text = Scores((0.0, 0.0, -0.1), (1, 2, 3), (-0.5, -3.0, -0.2), (0.0, 0.0, -0.4))
    found = control_from([text, text], 5)
    assert found.tokens == 6
    assert found.between is not None
    assert found.between.worst == pytest.approx(0.3)
    assert found.between.density == pytest.approx(4 / 6 / 2)
