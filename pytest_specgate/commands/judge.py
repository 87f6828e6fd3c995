"""``judge``: the measurements of a stored report, judged by what its suites and the baselines say now.

A case is found by its id. One that was measured and that its suite has no more is told; one that could not be
measured stays the error, or the refusal, that it was; one that the report never saw is told too, for it was not asked
for.
The error budget is shared as it was in the run: among the checks of all suites that it collected, those that are judged
again counted as they are written now.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from pytest_specgate.errors import SpecgateError, StoreError
from pytest_specgate.masking import masked, masker
from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.report import document, faces, terminal
from pytest_specgate.report.advice import advise
from pytest_specgate.report.advised import Wanted, wanted
from pytest_specgate.report.escape import ascii_alone, flat, in_ascii
from pytest_specgate.report.matrices import tabulated
from pytest_specgate.report.since import Compared, compared
from pytest_specgate.report.tabled import State
from pytest_specgate.runner import Judged, exit_status, judge_all, undecided
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.advising import parse_price
from pytest_specgate.suite.cases import Case, Suite, expand
from pytest_specgate.suite.checks import checks_in
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.matrix import Grid

INTERRUPTED = 2


@dataclass(frozen=True, slots=True)
class Ask:
    """Which report, where its suites and the baselines lie, and which files shall tell what was judged."""

    report: Path
    suites: Path
    baselines: Path
    strict: bool = False
    faces: tuple[Path, ...] = ()
    price: str | None = None


@dataclass(slots=True)
class _Again:
    """What came of judging again: verdicts, errors carried over, and notes."""

    judged: list[Judged] = field(default_factory=list)
    carried: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wanted: dict[str, Wanted] = field(default_factory=dict)
    met: dict[str, tuple[Compared, ...]] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Verdict]:
        """All of them."""
        return [*(one.verdict for one in self.judged), *self.carried]


def show(ask: Ask, out: TextIO) -> int:
    """Write the verdicts as a run's summary has them; the exit status. Raises SpecgateError."""
    _refuse_unknown_faces(ask.faces)
    report = document.read(ask.report)
    again = _judge(ask, report)
    lost = any(verdict.outcome is Outcome.ERROR for verdict in again.carried)
    status = 1 if lost else exit_status(again.judged, strict=ask.strict)
    status = status or (INTERRUPTED if report.exit_status == INTERRUPTED else 0)
    told = replace(report, verdicts=tuple(again.verdicts), exit_status=status, baselines=again.met, wanted=again.wanted)
    told = advise(tabulated(told, again.grids, _not_run(report)))
    out.writelines(f"{line}\n" for line in _lines(again, told, out))
    for path in ask.faces:
        faces.write(path, told)
        out.write(f"report written: {path}\n")
    return status


def _refuse_unknown_faces(paths: Sequence[Path]) -> None:
    known = (*faces.FACES, ".json")
    for path in paths:
        if path.suffix not in known:
            raise SpecgateError(f"{path}: no ending that names a format — end it in one of: {', '.join(known)}")


def _lines(again: _Again, told: document.Report, out: TextIO) -> Iterator[str]:
    ascii_only = ascii_alone(out)
    hide = masker(os.environ)
    verdicts = [masked(verdict, hide) for verdict in again.verdicts]
    width = shutil.get_terminal_size().columns
    yield from terminal.lines(verdicts, width, told.matrices, ascii_only=ascii_only)
    yield from map(hide, terminal.matrix_lines(told.matrices, ascii_only=ascii_only))
    yield from map(hide, terminal.advice_lines(told.advice, ascii_only=ascii_only))
    notes = [f"note: {note}" for note in again.notes]
    for line in map(hide, map(flat, [*notes, *(f"ERROR: {problem}" for problem in undecided(again.judged))])):
        yield in_ascii(line) if ascii_only else line


def _judge(ask: Ask, report: document.Report) -> _Again:
    loaded = {name: _load(ask, name) for name in report.measurements}
    others = sum(count for name, count in report.checks.items() if name not in loaded)
    checks = others + sum(checks_in(cases) for _, cases in loaded.values())
    again, price = _Again(), _price(ask.price)
    settings = Settings(baselines=ask.baselines)
    for name, (suite, cases) in loaded.items():
        taken = {measurement.case: measurement for measurement in report.measurements[name]}
        sessions = _sessions(suite, cases, taken, settings, checks)
        for session, mine in sessions:
            again.judged += judge_all(session, mine)
        results = [result for session, _ in sessions for result in session.results()]
        met = tuple(compared(result.case.id, result.found.stored) for result in results if result.found)
        again.met |= {name: met} if met else {}
        again.wanted[name] = wanted(suite.spec.advice, price)
        again.grids |= {name: suite.grid} if suite.grid else {}
        again.notes += _unmatched(name, cases, taken)
    measured = {measurement.case for taken in report.measurements.values() for measurement in taken}
    stays = [verdict for verdict in report.verdicts if verdict.outcome is Outcome.ERROR or verdict.refused]
    again.carried += [verdict for verdict in stays if verdict.case not in measured]
    if not (again.judged or again.carried):
        what = f"{ask.report}: holds no measurement of a case that its suites still have"
        raise StoreError(f"{what} — measure again: pytest --specgate --specgate-report {ask.report}")
    return again


def _not_run(report: document.Report) -> dict[str, dict[str, str]]:
    """By suite and engine, why cells of a matrix did not run then."""
    return {
        suite: {cell.engine: cell.note for cell in matrix.cells if cell.state is State.ABSENT}
        for suite, matrix in report.matrices.items()
    }


def _load(ask: Ask, name: str) -> tuple[Suite, tuple[Case, ...]]:
    path = ask.suites / name
    if not path.is_file():
        hint = "name the folder that the report's paths start from with --suites"
        raise SpecgateError(f"{path}: the report's suite is not there — {hint}")
    suite = load_suite(path, ask.suites)
    return suite, expand(suite)


def _sessions(
    suite: Suite, cases: tuple[Case, ...], taken: Mapping[str, Measurement], settings: Settings, checks: int
) -> list[tuple[SuiteSession, list[Case]]]:
    """A session for every engine, with those of its cases that were measured."""
    found = []
    for engine in dict.fromkeys(case.engine for case in cases):
        session = SuiteSession(suite, engine, settings, checks)
        mine = [case for case in cases if case.engine == engine and case.id in taken]
        for case in mine:
            session.take(case, taken[case.id])
        found.append((session, mine))
    return found


def _price(text: str | None) -> float | None:
    try:
        return None if text is None else parse_price(text)
    except ValueError as error:
        raise SpecgateError(f"--price: {error}") from error


def _unmatched(name: str, cases: tuple[Case, ...], taken: Mapping[str, Measurement]) -> Iterator[str]:
    known = {case.id for case in cases}
    for case in taken:
        if case not in known:
            yield f"{name}: {case} was measured, but the suite has no such case now"
    for case in sorted(known - set(taken)):
        yield f"{name}: {case} is not among the report's measurements, and was not judged"
