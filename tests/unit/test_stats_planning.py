"""What an amount of data can resolve, how much would decide, and how error rates are shared out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_specgate.stats.budget import PER_BUILD, share
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.stats.paired import within_prompts
from pytest_specgate.stats.samplesize import amount_to_decide, resolvable_loss, scatter_of
from pytest_specgate.stats.signedrank import stored_median_factor


@pytest.mark.parametrize(("checks", "each"), [(1, 0.01), (20, 0.0005), (0, 0.01)])
def test_a_build_s_error_is_shared_equally(checks: int, each: float) -> None:
    assert share(checks) == pytest.approx(each)
    assert share(checks, 2 * PER_BUILD) == pytest.approx(2 * each)


@pytest.mark.parametrize(
    ("most", "rounds"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))]
)
def test_looks_double_up_to_the_most(most: int, rounds: tuple[int, ...]) -> None:
    assert doubling(most) == Looks(rounds)
    assert (doubling(most).most, doubling(most).count) == (most, len(rounds))


@pytest.mark.parametrize(
    ("done", "taken"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (5, (1, 2, 4, 5)), (8, (1, 2, 4, 8))]
)
def test_a_run_cut_short_takes_no_more_looks_than_planned(done: int, taken: tuple[int, ...]) -> None:
    assert doubling(8).taken(done) == taken
    assert len(taken) <= doubling(8).count


@pytest.mark.parametrize(("scatter", "loss"), [(0.01, 0.006), (0.03, 0.017), (0.05, 0.028), (0.10, 0.055)])
def test_the_resolvable_loss_grows_with_scatter(scatter: float, loss: float) -> None:
    factor = stored_median_factor(8, 16)

    assert resolvable_loss(scatter, 128, factor, 0.001 / doubling(8).count) == pytest.approx(loss, abs=6e-4)


def test_no_scatter_and_no_pairs_are_no_fault() -> None:
    assert resolvable_loss(0.0, 16, 1.0, 0.001) == 0.0
    assert 0 < resolvable_loss(0.05, 0, 1.0, 0.001) < 1


def test_the_rounds_that_are_named_do_decide() -> None:
    random, gap = np.random.default_rng(2), 0.01
    few = within_prompts(random.normal(0, 0.05, (16, 4)).tolist(), 0.001, 0.001)
    needed = amount_to_decide(4, few.high - few.estimate, gap)  # type: ignore[union-attr]
    assert needed is not None

    many = within_prompts(random.normal(0, 0.05, (16, needed)).tolist(), 0.001, 0.001)

    assert many.high - many.estimate == pytest.approx(gap, rel=0.25)  # type: ignore[union-attr]


@pytest.mark.parametrize(("half", "gap"), [(0.1, 0.0), (0.1, -1.0), (math.inf, 0.1)])
def test_no_amount_decides_a_value_at_its_bound_or_an_unknown_limit(half: float, gap: float) -> None:
    assert amount_to_decide(4, half, gap) is None


def test_at_least_one_more_is_asked_for() -> None:
    assert amount_to_decide(4, 0.1, 0.2) == 5


def test_spikes_do_not_move_the_scatter() -> None:
    values = np.random.default_rng(3).normal(0, 0.03, 400)
    values[:8] += 5

    assert scatter_of(values.tolist()) == pytest.approx(0.03, rel=0.15)
    assert scatter_of([]) == 0.0
