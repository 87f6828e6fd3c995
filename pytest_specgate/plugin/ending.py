"""The end of a run, in the controller: baselines stored, reports written, the exit status settled.

Each step stands alone, so that a full disk costs one file and no verdict, and a fault of our own no measurement.
What went wrong is kept as lines for the summary, and fails the run.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.errors import SpecgateError
from pytest_specgate.masking import masker
from pytest_specgate.outcomes import never_decided
from pytest_specgate.plugin import collect, distribution
from pytest_specgate.records import Measurement, Outcome

if TYPE_CHECKING:
    from pytest_specgate.plugin.run import Run
    from pytest_specgate.refresh import Change
    from pytest_specgate.report.advised import Advice, Wanted
    from pytest_specgate.report.document import Report
    from pytest_specgate.report.since import Compared
    from pytest_specgate.report.tabled import Matrix
    from pytest_specgate.suite.cases import Case
    from pytest_specgate.suite.matrix import Grid

#: Stored entries without a case that a warning names at most.
_MOST_IDLE = 3


@dataclass(slots=True)
class Ending:
    """What the summary tells beside the verdicts.

    ``suites``, ``names`` (of suites by path), ``checks``, ``measurements``, ``baselines``, ``wanted``
    and ``grids`` (where the engines of matrices stand) are sent by workers.
    """

    suites: int = 0
    names: dict[str, str] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    measurements: dict[str, tuple[Measurement, ...]] = field(default_factory=dict)
    baselines: dict[str, tuple[Compared, ...]] = field(default_factory=dict)
    wanted: dict[str, Wanted] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)
    matrices: Mapping[str, Matrix] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    changes: list[Change] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    remembered: Path | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def settle(self, session: pytest.Session, run: Run) -> None:
        """Do everything that happens once, at the end."""
        if run.config.option.collectonly or run.instead:
            return
        if run.options.update:
            self._update(run)
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._undecided(run)
        status = self._status(session, run)
        session.exitstatus = status
        if run.options.reports or run.options.history or run.options.exports:
            self._report(run, int(status))
            if self.problems and status == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif run.verdicts:
            report = self._gathered(run, int(status), {})
            self.advice, self.matrices = report.advice, report.matrices

    def _status(self, session: pytest.Session, run: Run) -> int:
        status = session.exitstatus
        none_found = distribution.is_distributed(run.config) and not self.suites and run.found.demanded
        if none_found and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self.problems.append(collect.nothing_found(run.found.passed_over, run.config.rootpath))
            return pytest.ExitCode.USAGE_ERROR
        return pytest.ExitCode.TESTS_FAILED if self.problems and status == pytest.ExitCode.OK else status

    def _undecided(self, run: Run) -> None:
        """Refuse a run in which an engine's gates are never decided, for then nothing is gated."""
        outcomes: dict[str, set[Outcome]] = {}
        for nodeid, verdict in run.verdicts.items():
            outcomes.setdefault(nodeid.rsplit("::", 1)[0], set()).add(verdict.outcome)
        self.problems += never_decided(outcomes)

    def _update(self, run: Run) -> None:
        from pytest_specgate.refresh import update_baselines

        for engine, session in run.sessions.items():
            with self.outlived(f"the baselines of {engine[1]}"):
                changed = update_baselines(session, frozenset(run.failed.get(engine, ())))
                self.changes += changed
                self.problems += [f"{one.case}: not stored: {one.refused}" for one in changed if one.refused]
        for path, name in {path: session.suite.name for (path, _), session in run.sessions.items()}.items():
            with self.outlived(f"what no case of {name} reads"):
                self.notes += _idle(run, name, run.found.suites[path])

    def _report(self, run: Run, status: int) -> None:
        from pytest_specgate.report import faces

        machine: dict[str, str] = {}
        run.config.hook.pytest_specgate_machine_info(config=run.config, info=machine)
        report = self._gathered(run, status, machine)
        self.advice, self.matrices = report.advice, report.matrices
        run.config.hook.pytest_specgate_report(config=run.config, report=report)
        for path in run.options.reports:
            with self.outlived(str(path)):
                faces.write(path, report)
                self.written.append(path)
        if run.options.history is not None or run.options.exports:
            with self.outlived("the history"):
                self._remember(run, report)

    def _gathered(self, run: Run, status: int, machine: dict[str, str]) -> Report:
        """All that processes measured, with advice unless baselines are stored or losses planted."""
        from pytest_specgate.report.advice import advise
        from pytest_specgate.report.document import new_report
        from pytest_specgate.report.matrices import tabulated

        measurements = {**self.measurements, **distribution.measured(run)}
        report = new_report(run.ordered(), measurements, status, machine, run.found.warnings)
        met = {**self.baselines, **distribution.baselines(run)}
        checks, wanted = {**self.checks, **run.checks_by_suite}, {**self.wanted, **distribution.wanted(run)}
        report = replace(report, baselines=met, checks=checks, wanted=wanted)
        with self.outlived("the table of a matrix"):
            report = tabulated(report, {**self.grids, **distribution.grids(run)}, run.absent)
        if not (run.options.update or run.options.selftest):
            with self.outlived("the advice"):
                return advise(report)
        return report

    @contextmanager
    def outlived(self, what: str) -> Iterator[None]:
        """Keep what fails in a step from costing the steps behind it: it may have taken an hour to measure."""
        try:
            yield
        except SpecgateError as error:
            self.problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault of ours
            at = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{what}: {type(error).__name__}: {error} (at {Path(at.filename).name}:{at.lineno})"
            self.problems.append(f"{fault} — a fault of pytest-specgate: please report it")

    def _remember(self, run: Run, report: Report) -> None:
        """Append the run to the history, and send it to trackers; one that cannot be reached fails no build."""
        from pytest_specgate import interop
        from pytest_specgate.history import store
        from pytest_specgate.history.collect import summarize
        from pytest_specgate.history.commit import source
        from pytest_specgate.report.faces import hidden

        of = source(os.environ, run.config.rootpath)
        names = {**self.names, **distribution.names(run)}
        line = summarize(report, of, run.seconds, run.options.baselines, names)
        if run.options.history is not None:
            with self.outlived(str(run.options.history)):
                self.remembered = store.append(run.options.history, line)
        sent = hidden(line, masker(os.environ))
        for name in run.options.exports:
            try:
                interop.export(name, sent, self.written)
                self.notes.append(f"exported to {name}")
            except SpecgateError as error:  # noqa: PERF203 - one that fails must not stop the others
                self.notes.append(f"warning: {error}")


def _idle(run: Run, suite: str, cases: Iterable[Case]) -> Iterator[str]:
    """Stored entries whose cases are no more: renamed or deleted ones, which a person alone can tell from mistakes."""
    from pytest_specgate.refresh import unused_entries

    for path, ids in unused_entries(run.options.baselines, suite, cases).items():
        others = f" and {len(ids) - _MOST_IDLE} more" if len(ids) > _MOST_IDLE else ""
        named = ", ".join(ids[:_MOST_IDLE])
        yield f"warning: {run.shown(path)}: no case reads {named}{others} — delete what will not come back"
