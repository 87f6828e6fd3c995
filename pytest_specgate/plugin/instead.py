"""What a run does instead of tests: tell its plan, or measure unchanged code several times and propose gates."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.errors import SpecgateError
from pytest_specgate.plugin.collect import GateItem
from pytest_specgate.report.escape import ascii_alone, flat

if TYPE_CHECKING:
    from pytest_specgate.plugin.run import Run
    from pytest_specgate.suite.cases import Case, Suite


def of_tests(run: Run, session: pytest.Session) -> bool | None:
    """True where no test is to run; None leaves the tests to pytest."""
    if run.config.option.collectonly or not (run.options.plan or run.options.suggest):
        return None
    run.instead += _plan(run, session) if run.options.plan else _suggestion(run, session)
    return True


def _plan(run: Run, session: pytest.Session) -> list[str]:
    from pytest_specgate.planning import Asked, Sources, plan
    from pytest_specgate.planning_table import lines

    chosen = run.options
    sources = Sources(chosen.baselines, chosen.history)
    asked = Asked(chosen.update, chosen.update_sessions, chosen.budget)
    ascii_only = ascii_alone(sys.stdout)
    found = plan(selected(run, session), sources, asked)
    return [*lines(found, ascii_only=ascii_only), *_left_out(run, session)]


def _suggestion(run: Run, session: pytest.Session) -> list[str]:
    from pytest_specgate.study.suggest import finer, measured, suggest
    from pytest_specgate.study.suggest_table import lines

    chosen = [(suite, case) for suite, case in selected(run, session) if not case.scenario.generated]
    cases = [(suite, case) for suite, case in chosen if not _skipped(run, session, suite)]
    if not cases:
        return ["nothing was measured: no case is left", *_left_out(run, session)]
    try:
        results = measured(cases, run.settings, run.options.suggest or 0, run.progress)
    except SpecgateError as error:
        session.testsfailed += 1
        return [f"ERROR: {error}"]
    finally:
        run.progress.clear()
    found = suggest(cases, results, run.options.false_alarm)
    notes = [f"note: {note}" for note in finer(cases, found)]
    return [*map(flat_but_indented, lines(found)), *map(flat, dict.fromkeys(notes)), *_left_out(run, session)]


def flat_but_indented(line: str) -> str:
    """Harmless and on one line, its indentation kept, so that it can be pasted."""
    return " " * (len(line) - len(line.lstrip(" "))) + flat(line)


def _skipped(run: Run, session: pytest.Session, suite: Suite) -> bool:
    items = (item for item in session.items if isinstance(item, GateItem) and item.suite.shown == suite.shown)
    return any(run.skip_reason(item) for item in items)


def selected(run: Run, session: pytest.Session) -> list[tuple[Suite, Case]]:
    """The cases that this run would measure, each once, those of higher tiers left out."""
    found: dict[tuple[str, str], tuple[Suite, Case]] = {}
    for item in session.items:
        if isinstance(item, GateItem) and run.options.takes(item.suite.spec.tier.value):
            found.setdefault((item.suite.shown, item.case.id), (item.suite, item.case))
    return list(found.values())


def _left_out(run: Run, session: pytest.Session) -> Iterator[str]:
    """Suites that this run or this machine would skip."""
    suites = {item.path: item for item in session.items if isinstance(item, GateItem)}
    for item in suites.values():
        if reason := run.skip_reason(item):
            left = "is left out" if not run.options.takes(item.suite.spec.tier.value) else "would be skipped here"
            yield f"{item.suite.shown} {left}: {reason}"
