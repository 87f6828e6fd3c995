"""Limits for ratios of counts that cluster by conversation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.rates import paired_rate_change, pooled_rate, pooled_slope, slope_part

ENOUGH = "2 conversations, better 16"
FINITE = "counts without NaN or infinity"


def limits(answer: Limits | CannotTell) -> Limits:
    assert isinstance(answer, Limits)
    return answer


def decay(texts: dict[str, list[tuple[float, float, float]]]) -> Limits | CannotTell:
    """The slope of texts, each given as (doublings of context, hits, trials)."""
    parts = [part for text in texts.values() if (part := slope_part(*zip(*text))) is not None]
    hits, trials = (sum(event[at] for text in texts.values() for event in text) for at in (1, 2))
    return pooled_slope(parts, (hits, trials), 0.05, 0.05)


def test_the_rate_is_the_ratio_of_sums_and_not_the_mean_of_ratios() -> None:
    assert limits(pooled_rate([90, 1], [100, 10], 0.05, 0.05)).estimate == pytest.approx(91 / 110)


def test_conversations_of_equal_length_give_the_t_interval_of_their_rates() -> None:
    hits = [60, 70, 40, 55, 80]

    found = limits(pooled_rate(hits, [100] * 5, 0.025, 0.025))

    expected = stats.ttest_1samp(np.divide(hits, 100), 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_conversations_that_agree_are_no_more_certain_than_their_number_of_tokens() -> None:
    found = limits(pooled_rate([50] * 8, [100] * 8, 0.05, 0.05))

    assert found.estimate == 0.5
    assert found.high - found.low > 2 * stats.norm.isf(0.05) * math.sqrt(0.25 / 800)


@pytest.mark.parametrize(("hits", "rate"), [([0] * 8, 0.0), ([100] * 8, 1.0)])
def test_none_and_all_accepted_are_not_certain(hits: list[float], rate: float) -> None:
    found = limits(pooled_rate(hits, [100] * 8, 0.05, 0.05))

    assert found.estimate == rate
    assert found.low < rate < found.high


def test_more_than_one_accepted_a_round_is_no_share_and_has_limits_too() -> None:
    found = limits(pooled_rate([250] * 8, [100] * 8, 0.05, 0.05))

    assert found.low < found.estimate == 2.5 < found.high


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (pooled_rate([], [], 0.05, 0.05), CannotTell("nothing was tested", "a run in which drafts are made")),
        (pooled_rate([0, 0], [0, 0], 0.05, 0.05), CannotTell("nothing was tested", "a run in which drafts are made")),
        (pooled_rate([5, 0], [10, 0], 0.05, 0.05), CannotTell("one conversation says nothing about others", ENOUGH)),
        (pooled_rate([math.nan, 1], [2, 2], 0.05, 0.05), CannotTell("a count is not a finite number", FINITE)),
        (paired_rate_change([], [], 0.05, 0.05), CannotTell("too few conversations that both runs share", ENOUGH)),
        (
            paired_rate_change([(1, 2), (1, 2)], [(1, 2), (0, 0)], 0.05, 0.05),
            CannotTell("too few conversations that both runs share", ENOUGH),
        ),
        (
            paired_rate_change([(math.nan, 2), (1, 2)], [(1, 2), (1, 2)], 0.05, 0.05),
            CannotTell("a count is not a finite number", FINITE),
        ),
        (
            decay({"a": [(1, 5, 10)], "b": [(2, 4, 10)]}),
            CannotTell("too few conversations span different contexts", "2 conversations of several depths each"),
        ),
    ],
)
def test_too_little_or_broken_data_is_said(answer: Limits | CannotTell, expected: CannotTell) -> None:
    assert answer == expected


def test_a_change_is_that_of_the_same_conversations() -> None:
    stored = [(20, 100), (60, 100), (90, 100)]
    now = [(15, 100), (55, 100), (85, 100)]

    found = limits(paired_rate_change(now, stored, 0.05, 0.05))

    assert found.estimate == pytest.approx(-0.05)
    # Conversations differ by 0.7, their changes not at all: only the tokens' own error is left.
    assert found.high - found.low < 0.25


def test_no_change_has_a_change_of_none_with_room_on_both_sides() -> None:
    found = limits(paired_rate_change([(50, 100)] * 4, [(50, 100)] * 4, 0.05, 0.05))

    assert found.low < found.estimate == 0 < found.high


def test_limits_hold_for_acceptance_that_clusters_by_conversation() -> None:
    random = np.random.default_rng(6)
    below = above = 0
    for _ in range(1000):
        trials = random.integers(50, 300, 16)
        hits = random.binomial(trials, np.clip(random.normal(0.6, 0.1, 16), 0, 1))
        found = limits(pooled_rate(hits, trials, 0.05, 0.05))
        below, above = below + (found.low > 0.6), above + (found.high < 0.6)

    assert 25 <= below <= 80
    assert 25 <= above <= 80


def test_decay_is_judged_inside_each_conversation() -> None:
    # Prompts that reach far are the easier ones: pooled, acceptance would rise with context.
    easy = [(10, 90, 100), (11, 86, 100), (12, 82, 100)]
    hard = [(5, 40, 100), (6, 36, 100), (7, 32, 100)]

    found = limits(decay({"easy": easy, "hard": hard}))

    assert found.estimate == pytest.approx(-0.04)
    assert found.low < -0.04 < found.high


def test_a_conversation_of_one_depth_tells_no_slope_and_does_no_harm() -> None:
    two = {"a": [(1, 8, 10), (2, 6, 10)], "b": [(1, 7, 10), (2, 6, 10)]}
    more = {**two, "c": [(3, 1, 10)], "d": [(4, 9, 10), (4, 1, 10)]}

    assert limits(decay(more)).estimate == pytest.approx(limits(decay(two)).estimate)
