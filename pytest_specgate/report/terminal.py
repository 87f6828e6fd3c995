"""The terminal's table: one row per gate, grouped by suite and engine, then the reasons of all that did not pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tabulate import tabulate

from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Interval, Outcome, Verdict
from pytest_specgate.report.escape import harmless, one_line
from pytest_specgate.units import format_value

_HEADERS = ("case", "gate", "measured", "baseline", "limit", "verdict")
_ASCII = str.maketrans({"→": "->", "×": "x", "÷": "/", "±": "+-", "…": "...", "–": "-", "—": "-", "µ": "u", "≤": "<=", "≥": ">="})


def lines(verdicts: Sequence[Verdict], width: int, *, ascii_only: bool = False) -> Iterator[str]:
    """The whole section. ``width`` is the terminal's; tables shorten case names before they wrap."""
    for (suite, engine), group in _grouped(verdicts).items():
        yield f"{suite} · {engine}" if not ascii_only else f"{suite} - {engine}"
        for line in _table(group, width).splitlines():
            yield line.translate(_ASCII) if ascii_only else line
        yield ""
    for verdict in verdicts:
        for line in explanation(verdict):
            yield line.translate(_ASCII) if ascii_only else line


def explanation(verdict: Verdict) -> Iterator[str]:
    """Where, what, and what to do, for a verdict that is not a plain pass."""
    if verdict.outcome is Outcome.PASS and not verdict.warnings:
        return
    label = f"{verdict.outcome.value} ({verdict.softened})" if verdict.softened else verdict.outcome.value
    yield harmless(f"{label} {verdict.location}: {verdict.gate}[{verdict.case.partition('::')[2]}]: {verdict.reason}")
    for warning in verdict.warnings:
        yield harmless(f"    note: {warning}")
    if verdict.advice and verdict.outcome is not Outcome.PASS:
        yield harmless(f"    next: {verdict.advice}")


def _grouped(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        suite = re.sub(r"(:\d+)+$", "", verdict.location)
        groups.setdefault((suite, verdict.case.partition("::")[0]), []).append(verdict)
    return groups


def _table(verdicts: Sequence[Verdict], width: int) -> str:
    room = max(8, width - 92)
    rows = [_row(verdict, room) for verdict in verdicts]
    return tabulate(rows, headers=_HEADERS, tablefmt="simple", disable_numparse=True)


def _row(verdict: Verdict, room: int) -> tuple[str, ...]:
    limits = ", ".join(_required(check.kind, check.required) for check in verdict.checks if check.required)
    outcome = f"{verdict.outcome.value} ({verdict.softened.split(':')[0]})" if verdict.softened else verdict.outcome.value
    return (
        one_line(verdict.case.partition("::")[2], room),
        verdict.gate,
        shown(verdict.metric, verdict.measured),
        shown(verdict.metric, verdict.baseline),
        limits or "-",
        outcome,
    )


def _required(kind: str, required: str) -> str:
    return required if kind == "limit" else f"{kind.removeprefix('max_')} ≤ {required}"


def shown(metric: str, interval: Interval | None) -> str:
    """A value with its interval where it has one, ``-`` where there is none."""
    if interval is None:
        return "-"
    unit = METRICS[metric].unit
    value = format_value(interval.value, unit)
    if interval.low == interval.high:
        return value
    return f"{value} [{format_value(interval.low, unit)}, {format_value(interval.high, unit)}]"
