"""Exact limits of a share, against published values and the binomial law itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_specgate.stats.proportions import exact_limits, upper_limit


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 20, 0.0, 0.1684), (1, 10, 0.0025, 0.4450), (5, 10, 0.1871, 0.8129), (20, 20, 0.8316, 1.0)],
)
def test_known_limits(hits: int, trials: int, low: float, high: float) -> None:
    assert exact_limits(hits, trials) == pytest.approx((low, high), abs=5e-5)


def test_nothing_of_n_is_the_rule_of_three() -> None:
    assert upper_limit(0, 20) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert upper_limit(0, 59) < 0.05 < upper_limit(0, 58)
    assert upper_limit(0, 299) < 0.01 < upper_limit(0, 298)
    assert upper_limit(7, 7) == 1.0


@given(trials=st.integers(1, 400), data=st.data())
def test_a_limit_leaves_its_tail(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    low, high = exact_limits(hits, trials)
    assert low <= hits / trials <= high
    if hits:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.025, rel=1e-6)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(0.025, rel=1e-6)
        assert binom.cdf(hits, trials, upper_limit(hits, trials)) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize(("hits", "trials"), [(0, 0), (2, 1), (-1, 3)])
def test_what_is_no_share(hits: int, trials: int) -> None:
    message = f"{hits} of {trials} is no share — count at least one trial, and no more hits than trials"
    with pytest.raises(ValueError, match=message):
        exact_limits(hits, trials)
