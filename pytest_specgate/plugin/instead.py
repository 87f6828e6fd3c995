"""What a run does instead of tests: tell its plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.plugin.collect import GateItem

if TYPE_CHECKING:
    from pytest_specgate.plugin.run import Run
    from pytest_specgate.suite.cases import Case, Suite


def of_tests(run: Run, session: pytest.Session) -> bool | None:
    """True where no test is to run; None leaves the tests to pytest."""
    if not run.options.plan or run.config.option.collectonly:
        return None
    run.instead += _plan(run, session)
    return True


def _plan(run: Run, session: pytest.Session) -> list[str]:
    from pytest_specgate.planning import Asked, Sources, plan
    from pytest_specgate.planning_table import lines

    chosen = run.options
    sources = Sources(chosen.baselines, chosen.history)
    asked = Asked(chosen.update, chosen.update_sessions, chosen.budget)
    ascii_only = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    found = plan(selected(run, session), sources, asked)
    return [*lines(found, ascii_only=ascii_only), *_left_out(run, session)]


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
