"""What each series of a history did: steps with the commits they may lie at, drifts, and the distance from baselines.

The chance that a report claims any step or drift where there is none is ``ERROR`` over all its series, which share it
equally; distances from stored values have 95 % limits each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_specgate.history.series import Point, Series
from pytest_specgate.records import Anchor, Interval
from pytest_specgate.report.since import subject_changes
from pytest_specgate.stats.budget import share
from pytest_specgate.stats.changes import Change, Course, Piece, course, least_runs

ERROR = 0.05
_TAIL = 0.05
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level. ``good`` is the last run before the range that may hold it, ``bad`` the last one in it.

    ``before`` and ``after`` are in the metric's unit, ``change`` is a share or points. ``subject`` is what changed in
    the subject meanwhile: (what, before, after).
    """

    before: float
    after: float
    change: float
    worse: bool
    good: Point
    first: Point
    bad: Point
    runs: int
    subject: tuple[tuple[str, str, str], ...]

    @property
    def last(self) -> Point:
        """The run by which it had happened."""
        return self.bad

    @property
    def same_commit(self) -> bool:
        """Whether both ends are runs of one commit: then it is not the code that changed."""
        return bool(self.good.commit) and self.good.commit == self.bad.commit


@dataclass(frozen=True, slots=True)
class Drift:
    """A slow change without a step, from one run to another; ``change`` is that of the whole way."""

    before: float
    after: float
    change: float
    worse: bool
    first: Point
    last: Point
    runs: int


@dataclass(frozen=True, slots=True)
class Distance:
    """How far the present level lies from a stored value, as a share or in points, with its 95 % limits."""

    recorded: str
    stored: float
    change: Interval
    worse: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """A series and what it did; ``now`` is its present level. ``needed`` runs could show a step, 0 where there are."""

    series: Series
    now: Interval
    steps: tuple[Step, ...]
    drifts: tuple[Drift, ...]
    baseline: Distance | None
    anchor: Distance | None
    needed: int
    alike: float

    @property
    def behind(self) -> bool:
        """Whether the present level lies behind the first baseline.

        Runs too few to show a step show no distance either: where they repeat each other, no scatter tells it.
        """
        return self.anchor is not None and self.anchor.worse and not self.needed

    def worse(self, allow: float) -> bool:
        """Whether the last thing that happened, or the distance from the anchor, is a loss beyond ``allow``."""
        happened: tuple[Step | Drift, ...] = (*self.steps, *self.drifts)
        latest = max(happened, key=lambda one: one.last.run.created, default=None)
        lost = latest is not None and latest.worse and abs(latest.change) > allow
        return lost or (self.anchor is not None and self.behind and abs(self.anchor.change.value) > allow)


def trends(found: Sequence[Series], error: float = ERROR) -> list[Trend]:
    """What every series did; series without a usable run are left out."""
    kept = [one for one in found if one.points]
    return [_trend(one, share(len(kept), error)) for one in kept]


def _trend(one: Series, alpha: float) -> Trend:
    values = [one.scaled(point.value) for point in one.points]
    told = course(values, alpha)
    half = told.half_width(_TAIL)
    level = told.last.level
    ends = (level - half, level + half) if math.isfinite(half) else (level, level)
    last = one.points[-1].case
    needed = least_runs(alpha)
    return Trend(
        series=one,
        now=Interval(*(one.unscaled(value) for value in (level, *ends))),
        steps=tuple(_step(one, change) for change in told.changes),
        drifts=tuple(_drift(one, piece) for piece in told.pieces if piece.slope),
        baseline=_distance(one, told, last.baseline),
        anchor=_distance(one, told, last.anchor),
        needed=needed if len(values) < needed else 0,
        alike=_alike(values, told),
    )


def _alike(values: Sequence[float], told: Course) -> float:
    """Correlation of neighbouring runs about the course, where it is more than chance; else 0."""
    fitted = [p.first + p.slope * step for p in told.pieces for step in range(p.stop - p.start)]
    residuals = np.asarray(values) - np.asarray(fitted)
    total = float(residuals @ residuals)
    if len(values) < 20 or total <= 0:
        return 0.0
    found = float(residuals[1:] @ residuals[:-1]) / total
    return found if found > 2.6 / math.sqrt(len(values)) else 0.0


def _between(one: Series, before: float, after: float) -> float:
    """A change on the scale of noise as people read it: a share of what was, or points."""
    return math.expm1(min(after - before, 700.0)) if one.relative else after - before


def _step(one: Series, change: Change) -> Step:
    good, first, bad = one.points[change.low - 1], one.points[change.at], one.points[change.high]
    return Step(
        before=one.unscaled(change.before),
        after=one.unscaled(change.after),
        change=_between(one, change.before, change.after),
        worse=one.worse(change.after - change.before),
        good=good,
        first=first,
        bad=bad,
        runs=change.high - change.low + 1,
        subject=tuple(subject_changes(good.case.subject, bad.case.subject)),
    )


def _drift(one: Series, piece: Piece) -> Drift:
    return Drift(
        before=one.unscaled(piece.first),
        after=one.unscaled(piece.level),
        change=_between(one, piece.first, piece.level),
        worse=one.worse(piece.slope),
        first=one.points[piece.start],
        last=one.points[piece.stop - 1],
        runs=piece.stop - piece.start,
    )


def _distance(one: Series, told: Course, stored: Anchor | None) -> Distance | None:
    """From a stored value, which is taken to be as noisy as one run."""
    value = None if stored is None else stored.values.get(one.label)
    if stored is None or value is None or (one.relative and value <= 0):
        return None
    before, level, half = one.scaled(value), told.last.level, told.against(_TAIL)
    ends = [level - half, level + half] if math.isfinite(half) else [-math.inf, math.inf]
    change = Interval(*(_between(one, before, end) for end in (level, *ends)))
    # Baselines are stored to six digits: what differs beyond them differs in nothing.
    certain = abs(level - before) > _ROUNDING * max(1.0, abs(before)) and (change.high < 0 or change.low > 0)
    return Distance(stored.recorded, value, change, certain and one.worse(level - before))
