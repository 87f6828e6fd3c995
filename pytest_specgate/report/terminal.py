"""The terminal's tables, a row per gate, then the reasons of all that did not pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tabulate import tabulate

from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Interval, Outcome, Verdict
from pytest_specgate.report.advised import Advice
from pytest_specgate.report.escape import columns, flat, in_ascii, one_line
from pytest_specgate.report.tabled import Laid, Matrix, counted, laid, sign
from pytest_specgate.units import format_value

_HEADERS = ("case", "gate", "measured", "baseline", "limit", "verdict")
_LONGEST_ADVICE = 400
_NONE: Mapping[str, Matrix] = MappingProxyType({})
_LEAST = 12  # characters of a case's name that still tell cases apart


def lines(
    verdicts: Sequence[Verdict], width: int, matrices: Mapping[str, Matrix] = _NONE, *, ascii_only: bool = False
) -> Iterator[str]:
    """The whole section. ``width`` is the terminal's columns: tables give up what is least needed to fit.

    Engines of ``matrices`` all of whose gates passed have no table of their own, and their notes are counted.
    """
    spell = in_ascii if ascii_only else str
    told, notes = list[Verdict](), 0
    for (suite, engine), group in _grouped(verdicts).items():
        if _folded(suite, engine, matrices) and all(one.outcome is Outcome.PASS for one in group):
            notes += sum(len(one.warnings) for one in group)
            continue
        told += group
        yield spell(flat(f"{suite} · {engine}"))
        yield from _table(group, width, spell)
        yield ""
    if notes:
        yield f"notes on gates that passed, of engines in the table below: {notes}, all of them in a JSON report"
    kept = set(map(id, told))
    for group in _alike([verdict for verdict in verdicts if id(verdict) in kept]):
        yield from map(spell, explanation(group[0]) if len(group) == 1 else _stopped_alike(group))


def matrix_lines(matrices: Mapping[str, Matrix], *, ascii_only: bool = False) -> Iterator[str]:
    """A table for each matrix, a sign a cell, the reasons below it by their numbers."""
    spell = in_ascii if ascii_only else str
    for suite, matrix in matrices.items():
        table = laid(matrix)
        yield spell(flat(f"{suite} · {' × '.join(axis.name for axis in matrix.axes)}"))
        yield from map(spell, _grid(table))
        yield spell(counted(matrix))
        for number, note in enumerate(table.notes, 1):
            yield spell(f"  {number}: {one_line(note, _LONGEST_ADVICE)}")
        yield ""


def _grid(table: Laid) -> Iterator[str]:
    """Where columns have groups, the signs of a group stand in one column, in the order that the first line tells."""
    grouped = len(table.groups) > 1 or bool(table.groups[0])
    size = len(table.inner)
    if grouped:
        yield f"within a column, by {table.columns[-1]}: {', '.join(table.inner)}"
    names = [flat(" ".join(group)) for group in table.groups] if grouped else list(map(flat, table.inner))
    rows = []
    for row in table.rows:
        signs = [sign(cell, table.number(cell) if cell else None) for cell in row.cells]
        wide = size if grouped else 1
        parts = [signs[start : start + wide] for start in range(0, len(signs), wide)]
        rows.append([*map(flat, row.options), *map(" ".join, _aligned(parts))])
    headers = [*map(flat, table.heads), *names]
    yield from tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()


def _aligned(parts: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Signs padded to one width, so that those of one option stand below each other."""
    yield from ([f"{one:<4}" for one in part] if len(part) > 1 else list(part) for part in parts)


def _folded(suite: str, engine: str, matrices: Mapping[str, Matrix]) -> bool:
    return suite in matrices and any(cell.engine == engine for cell in matrices[suite].cells)


def advice_lines(found: Sequence[Advice], *, ascii_only: bool = False) -> Iterator[str]:
    """Whether to adopt each engine, and why, in a few lines."""
    if not found:  # and then nothing that computes is loaded
        return
    from pytest_specgate.report.phrases import advised  # which draws on this module

    spell = in_ascii if ascii_only else str
    for said, because in advised(found):
        yield spell(f"advice: {one_line(said, _LONGEST_ADVICE)}")
        yield from (spell(f"    {one_line(reason, _LONGEST_ADVICE)}") for reason in because)


def explanation(verdict: Verdict) -> Iterator[str]:
    """Where, what, and what to do, for a verdict that is not a plain pass."""
    if verdict.outcome is Outcome.PASS and not verdict.warnings:
        return
    label = f"{verdict.outcome.value} ({verdict.softened})" if verdict.softened else verdict.outcome.value
    yield flat(f"{label} {verdict.location}: {_named(verdict)}: {verdict.reason}")
    for warning in verdict.warnings:
        yield f"    note: {flat(warning)}"
    if verdict.advice and verdict.outcome is not Outcome.PASS:
        yield f"    next: {flat(verdict.advice)}"


def _alike(verdicts: Iterable[Verdict]) -> Iterable[list[Verdict]]:
    """Verdicts one by one, those together that one error of their engine or case stopped."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for number, verdict in enumerate(verdicts):
        stopped = verdict.outcome is Outcome.ERROR and not verdict.warnings
        suite_and_engine = (_suite(verdict), _engine(verdict))
        key = (*suite_and_engine, verdict.reason, verdict.advice) if stopped else (number,)
        groups.setdefault(key, []).append(verdict)
    return groups.values()


def _stopped_alike(group: Sequence[Verdict]) -> Iterator[str]:
    """One error for all the gates that it stopped."""
    first = group[0]
    cases = list(dict.fromkeys(verdict.case for verdict in group))
    gates = list(dict.fromkeys(verdict.gate for verdict in group))
    subject = f"{first.case}: " if len(cases) == 1 else f"{_engine(first)}, {len(cases)} cases: "
    reason = first.reason.removeprefix(f"{_engine(first)}: ")
    subject = "" if first.case in reason else subject
    yield flat(f"{first.outcome.value} {first.location}: {subject}{reason} (stopped {', '.join(gates)})")
    if first.advice:
        yield f"    next: {flat(first.advice)}"


def _grouped(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((_suite(verdict), _engine(verdict)), []).append(verdict)
    return groups


def _table(verdicts: Sequence[Verdict], width: int, spell: Callable[[str], str]) -> list[str]:
    """The fullest table that fits: whole, with shorter case names, without intervals; else the last."""
    longest = max(len(flat(_case(verdict))) for verdict in verdicts)
    table: list[str] = []
    for intervals in (True, False):
        table = _drawn([_row(verdict, longest, intervals=intervals) for verdict in verdicts], spell)
        if (excess := max(map(columns, table)) - width) > 0:
            room = max(_LEAST, longest - excess)
            table = _drawn([_row(verdict, room, intervals=intervals) for verdict in verdicts], spell)
        if max(map(columns, table)) <= width:
            break
    return table


def _drawn(rows: Sequence[Sequence[str]], spell: Callable[[str], str]) -> list[str]:
    # Spelled before the columns are aligned: ASCII takes more room.
    spelled = [[spell(cell) for cell in row] for row in rows]
    return tabulate(spelled, headers=_HEADERS, tablefmt="simple", disable_numparse=True).splitlines()


def _suite(verdict: Verdict) -> str:
    return re.sub(r"(:\d+)+$", "", verdict.location)


def _engine(verdict: Verdict) -> str:
    return verdict.case.partition("::")[0]


def _named(verdict: Verdict) -> str:
    """The test's name, as pytest writes it."""
    engine, divided, case = verdict.case.partition("::")
    return f"{engine}::{verdict.gate}[{case}]" if divided else f"{verdict.gate}[{verdict.case}]"


def _case(verdict: Verdict) -> str:
    return verdict.case.partition("::")[2] or verdict.case


def _row(verdict: Verdict, room: int, *, intervals: bool) -> tuple[str, ...]:
    limits = ", ".join(_required(check.kind, check.required) for check in verdict.checks if check.required)
    softened = f" ({verdict.softened.split(':')[0]})" if verdict.softened else ""
    numbers = [
        shown(verdict.metric, found if intervals else _exact(found)) for found in (verdict.measured, verdict.baseline)
    ]
    cells = (verdict.gate, *numbers, limits or "-", f"{verdict.outcome.value}{softened}")
    return (one_line(_case(verdict), room), *map(flat, cells))


def _exact(found: Interval | None) -> Interval | None:
    return None if found is None else Interval(found.value, found.value, found.value)


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
