"""``trend``: what every metric of a history did from commit to commit; a table with sparklines, then sentences.

Exit status 0: nothing got worse; 1: something did; 3: too few runs to tell of anything; 2: a mistake in the command, or
a history that cannot be read.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pytest_specgate.errors import SpecgateError
from pytest_specgate.files import write_atomically
from pytest_specgate.labels import split
from pytest_specgate.masking import masker
from pytest_specgate.metrics import METRICS, Unit
from pytest_specgate.report.escape import ascii_alone, in_ascii
from pytest_specgate.units import did_you_mean, parse_quantity

if TYPE_CHECKING:
    from pytest_specgate.history.series import Choice
    from pytest_specgate.history.trend import Trend

OK, WORSE, USAGE, INCONCLUSIVE = 0, 1, 2, 3
DESCRIPTION = """\
Show what every gated metric did over the runs of a history: present level, distance from the present and from the first
baseline, steps with the commits they may lie at, and slow drifts.

The chance that a step or drift is claimed anywhere although nothing changed is 5 % for the whole report.

exit status:
  0  nothing got worse
  1  a metric got worse: its last step or drift, or its distance from the first baseline
  2  a mistake in the command, or a history that cannot be read
  3  too few runs to tell of any metric
"""
EXAMPLES = """\
examples:
  pytest --specgate suites/ --specgate-history history
  python -m pytest_specgate trend history
  python -m pytest_specgate trend history --branch main --metric speedup --html trend.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that --specgate-history wrote to")
    what = "metrics to look at (default: those that gates judge); may be given more than once"
    parser.add_argument("--metric", action="append", default=[], metavar="NAME", help=what)
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="cases whose id holds the text")
    parser.add_argument("--branch", default="", metavar="NAME", help="runs of this branch only")
    parser.add_argument("--since", default="", metavar="COMMIT|DATE", help="runs from this one on")
    allowed = "a loss up to this much is told, but not worth exit status 1 (default: 0%%)"
    parser.add_argument("--allow", default="0%", metavar="PERCENT", help=allowed)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures too")


def show(chosen: argparse.Namespace, out: TextIO) -> int:
    """Write the trends; the exit status. Raises SpecgateError."""
    from pytest_specgate.history import store
    from pytest_specgate.history.series import Choice, series
    from pytest_specgate.history.table import lines
    from pytest_specgate.history.trend import trends

    allow, metrics = _allowed(chosen.allow), tuple(map(_known, chosen.metric))
    history = store.read(chosen.folder)
    choice = Choice(metrics, tuple(chosen.case), chosen.branch, chosen.since)
    found = trends(series(history.runs, choice))
    if not found:
        raise SpecgateError(f"{history.path}: {len(history.runs)} runs, none of them fits — {_wider(choice)}")
    ascii_only = ascii_alone(out)
    hide = masker(os.environ)
    spell = in_ascii if ascii_only else str
    out.writelines(f"{spell(hide(line))}\n" for line in lines(found, history.problems, ascii_only=ascii_only))
    if chosen.html is not None:
        from pytest_specgate.history.page import page

        write_atomically(chosen.html, page(found, history.problems, hide))
        out.write(f"page written: {chosen.html}\n")
    return status(found, allow)


def status(found: Sequence[Trend], allow: float) -> int:
    """What the trends come to."""
    if any(trend.worse(allow) for trend in found):
        return WORSE
    return INCONCLUSIVE if all(trend.needed for trend in found) else OK


def _known(metric: str) -> str:
    if split(metric)[0] not in METRICS:
        what = f"--metric: unknown metric {metric!r}{did_you_mean(metric, METRICS)}"
        raise SpecgateError(f"{what} — choose one of: {', '.join(METRICS)}")
    return metric


def _allowed(text: str) -> float:
    try:
        found = parse_quantity(text, Unit.FRACTION)
    except ValueError as error:
        raise SpecgateError(f"--allow: {error}") from error
    if not 0 <= found < 1:
        raise SpecgateError(f"--allow: {text!r} is out of range — write 0% or more and less than 100%")
    return found


def _wider(choice: Choice) -> str:
    given = [f"--{key}" for key in ("metric", "case", "branch", "since") if getattr(choice, _FIELDS.get(key, key))]
    return f"leave out {' or '.join(given)}" if given else "run gates with --specgate-history"


_FIELDS = {"metric": "metrics", "case": "cases"}
