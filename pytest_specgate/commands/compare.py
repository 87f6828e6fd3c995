"""``compare``: two stored reports side by side, a row for each metric, judged by the shipped statistics.

Exit status 0: nothing got worse by more than is allowed; 1: something did; 3: that cannot be told; 2: a mistake in the
command, or reports that cannot be read or share no case.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tabulate import tabulate

from pytest_specgate.errors import SpecgateError
from pytest_specgate.labels import metric_of
from pytest_specgate.masking import masker
from pytest_specgate.metrics import METRICS, STATISTICS, Family, Unit
from pytest_specgate.records import Interval, Outcome
from pytest_specgate.report.escape import ascii_alone, flat, in_ascii
from pytest_specgate.units import did_you_mean, format_value, parse_allowance

if TYPE_CHECKING:
    from pytest_specgate.compare import Comparison, Row

STATUS = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.INCONCLUSIVE: 3, Outcome.ERROR: 3}
DESCRIPTION = """\
Compare two reports that --specgate-report wrote: the first is what was, the second what is. Cases are found by suite
and name. Where their prompts are the same, runs are compared prompt by prompt as a gate compares with a baseline.

exit status:
  0  nothing got worse by more than is allowed
  1  a metric did
  2  a mistake in the command, or reports that cannot be read or share no case
  3  it cannot be told: too little data, another machine, a metric or a case that one run has not
"""
EXAMPLES = """\
examples:
  python -m pytest_specgate compare main.json branch.json
  python -m pytest_specgate compare main.json branch.json --metric speedup --metric ttft.p95 --allow 3%
  python -m pytest_specgate compare main.json branch.json --allow 5% --allow conditional_acceptance=0.01
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("first", type=Path, metavar="A.json", help="the report to compare with")
    parser.add_argument("second", type=Path, metavar="B.json", help="the report to judge")
    what = "metrics to compare, such as speedup or ttft.p95 (default: those that gates of either run judged)"
    parser.add_argument("--metric", action="append", default=[], metavar="NAME", help=what)
    allowed = "allowed change for the worse, of all metrics or of one (default: 5%%)"
    parser.add_argument("--allow", action="append", default=[], metavar="[NAME=]CHANGE", help=allowed)


def show(chosen: argparse.Namespace, out: TextIO) -> int:
    """Write the table; the exit status. Raises SpecgateError."""
    from pytest_specgate.compare import Question, compare
    from pytest_specgate.report import document

    question = Question(tuple(map(_known, chosen.metric)), dict(map(_allowance, chosen.allow)))
    first, second = document.read(chosen.first), document.read(chosen.second)
    found = compare(first, second, question)
    ascii_only = ascii_alone(out)
    hide, spell = masker(os.environ), in_ascii if ascii_only else str
    names = (chosen.first.name, chosen.second.name)
    out.writelines(f"{spell(hide(line))}\n" for line in _lines(found, names, ascii_only=ascii_only))
    return STATUS[found.outcome]


def _known(label: str) -> str:
    name, dot, statistic = label.partition(".")
    if name not in METRICS:
        what = f"--metric: unknown metric {label!r}{did_you_mean(name, METRICS)}"
        raise SpecgateError(f"{what} — choose one of: {', '.join(METRICS)}")
    if dot and (METRICS[name].family is not Family.LATENCY or statistic not in STATISTICS):
        what = f"--metric: {name} has no statistic {statistic!r}"
        raise SpecgateError(f"{what} — a latency may have one of: {', '.join(STATISTICS)}")
    return label.removesuffix(".median")


def _allowance(text: str) -> tuple[str, str]:
    name, equals, change = text.rpartition("=")
    label = _known(name) if equals else ""
    try:
        parse_allowance(change, metric_of(label).unit if label else Unit.RATIO)
    except ValueError as error:
        raise SpecgateError(f"--allow: {error}") from error
    if not label and not change.strip().endswith("%"):
        raise SpecgateError(f"--allow: {change!r} of which metric? — write it as NAME={change}, or in percent")
    return label, change


def _lines(found: Comparison, names: tuple[str, str], *, ascii_only: bool) -> Iterator[str]:
    for case in found.cases:
        how = "the same prompts" if case.paired else "other prompts: each run's own limits"
        yield flat(f"{case.suite} · {case.case} · {how}")
        yield from _table(case.rows, names, ascii_only=ascii_only)
        yield from (f"note: {flat(note)}" for note in case.notes)
        yield ""
    for case in found.cases:
        for row in case.rows:
            if row.outcome is not Outcome.PASS:
                yield flat(f"{_word(row)} {case.case}: {row.reason}")
    yield from (flat(f"undecided {case}: {names[1]} has no such case") for case in found.gone)
    yield from (flat(f"note: {case} is new in {names[1]}") for case in found.new)
    yield "Intervals are those of the verdict: 1 % error for all checks together; what a restart moves is not in them."


def _table(rows: Sequence[Row], names: tuple[str, str], *, ascii_only: bool) -> list[str]:
    cells = [[row.label, _value(row, row.before), _value(row, row.after), _change(row), _word(row)] for row in rows]
    if ascii_only:
        cells = [[in_ascii(cell) for cell in line] for line in cells]
    headers = ["metric", *map(flat, names), "change", ""]
    return tabulate(cells, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()


def _unit(row: Row) -> Unit:
    return metric_of(row.label).unit


def _value(row: Row, value: float | None) -> str:
    return "-" if value is None else format_value(value, _unit(row))


def _change(row: Row) -> str:
    """``-13.1% [-13.6%, -12.5%]``; points of shares, slopes and scores; ``~`` where it may be none."""
    if row.before is None or row.after is None:
        return "-"
    found = row.change or Interval(row.after - row.before, -1, 1)
    ends = [_told(row, end) for end in (found.value, found.low, found.high)]
    if row.change is None:
        return f"{ends[0]} (no limits)"
    if found.low == found.high:
        return ends[0] if found.value else "none"
    mark = "~ " if found.low <= 0 <= found.high else ""
    return f"{mark}{ends[0]} [{ends[1].removesuffix(' points')}, {ends[2].removesuffix(' points')}]"


def _told(row: Row, change: float) -> str:
    unit = _unit(row)
    if unit in (Unit.FRACTION, Unit.SLOPE):
        return f"{100 * change:+.1f} points"
    if unit is Unit.SCORE:
        return f"{change:+.1f} points"
    return f"{change / row.before:+.1%}" if row.before else format_value(change, unit)


def _word(row: Row) -> str:
    words = {Outcome.FAIL: "WORSE", Outcome.INCONCLUSIVE: "undecided", Outcome.ERROR: "unmeasured", Outcome.PASS: "ok"}
    return "better" if row.better else words[row.outcome]
