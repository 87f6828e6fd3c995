"""The end of the terminal's output: verdicts, what was stored and written, what failed beside the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from pytest_specgate.masking import masker
from pytest_specgate.plugin import distribution, outcome
from pytest_specgate.plugin.run import Run
from pytest_specgate.report.escape import ascii_alone, flat


def header(run: Run) -> str:
    """Tier and baselines: what two runs must share to be comparable."""
    baselines = run.shown(run.options.baselines)
    return masker(os.environ)(f"specgate: tier {run.options.tier}, baselines {baselines}")


def show(reporter: pytest.TerminalReporter, run: Run) -> None:
    """Print the section, secrets of the environment masked; nothing in a worker, or where nothing was judged."""
    if distribution.is_worker(run.config):
        return
    if run.instead:
        reporter.section("specgate")
        hide = outcome.hider()
        reporter.write_line("\n".join(map(hide, run.instead)))
        return
    ascii_only = ascii_alone(sys.stdout)
    lines = list(_lines(run, run.config.get_terminal_writer().fullwidth, ascii_only=ascii_only))
    if not lines and not run.ending.problems:
        return
    hide = outcome.hider()
    reporter.section("specgate")
    for line in lines:
        reporter.write_line(hide(line))
    for problem in run.ending.problems:
        reporter.write_line(hide(f"ERROR: {problem}"), red=True)


def mark(reporter: pytest.TerminalReporter, run: Run) -> None:
    """Print GitHub's commands that mark the suites' lines, in the controller, where they are wanted."""
    if distribution.is_worker(run.config) or not run.options.annotations or run.config.option.collectonly:
        return
    from pytest_specgate.report.annotations import from_workspace, github

    shown = from_workspace(run.config.rootpath, os.environ.get("GITHUB_WORKSPACE", ""))
    hide = masker(os.environ)
    for line in github(run.ordered(), run.found.mistakes.values(), shown, hide):
        reporter.ensure_newline()
        reporter.write_line(line)


def _lines(run: Run, width: int, *, ascii_only: bool) -> Iterator[str]:
    from pytest_specgate.report import terminal

    yield from terminal.lines(run.ordered(), width, run.ending.matrices, ascii_only=ascii_only)
    yield from terminal.matrix_lines(run.ending.matrices, ascii_only=ascii_only)
    if run.options.selftest and run.verdicts:
        yield "selftest: engines ran with a gross loss planted; PASS says that the gate turned red, as it should"
    for warning in run.found.warnings:
        yield f"warning: {warning}"
    for taken in distribution.measured(run).values():
        yield from (f"warning: {one.case}: {warning}" for one in taken for warning in one.warnings)
    yield from terminal.advice_lines(run.ending.advice, ascii_only=ascii_only)
    yield from _update_lines(run)
    for path in run.ending.written:
        yield f"report written: {run.shown(path)}"
    if run.ending.remembered is not None:
        yield f"history appended to: {run.shown(run.ending.remembered)}"
    yield from map(flat, run.ending.notes)


def _update_lines(run: Run) -> Iterator[str]:
    from pytest_specgate.report.summary import change_lines

    for change in run.ending.changes:
        if change.new is not None:  # what was refused stands among the errors
            yield from change_lines(change.case, change.old, change.new)
            yield from (f"  accepted loss: {flat(loss)}" for loss in change.losses)
    for path in sorted({change.path for change in run.ending.changes if change.new is not None}):
        yield f"baseline written: {run.shown(path)}"
    if run.options.update and run.verdicts and not any(change.new for change in run.ending.changes):
        yield "no baseline was written"
