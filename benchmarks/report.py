"""Whether a large report is written in time: a run of 500 cases as HTML, Markdown and terminal, with its advice.

    python benchmarks/report.py [CASES]

Prints seconds and bytes of each face; the aim is 5 s for 500 cases in HTML, and 4 MB. On a machine that does other work
the seconds of CPU are those that compare.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_specgate.report import document
from pytest_specgate.report.advice import advise
from pytest_specgate.report.html.page import html
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.terminal import advice_lines, lines
from tests.unit.reporting import measured, times

T = TypeVar("T")


def main() -> None:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        report = times(measured(Path(folder)), cases)
    report = timed("advice", lambda: advise(report), lambda made: len(made.advice))
    timed("html", lambda: html(report), lambda made: len(made.encode()))
    timed("markdown", lambda: markdown(report), lambda made: len(made.encode()))
    told = lambda: "\n".join([*lines(report.verdicts, 120), *advice_lines(report.advice)])  # noqa: E731
    timed("terminal", told, lambda made: len(made.encode()))
    timed("json", lambda: document.to_json(report), lambda made: len(made.encode()))


def timed(name: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
    begin, spent = time.perf_counter(), time.process_time()
    made = make()
    wall, own = time.perf_counter() - begin, time.process_time() - spent
    print(f"{name:10} {wall:6.2f} s, {own:6.2f} s of CPU {size(made):12,}")
    return made


if __name__ == "__main__":
    main()
