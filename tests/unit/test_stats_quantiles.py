"""Limits for quantiles and means of single requests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.quantiles import QUANTILES, mean_on_these, quantile, requests_needed


def limits(answer: Limits | CannotTell) -> Limits:
    assert isinstance(answer, Limits)
    return answer


def test_limits_of_a_median_agree_with_the_sign_test() -> None:
    values = [float(v) for v in range(1, 21)]

    found = limits(quantile(values, 0.5, 0.025, 0.025))

    expected = stats.quantile_test(values, q=10, p=0.5).confidence_interval(0.95)
    assert found == Limits(10.5, expected.low, expected.high)


def test_a_side_that_the_data_cannot_bound_is_open() -> None:
    found = limits(quantile([0.1] * 19 + [0.9], 0.95, 0.001, 0.05))

    assert math.isinf(found.high)
    assert found.low == pytest.approx(0.1)


def test_the_other_side_is_open_for_a_low_quantile() -> None:
    found = limits(quantile([float(v) for v in range(20)], 0.05, 0.05, 0.001))

    assert found.low == -math.inf
    assert math.isfinite(found.high)


def test_both_sides_open_cannot_tell() -> None:
    # 0.5**3 = 0.125: the smallest error rate that three requests reach for a median.
    assert quantile([1.0, 2.0, 3.0], 0.5, 0.1, 0.1) == CannotTell(
        "3 requests bound this quantile on neither side", "4 requests"
    )
    assert quantile([1.0], 0.5, 0.1, 0.1) == CannotTell("1 request bounds this quantile on neither side", "4 requests")
    assert limits(quantile([1.0, 2.0, 3.0, 4.0], 0.5, 0.1, 0.1)) == Limits(2.5, 1.0, 4.0)


@pytest.mark.parametrize(("share", "alpha"), [(0.5, 0.1), (0.9, 0.05), (0.95, 0.001), (0.99, 0.05)])
def test_the_number_of_requests_that_is_asked_for_is_enough_and_one_less_is_not(share: float, alpha: float) -> None:
    needed = requests_needed(share, alpha)

    enough = limits(quantile([float(v) for v in range(needed)], share, 0.4, alpha))
    short = limits(quantile([float(v) for v in range(needed - 1)], share, 0.4, alpha))

    assert math.isfinite(enough.high)
    assert math.isinf(short.high)


@pytest.mark.parametrize("share", QUANTILES.values())
def test_equal_values_are_believed_to_the_resolution_of_a_clock(share: float) -> None:
    found = limits(quantile([0.25] * 2000, share, 0.001, 0.001))

    assert 0.2499 < found.low < found.estimate == 0.25 < found.high < 0.2501


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_limits_miss_no_more_often_than_they_may(share: float) -> None:
    random = np.random.default_rng(7)
    truth = -math.log(1 - share)

    runs = [limits(quantile(random.exponential(size=60), share, 0.05, 0.05)) for _ in range(1000)]

    assert sum(run.low > truth for run in runs) <= 70
    assert sum(run.high < truth for run in runs) <= 70


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], CannotTell("there is no sample", "1 prompt and 2 rounds")),
        ([0.1, math.nan], CannotTell("a sample is not a finite number", "samples without NaN or infinity")),
    ],
)
def test_no_and_broken_samples_are_said(values: list[float], expected: CannotTell) -> None:
    assert quantile(values, 0.5, 0.05, 0.05) == expected
    assert mean_on_these([values], 0.05, 0.05) == expected


def test_a_mean_is_that_of_the_prompts_means() -> None:
    found = limits(mean_on_these([[1.0, 1.1], [4.0, 4.4]], 0.05, 0.05))

    assert found.estimate == pytest.approx((1.05 + 4.2) / 2)
    assert found.low < found.estimate < found.high


def test_long_calls_scatter_by_more_seconds_and_do_not_pass_it_on_to_short_ones() -> None:
    short = limits(mean_on_these([[1.0, 1.1, 0.9]] * 4, 0.05, 0.05))
    long = limits(mean_on_these([[10.0, 11.0, 9.0]] * 4, 0.05, 0.05))

    assert long.high - long.low == pytest.approx(10 * (short.high - short.low))


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([[1.0], [2.0]], CannotTell("one round has no scatter to judge by", "2 rounds")),
        ([[0.0, 1.0]], CannotTell("a time is not positive", "a clock that resolves the shortest call")),
    ],
)
def test_a_mean_of_one_round_or_of_no_time_is_not_told(groups: list[list[float]], expected: CannotTell) -> None:
    assert mean_on_these(groups, 0.05, 0.05) == expected
