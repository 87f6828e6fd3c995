"""Steps and drifts in series of runs: what is claimed of noise alone, what is found, and where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_specgate.stats.changes import Course, course, least_runs
from pytest_specgate.stats.proportions import exact_limits

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]


def spikes(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    return rng.normal(size=size) + 8.0 * (rng.random(size) < 0.05)


NOISES: dict[str, Noise] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_t(2, size=size),
    "spikes": spikes,
    "ties": lambda rng, size: np.round(rng.normal(size=size)),
}


def claims(told: Course) -> bool:
    return len(told.pieces) > 1 or told.last.slope != 0


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_noise_alone_is_called_a_change_no_more_often_than_promised(noise: Noise) -> None:
    rng, alpha, series = np.random.default_rng(7), 0.1, 400

    false = sum(claims(course(noise(rng, size), alpha)) for size in (12, 40) for _ in range(series // 2))

    assert exact_limits(false, series, 0.998)[0] <= alpha


def test_the_promise_is_not_kept_by_claiming_nothing() -> None:
    rng = np.random.default_rng(8)

    false = sum(claims(course(rng.normal(size=40), 0.1)) for _ in range(400))

    assert exact_limits(false, 400, 0.998)[1] >= 0.05


@pytest.mark.parametrize("noise", ["normal", "spikes"])
def test_a_step_is_found_and_its_place_lies_in_the_range(noise: str) -> None:
    rng, found, held = np.random.default_rng(9), 0, 0
    for _ in range(100):
        values = NOISES[noise](rng, 40)
        values[28:] -= 4.0
        told = course(values, 0.01)
        if len(told.changes) == 1:
            found += 1
            held += told.changes[0].low <= 28 <= told.changes[0].high

    assert found >= 85
    assert held >= 0.9 * found


def test_two_steps_are_two_and_a_slope_is_a_drift() -> None:
    rng, steps, drifts = np.random.default_rng(10), 0, 0
    for _ in range(30):
        stairs = rng.normal(size=45) - 4.0 * (np.arange(45) >= 15) - 4.0 * (np.arange(45) >= 30)
        told = course(stairs, 0.01)
        steps += len(told.changes) == 2 and not any(piece.slope for piece in told.pieces)
        drifts += course(rng.normal(size=60) - 0.1 * np.arange(60), 0.01).last.slope < -0.05

    assert steps >= 24
    assert drifts >= 27


def test_exact_values_change_where_they_change() -> None:
    told = course([0.62] * 9 + [0.60] * 5, 0.01)

    (change,) = told.changes
    assert (change.at, change.low, change.high) == (9, 9, 9)
    assert (change.before, change.after) == pytest.approx((0.62, 0.60))
    assert told.half_width(0.05) == pytest.approx(0.0)


def test_the_same_series_gets_the_same_answer() -> None:
    values = np.random.default_rng(11).normal(size=30).tolist()
    values[18:] = [value - 2.0 for value in values[18:]]

    assert course(values, 0.05) == course(values, 0.05)


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [1.0, 1.0, 5.0, 5.0], [3.0] * 50])
def test_too_few_runs_or_no_scatter_claim_nothing(values: list[float]) -> None:
    assert not claims(course(values, 0.01))


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_the_least_number_of_runs_suffices_for_a_perfect_step(alpha: float) -> None:
    size = least_runs(alpha)
    low, high = range(size // 2), range(1000, 1000 + size - size // 2)

    assert claims(course([*low, *high], alpha))
    assert not claims(course([*low, *high][: size // 2 + 2], alpha))


def test_one_run_alone_is_no_level() -> None:
    values = [*np.random.default_rng(13).normal(size=30), 40.0]

    assert not claims(course(values, 0.05))
