"""Runs in order, question by question: one series for each case, place, workload and metric.

A series never mixes machines or workloads: what changed there is no change of the code. Times of runs whose environment
rules were broken are left out, as gates leave them undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.history.record import CaseLine, RunLine
from pytest_specgate.labels import in_order, metric_of, split
from pytest_specgate.metrics import Better, Family, Metric
from pytest_specgate.records import Outcome

_TIMED = frozenset({Family.SPEEDUP, Family.LATENCY})


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a case."""

    run: RunLine
    case: CaseLine
    value: float

    @property
    def commit(self) -> str:
        """Its commit, empty where unknown."""
        return self.run.source.commit


@dataclass(frozen=True, slots=True)
class Series:
    """One number of one case over the runs of one place and workload.

    ``label`` is the metric, or a gate on another of its statistics. ``relative`` says that changes are told as factors;
    shares, slopes and scores change by points. ``other_workloads`` counts runs of the case that were asked something
    else, ``broken`` those left out for a broken environment rule.
    """

    suite: str
    case: str
    place: str
    label: str
    points: tuple[Point, ...]
    relative: bool
    other_workloads: int = 0
    broken: int = 0

    @property
    def metric(self) -> Metric:
        """The metric's definition."""
        return metric_of(self.label)

    def scaled(self, value: float) -> float:
        """The value on the scale on which noise is even: its logarithm where changes are factors."""
        return math.log(value) if self.relative else value

    def unscaled(self, value: float) -> float:
        """Back from the scale of :meth:`scaled`."""
        return math.exp(min(value, 700.0)) if self.relative else value

    def worse(self, change: float) -> bool:
        """Whether a change on the scale of :meth:`scaled` is for the worse."""
        better = self.metric.better
        return change != 0 if better is Better.NEITHER else (change < 0) == (better is Better.HIGHER)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which series to look at: metrics by name (those that gates judge where empty), parts of case ids, a branch.

    ``since`` is the start of a commit, or of a date; earlier runs are left out.
    """

    metrics: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    branch: str = ""
    since: str = ""


def chosen_runs(runs: Sequence[RunLine], choice: Choice) -> list[RunLine]:
    """The runs of the branch from ``since`` on; a commit that no run has leaves none."""
    kept = [run for run in runs if not choice.branch or run.source.branch == choice.branch]
    if not choice.since:
        return kept
    commits = (number for number, run in enumerate(kept) if run.source.commit.startswith(choice.since))
    if (first := next(commits, None)) is not None:
        return kept[first:]
    dated = choice.since[:4].isdecimal() and "-" in choice.since
    return [run for run in kept if run.created >= choice.since] if dated else []


def series(runs: Sequence[RunLine], choice: Choice) -> list[Series]:
    """Every series with a value, by suite, case and place, metrics in the order of the table."""
    by_case: dict[tuple[str, str, str], list[tuple[RunLine, CaseLine]]] = {}
    for run in chosen_runs(runs, choice):
        for case in run.cases:
            if not choice.cases or any(part in case.case for part in choice.cases):
                by_case.setdefault((case.suite, case.case, case.place.slug), []).append((run, case))
    return [one for key, taken in by_case.items() for one in _of_case(key, taken, choice)]


def _of_case(key: tuple[str, str, str], taken: Sequence[tuple[RunLine, CaseLine]], choice: Choice) -> Iterator[Series]:
    latest = taken[-1][1].workload
    same = [(run, case) for run, case in taken if case.workload == latest]
    for label in _labels((case for _, case in same), choice):
        metric = metric_of(label)
        timed = metric.family in _TIMED
        valued = [(run, case) for run, case in same if label in case.values]
        kept = [(run, case) for run, case in valued if not (timed and case.broken)]
        if valued:
            points = tuple(Point(run, case, case.values[label]) for run, case in kept)
            relative = not metric.by_points and all(one.value > 0 for one in points)
            yield Series(*key, label, points, relative, len(taken) - len(same), len(valued) - len(kept))


def _labels(cases: Iterable[CaseLine], choice: Choice) -> list[str]:
    """What was asked for, else what gates judged in any run; unknown metrics of newer versions are left alone."""
    seen: set[str] = set()
    for case in cases:
        judged = (label for label, outcome in case.outcomes.items() if outcome is not Outcome.ERROR)
        seen.update(case.values if choice.metrics else judged)
    found = in_order(seen)
    return [one for one in found if not choice.metrics or one in choice.metrics or split(one)[0] in choice.metrics]
