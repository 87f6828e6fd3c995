"""What trends claim of simulated histories: false steps, found ones and where, drifts. Writes docs/statistics/trend.md.

python benchmarks/trends.py --seed 0 --series 2000 > docs/statistics/trend.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.stats.changes import Course, course
from pytest_specgate.stats.proportions import exact_limits, upper_limit

Vector = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Vector]
ALPHA = 0.05


def spikes(rng: np.random.Generator, size: int) -> Vector:
    return rng.normal(size=size) + 8.0 * (rng.random(size) < 0.05)


def alike(rng: np.random.Generator, size: int) -> Vector:
    values = rng.normal(size=size)
    for at in range(1, size):
        values[at] = 0.3 * values[at - 1] + np.sqrt(1 - 0.09) * values[at]
    return values


NOISES: dict[str, Noise] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "Student's t, 3 degrees of freedom": lambda rng, size: rng.standard_t(3, size=size),
    "normal, 5 % of the runs 8 σ off": spikes,
    "normal, rounded to whole σ": lambda rng, size: np.round(rng.normal(size=size)),
    "neighbours alike (correlation 0.3)": alike,
}
STEPS = ((30, 20, 2.0), (30, 20, 3.0), (30, 25, 3.0), (60, 40, 1.5), (60, 55, 3.0))
SLOPES = ((40, 2.0), (40, 4.0), (100, 4.0))


@dataclass(slots=True)
class Found:
    """What was claimed of series with one step."""

    any: int = 0
    drifts: int = 0
    single: int = 0
    held: int = 0
    width: int = 0


def claims(told: Course) -> bool:
    return len(told.pieces) > 1 or told.last.slope != 0


def rate(hits: int, trials: int) -> str:
    if not trials:
        return "-"
    if not hits:
        return f"0 of {trials:,} (at most {upper_limit(0, trials):.1%})"
    low, high = exact_limits(hits, trials)
    return f"{hits / trials:.1%} [{low:.1%}, {high:.1%}]"


def false_rows(rng: np.random.Generator, series: int) -> Iterator[str]:
    for name, noise in NOISES.items():
        cells = [rate(sum(claims(course(noise(rng, n), ALPHA)) for _ in range(series)), series) for n in (12, 30, 100)]
        yield f"| {name} | {' | '.join(cells)} |"


def step_rows(rng: np.random.Generator, series: int) -> Iterator[str]:
    for name, noise in list(NOISES.items())[:3]:
        for size, at, height in STEPS:
            found = step(rng, noise, (size, at, height), series)
            place = f"{rate(found.held, found.single)} | {found.width / max(found.single, 1) + 1:.1f}"
            told = f"{rate(found.any, series)} | {rate(found.drifts, series)} | {place}"
            yield f"| {name} | {height:g} σ after {at} of {size} | {told} |"


def step(rng: np.random.Generator, noise: Noise, shape: tuple[int, int, float], series: int) -> Found:
    size, at, height = shape
    found = Found()
    for _ in range(series):
        values = noise(rng, size)
        values[at:] -= height
        told = course(values, 0.01)
        found.any += claims(told)
        found.drifts += any(piece.slope for piece in told.pieces)
        if len(told.changes) == 1 and not any(piece.slope for piece in told.pieces):
            (change,) = told.changes
            found.single += 1
            found.held += change.low <= at <= change.high
            found.width += change.high - change.low
    return found


def slope_rows(rng: np.random.Generator, series: int) -> Iterator[str]:
    for size, height in SLOPES:
        drifts = steps = 0
        for _ in range(series):
            told = course(rng.normal(size=size) - height * np.arange(size) / size, 0.01)
            sloped = any(piece.slope for piece in told.pieces)
            drifts, steps = drifts + sloped, steps + (bool(told.changes) and not sloped)
        yield f"| {height:g} σ over {size} runs | {rate(drifts, series)} | {rate(steps, series)} |"


HEAD = """\
# Steps and drifts in a history

Made by `python benchmarks/trends.py --seed {seed} --series {series}`; do not edit. σ is the scatter of runs of one
code; rates have exact 95 % limits.

A series is split where the largest standardised cumulative sum of its ranks exceeds that of all but a share of its
permuted orders. This is exact for runs that might as well have come in another order, whatever their law. All series of
a report share its error of 5 % equally.

## No change: any step or drift claimed, at an error of {alpha:.0%}

| noise of runs | 12 runs | 30 runs | 100 runs |
|---|---|---|---|"""
MIDDLE = """
Neighbouring runs that are alike (a runner that changes over days) break the promise; `trend` says so where it sees it.
Ratios of interleaved arms hardly have such noise, absolute times do.

## One step, at an error of 1 %

Of the steps that were found as a single one, how often the told range of runs (95 %) holds the first bad run, and how
many runs it has on average.

| noise of runs | step | found | told as a drift | held | runs |
|---|---|---|---|---|---|"""
END = """
## A slope, at an error of 1 %

| slope | told as a drift | told as steps |
|---|---|---|"""


def page(seed: int, series: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    yield HEAD.format(seed=seed, series=series, alpha=ALPHA)
    yield from false_rows(rng, series)
    yield MIDDLE
    yield from step_rows(rng, series)
    yield END
    yield from slope_rows(rng, series)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--series", type=int, default=2000)
    chosen = parser.parse_args()
    for line in page(chosen.seed, chosen.series):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
