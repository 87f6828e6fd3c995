"""A report arranged for reading: suites, their engines, their cases, each case with its gates and its numbers.

Every face that people read is drawn from this one arrangement, so that they agree. A gate may be written in a file
that its suite extends; it belongs to the suite that measured its case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specgate import samples
from pytest_specgate.errors import InvalidTrace
from pytest_specgate.records import Measurement, Outcome, Samples, Verdict
from pytest_specgate.report.document import Report
from pytest_specgate.report.since import Compared

WORST_FIRST = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.PASS)
_CONCURRENCY = re.compile(r"-c(\d+)$")


@dataclass(frozen=True, slots=True)
class CaseView:
    """One case: ``name`` within its engine, its verdicts, and its numbers, or in ``problem`` why there are none.

    ``baseline`` is what it was compared with, None where there was nothing.
    """

    suite: str
    engine: str
    name: str
    verdicts: tuple[Verdict, ...]
    measurement: Measurement | None
    samples: Samples | None
    problem: str = ""
    baseline: Compared | None = None

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How many gates came to what."""
        return Counter(verdict.outcome for verdict in self.verdicts)

    @property
    def worst(self) -> Outcome | None:
        """The outcome that a reader looks for first; None where nothing was judged."""
        return next((outcome for outcome in WORST_FIRST if self.outcomes[outcome]), None)

    @property
    def series(self) -> tuple[str, int] | None:
        """(name without its concurrency, concurrency), as far as the name tells it."""
        found = _CONCURRENCY.search(self.name)
        return (self.name[: found.start()], int(found[1])) if found else None


def outline(report: Report) -> tuple[CaseView, ...]:
    """Every case that was judged or measured, suites and engines in the order in which they ran."""
    measured = {(suite, one.case): one for suite, taken in report.measurements.items() for one in taken}
    met = {(suite, one.case): one for suite, ones in report.baselines.items() for one in ones}
    judged: dict[tuple[str, str], list[Verdict]] = {}
    for suite, verdict in _placed(report.verdicts, list(measured)):
        judged.setdefault((suite, verdict.case), []).append(verdict)
    keys = dict.fromkeys([*judged, *measured])
    views = [replace(_view(key, judged.get(key, ()), measured.get(key)), baseline=met.get(key)) for key in keys]
    places = {(view.suite, view.engine): number for number, view in reversed(list(enumerate(views)))}
    suites = {view.suite: number for number, view in reversed(list(enumerate(views)))}
    return tuple(sorted(views, key=lambda view: (suites[view.suite], places[view.suite, view.engine])))


def counts(verdicts: Sequence[Verdict]) -> Mapping[Outcome, int]:
    """How many verdicts came to each outcome, softened ones included; every outcome is there."""
    found = Counter(verdict.outcome for verdict in verdicts)
    return {outcome: found[outcome] for outcome in Outcome}


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Failures first, those that nothing softens before those that something does; else in their order."""
    return sorted(verdicts, key=lambda verdict: (WORST_FIRST.index(verdict.outcome), bool(verdict.softened)))


def worst_views(views: Iterable[CaseView]) -> list[CaseView]:
    """Cases by their worst verdict, those that nothing judged last; else in their order."""
    return sorted(views, key=lambda view: len(WORST_FIRST) if view.worst is None else WORST_FIRST.index(view.worst))


def alike(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, ...]]:
    """Verdicts grouped where one sentence serves them all: an engine that cannot start is one trouble, not twenty."""
    return _grouped(verdicts, lambda one: (one.outcome, one.softened, one.reason, one.advice, engine_of(one)))


def related(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, ...]]:
    """Verdicts grouped by engine, outcome and what to look at next."""
    return _grouped(verdicts, lambda one: (one.outcome, one.softened, one.advice, engine_of(one)))


def engine_of(verdict: Verdict) -> str:
    """The engine's name."""
    return verdict.case.partition("::")[0]


def _grouped(verdicts: Sequence[Verdict], key: Callable[[Verdict], Hashable]) -> list[tuple[Verdict, ...]]:
    groups: dict[Hashable, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(key(verdict), []).append(verdict)
    return [tuple(group) for group in groups.values()]


def case_name(verdict: Verdict) -> str:
    """The case's name within its engine."""
    return verdict.case.partition("::")[2] or verdict.case


def _placed(verdicts: Sequence[Verdict], measured: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Verdict]]:
    """Each verdict with its suite. Suites that share a gate of one file are told apart by the order they ran in."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for verdict in verdicts:
        written = re.sub(r"(:\d+)+$", "", verdict.location)
        key = (verdict.gate, verdict.case, verdict.location)
        suites = [suite for suite, case in measured if case == verdict.case]
        known = written in suites or not suites
        yield written if known else suites[min(seen[key], len(suites) - 1)], verdict
        seen[key] += 1


def _view(key: tuple[str, str], verdicts: Sequence[Verdict], measurement: Measurement | None) -> CaseView:
    suite, case = key
    engine, _, name = case.partition("::")
    problem, numbers = "this case was not measured", None
    if measurement is not None:
        try:
            problem, numbers = "", samples.reduce(measurement, ())
        except InvalidTrace as error:
            problem = str(error)
    return CaseView(suite, engine, name or case, tuple(verdicts), measurement, numbers, problem)
