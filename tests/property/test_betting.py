"""Bets against scores: how often they are wrong, how soon they are right, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate.stats.betting import BETS, shift, stake

DEVIATIONS = st.lists(st.floats(-1, 1), min_size=1, max_size=60)


def chances(random: np.random.Generator, streams: int, tokens: int) -> np.ndarray:
    """Deviations of a yes-or-no score whose chance changes from token to token, as top-1's does."""
    expected = random.beta(1.2, 0.8, (streams, tokens))
    return (random.random((streams, tokens)) < expected) - expected


def test_right_streams_are_blamed_no_more_often_than_allowed() -> None:
    """1,000 streams of 400 tokens, the highest capital at any time against 1/0.05: at most 50."""
    random = np.random.default_rng(1)
    wrong = sum(
        stake({"draft": one, "top1": two, "rank": three}, 0.0, 0.05).won_at is not None
        for one, two, three in zip(*(chances(random, 1000, 400) for _ in range(3)))
    )
    assert 0 < wrong <= 50


def test_a_shift_within_the_margin_is_never_blamed_however_long_it_lasts() -> None:
    random = np.random.default_rng(2)
    for stream in chances(random, 40, 20000):
        assert stake({"top1": np.clip(stream + 0.005, -1, 1)}, 0.005, 0.001).won_at is None


def test_shifts_are_found_in_the_number_of_tokens_that_their_size_asks_for() -> None:
    random = np.random.default_rng(3)
    for size, tokens in ((0.2, 400), (0.05, 6000)):
        for stream in chances(random, 20, tokens):
            found = stake({"top1": np.clip(stream + size, -1, 1), "rank": np.zeros(tokens)}, 0.005, 0.001)
            assert (found.score, found.sign) == ("top1", 1)
            assert found.won_at is not None
            assert found.won_at <= found.peak_at <= tokens


@given(DEVIATIONS, st.floats(0, 0.5))
def test_the_capital_is_what_the_bets_multiply_to(deviations: list[float], margin: float) -> None:
    found = stake({"rank": deviations}, margin, 0.5)
    capitals = [
        [math.prod(1 + bet * (sign * d - margin) for d in deviations[: n + 1]) for n in range(len(deviations))]
        for bet in BETS
        for sign in (1, -1)
    ]
    mean = [sum(column) / len(column) for column in zip(*capitals)]
    assert math.exp(found.log_peak) == pytest.approx(max(mean))
    assert mean[found.peak_at - 1] == pytest.approx(max(mean))
    if found.won_at is not None:
        assert max(mean[: found.won_at - 1], default=0) <= 2.0 <= mean[found.won_at - 1] * (1 + 1e-9)


@given(DEVIATIONS)
@settings(max_examples=50)
def test_the_other_direction_is_the_other_sign(deviations: list[float]) -> None:
    one, other = (stake({"top1": ds}, 0.005, 0.001) for ds in (deviations, [-d for d in deviations]))
    assert one.log_peak == pytest.approx(other.log_peak)
    if one.log_peak > 0.01:
        assert (one.score, one.sign) == (other.score, -other.sign)


def test_a_part_has_bets_of_its_own_that_rest_meanwhile() -> None:
    marks = [n % 10 == 9 for n in range(1000)]
    deviations = [0.5 if marked else (0.5 if n % 2 else -0.5) for n, marked in enumerate(marks)]
    whole, with_part = (stake({"top1": deviations}, 0.005, 0.001, parts) for parts in (None, {"b": marks}))
    assert with_part.won_at == 460  # 46 marked tokens
    assert whole.won_at is None or whole.won_at > 460
    assert (with_part.part, with_part.sign) == ("b", 1)


def test_a_part_begins_with_a_quarter_of_the_capital() -> None:
    found = stake({"top1": [0.5, 0.5]}, 0.0, 0.5, {"b": [False, True]})
    whole = sum((1 + sign * bet / 2) ** 2 for bet in BETS for sign in (1, -1)) / 6
    part = sum(1 + sign * bet / 2 for bet in BETS for sign in (1, -1)) / 6
    assert math.exp(found.log_peak) == pytest.approx((3 * whole + part) / 4)


def test_no_data_is_refused_and_so_is_what_no_score_gives() -> None:
    with pytest.raises(ValueError, match="no token was scored — score at least one"):
        stake({}, 0.005, 0.001)
    with pytest.raises(ValueError, match="no token was scored — score at least one"):
        stake({"rank": []}, 0.005, 0.001)
    with pytest.raises(ValueError, match="no token was scored — score at least one"):
        shift([], [])
    for bad in (1.01, -2.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"a deviation of rank is no number from -1 to 1 — scores lie in \[0, 1\]"):
            stake({"rank": [0.1, bad]}, 0.005, 0.001)
    with pytest.raises(ValueError, match="a margin of 1 cannot be bet against — give one from 0 to below 1"):
        stake({"rank": [0.1]}, 1.0, 0.001)
    with pytest.raises(ValueError, match="scores of the same tokens are equally many — found 1 and 2"):
        stake({"rank": [0.1], "top1": [0.1, 0.2]}, 0.005, 0.001)


def test_a_mean_has_the_error_of_its_variances() -> None:
    found = shift([0.5, -0.25, 0.25, 0.5], [0.25] * 4)
    assert (found.mean, found.error) == (0.25, 0.25)
