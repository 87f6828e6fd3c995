"""A run as Markdown for the job summaries of GitHub and GitLab: worst first, never above 65 kB.

What does not fit is left out row by row from the end, and a sentence says how many rows. Texts that an engine, a
model or a file wrote are inert: they show as they are, and make no link, image, mention, table or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.records import Check, Measurement, Outcome, Verdict
from pytest_specgate.report import contexts, loads
from pytest_specgate.report.advised import Advice, Checked
from pytest_specgate.report.document import Report
from pytest_specgate.report.escape import one_line
from pytest_specgate.report.loads import Load
from pytest_specgate.report.numbers import arms, ratio_text, text
from pytest_specgate.report.outline import CaseView, alike, counts, outline, worst_first, worst_views
from pytest_specgate.report.phrases import (
    advised,
    behind,
    headline,
    looks_of,
    place_of,
    required,
    shown_or_unmeasured,
    since,
    soft,
)
from pytest_specgate.report.served import room_for_requests
from pytest_specgate.report.tabled import Cell, Laid, Matrix, counted, laid, sign

MOST_BYTES = 65_000
_MOST_IN_CELL = 300
_SIGNS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "❔", Outcome.ERROR: "💥"}
_LINKS = re.compile(r"@|://|www\.", re.IGNORECASE)
_OBEYED = re.compile(r"[\\`*_\[\]<>|~!#$&{}]")


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading, what stands before its rows, and its rows; ``noun`` is what a row is, in the plural."""

    title: str
    head: tuple[str, ...]
    rows: tuple[str, ...]
    noun: str


def markdown(report: Report) -> str:
    """The whole text, at most MOST_BYTES in UTF-8."""
    lines = [f"## {said(headline(report))}", "", f"{said(place_of(report))}", ""]
    left = MOST_BYTES - _size(lines)
    for section in _sections(report):
        made = _fitted(section, left)
        left -= _size(made)
        lines += made
    return "\n".join(lines) + "\n"


def said(text: str, most: int = _MOST_IN_CELL) -> str:
    """A sentence of ours that may quote others: signs that Markdown obeys become entities, links become code."""
    line = one_line(text, most)
    if _LINKS.search(line):
        return code(line, most)
    return _OBEYED.sub(lambda match: f"&#{ord(match[0])};", line)


def code(text: str, most: int = _MOST_IN_CELL) -> str:
    """A name as it is, in a code span that it cannot leave; a bar is escaped, as tables ask for it."""
    line = one_line(text, most).replace("|", "\\|")
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _sections(report: Report) -> Iterator[_Section]:
    ordered = worst_first(report.verdicts)
    views = outline(report)
    yield _Section("", ("| outcome | gates |", "|---|---:|"), tuple(_count_rows(report)), "outcomes")
    open_ones = [verdict for verdict in ordered if verdict.outcome is not Outcome.PASS]
    if open_ones:
        by_verdict = {id(verdict): view for view in views for verdict in view.verdicts}
        reasons = tuple(_reason(group, by_verdict.get(id(group[0]))) for group in alike(open_ones))
        yield _Section("What did not pass", (), reasons, "reasons")
    for suite, matrix in report.matrices.items():
        yield _matrix(suite, matrix)
    head = ("| case | gate | measured | baseline | limit | verdict | looks |", "|---|---|---|---|---|---|---|")
    yield _Section("Gates", head, tuple(map(_gate_row, ordered)), "gates")
    head = ("| case | quantity | reference | candidate | candidate ÷ reference |", "|---|---|---|---|---|")
    rows = tuple(row for view in worst_views(views) for row in _arms_rows(view))
    if rows:
        yield _Section("Both arms", head, rows, "quantities")
    yield from _along(views)
    yield from _advice(report)
    if history := tuple(
        f"- {code(f'{v.engine}::{v.name}')}: {said('; '.join(since(v)), 600)}" for v in views if v.baseline
    ):
        yield _Section("Since the baseline", (), history, "cases")
    if notes := tuple(_notes(report, views)):
        yield _Section("Notes", (), notes, "notes")


def _matrix(suite: str, matrix: Matrix) -> _Section:
    """The table of a matrix, a sign a cell; what signs and numbers mean stands before it."""
    table = laid(matrix)
    columns = [" ".join((*group, option)) for group in table.groups for option in table.inner]
    notes = (f"- {number}: {said(note, 600)}" for number, note in enumerate(table.notes, 1))
    heads = " | ".join(map(said, (*table.heads, *columns)))
    rule = "|---" * (len(table.heads) + len(columns)) + "|"
    head = (said(counted(matrix), 600), "", *notes, "", f"| {heads} |", rule)
    rows = tuple(
        f"| {' | '.join([*map(said, row.options), *(said(_sign(cell, table)) for cell in row.cells)])} |"
        for row in table.rows
    )
    return _Section(f"What works: {code(suite)}", head, rows, "rows of the matrix")


def _along(views: Sequence[CaseView]) -> Iterator[_Section]:
    """What changes along the context, where texts are long, and with the number of requests at once."""
    rows = [(view, one) for view in views if view.measurement for one in _long(view.measurement)]
    lines = tuple(f"| {_case_of(view)} | {' | '.join(map(said, row))} |" for view, row in rows)
    if lines:
        head = "| case | tokens so far | acceptance | ITL, reference | ITL, candidate | cache, reference | candidate |"
        yield _Section("By context", (head, "|---|---|---|---|---|---|---|"), lines, "contexts")
    head = "| case or scenario | requests at once | reference | candidate | candidate ÷ reference | occupancy |"
    if found := tuple(_loads(views)):
        yield _Section("Throughput by requests at once", (head, "|---|---|---|---|---|---|"), found, "concurrencies")


def _long(taken: Measurement) -> Iterator[tuple[str, ...]]:
    found = contexts.by_context(taken)
    yield from map(contexts.cells, found if contexts.is_long(found) else ())


def _loads(views: Sequence[CaseView]) -> Iterator[str]:
    """Scenarios that ran at several concurrencies, then searches for capacity; where the speed-up turns, in a row."""
    series: dict[tuple[str, str, str], list[CaseView]] = {}
    for view in views:
        if view.series is not None:
            series.setdefault((view.suite, view.engine, view.series[0]), []).append(view)
    for (_, engine, scenario), group in series.items():
        yield from _load_rows(code(f"{engine}::{scenario}"), loads.by_concurrency(group))
    for view in views:
        room = loads.searched(view.measurement.memory) if view.measurement else None
        if room is not None:
            yield from _load_rows(_case_of(view), room.loads, loads.room_told(room))


def _load_rows(name: str, found: Sequence[Load], more: str = "") -> Iterator[str]:
    for one in found:
        yield f"| {name} | {' | '.join(map(said, loads.cells(one)))} |"
    for note in filter(None, (loads.told(found), more)):
        yield f"| {name} | {said(note)} | | | | |"


def _case_of(view: CaseView) -> str:
    return code(f"{view.engine}::{view.name}")


def _sign(cell: Cell | None, table: Laid) -> str:
    return sign(cell, None if cell is None else table.number(cell))


def _advice(report: Report) -> Iterator[_Section]:
    """Whether to adopt each engine, at which price, and the check list."""
    whole = [one for one in report.advice if not one.scenario]
    rows = (
        f"- {said(line, 600)}\n{_nested([*because, *_reserves(one)])}"
        for one, (line, because) in zip(whole, advised(report.advice))
    )
    if whole:
        yield _Section("Adopt speculation?", (), tuple(row.rstrip() for row in rows), "engines")
    head = ("| engine | part | metric | method | expected | measured | reading |", "|---|---|---|---|---|---|---|")
    checks = tuple(f"| {code(one.engine)} | {_checked(c)} |" for one in whole for c in one.checks)
    if checks:
        yield _Section("Check list", head, checks, "rows of the check list")


def _checked(row: Checked) -> str:
    return " | ".join(map(said, (row.part, row.metric, row.method, row.expected, row.measured, row.reading)))


def _reserves(one: Advice) -> Iterator[str]:
    """What the advice does not cover, and when to measure again."""
    if one.limits:
        yield f"limits: {'; '.join(one.limits)}"
    if one.again:
        yield f"again: {'; '.join(one.again)}"


def _nested(because: Sequence[str]) -> str:
    return "\n".join(f"  - {said(reason, 600)}" for reason in because)


def _fitted(section: _Section, left: int) -> list[str]:
    """The section's lines within ``left`` bytes; a sentence for the rows that do not fit, nothing without room."""
    title = ["", f"### {section.title}", ""] if section.title else []
    lines = [*title, *section.head]
    room = left - _size(lines) - _size([_left_out(section, len(section.rows))])
    if room < 0:
        return []
    kept = 0
    for row in section.rows:
        if (room := room - _size([row])) < 0:
            break
        kept += 1
    lines += section.rows[:kept]
    missing = len(section.rows) - kept
    return [*lines, "", _left_out(section, missing)] if missing else lines


def _left_out(section: _Section, missing: int) -> str:
    said_so = f"{missing} of {len(section.rows)} {section.noun} left out here to keep this below 65 kB"
    return f"_{said_so}; the HTML and JSON reports hold all of them._"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _count_rows(report: Report) -> Iterator[str]:
    for outcome, number in counts(report.verdicts).items():
        softened = sum(1 for v in report.verdicts if v.outcome is outcome and v.softened)
        note = f", {softened} of them softened" if softened else ""
        yield f"| {_SIGNS[outcome]} {outcome.value} | {number}{note} |"


def _label(verdict: Verdict) -> str:
    softened = f" ({said(soft(verdict))})" if verdict.softened else ""
    return f"{_SIGNS[verdict.outcome]} {verdict.outcome.value}{softened}"


def _reason(group: Sequence[Verdict], view: CaseView | None) -> str:
    """One sentence for all verdicts that it explains, and what a changed speed of the first is made of."""
    verdict, *others = group
    line = f"- **{_label(verdict)}** {code(verdict.gate)} on {code(verdict.case)}"
    line += f" and {len(others)} more: " if others else ": "
    line += said(verdict.reason, 600)
    if view is not None and (told := behind(verdict, view)):
        line += f". {said(told[0], 600)}"
    if verdict.softened:
        line += f" ({said(verdict.softened)})"
    if verdict.advice:
        line += f" _Next: {said(verdict.advice)}_"
    return f"{line} ({code(verdict.location)})"


def _gate_row(verdict: Verdict) -> str:
    numbers = [shown_or_unmeasured(verdict.metric, found) for found in (verdict.measured, verdict.baseline)]
    limits = ", ".join(required(check) for check in verdict.checks if check.required) or "-"
    baseline = numbers[1] if verdict.baseline is not None else "-"
    cells = (code(verdict.case), code(verdict.gate), said(numbers[0]), said(baseline), said(limits), _label(verdict))
    return f"| {' | '.join(cells)} | {said(_looks(verdict.checks))} |"


def _looks(checks: Sequence[Check]) -> str:
    return max((looks_of(check) for check in checks), key=len, default="") or "-"


def _arms_rows(view: CaseView) -> Iterator[str]:
    if view.samples is None or view.measurement is None:
        return
    for row in arms(view.samples, dict(view.measurement.memory)):
        cells = [text(row.reference, row.unit), text(row.candidate, row.unit), ratio_text(row)]
        yield f"| {_case_of(view)} | {row.label} | {' | '.join(map(said, cells))} |"


def _notes(report: Report, views: Sequence[CaseView]) -> Iterator[str]:
    yield from (f"- {said(warning)}" for warning in report.warnings)
    yield from (f"- {said(room)}" for room in room_for_requests(views))
    for view in views:
        name = _case_of(view)
        if view.problem:
            yield f"- {name}: {said(view.problem)}"
        if view.measurement is not None:
            yield from (f"- {name}: {said(warning)}" for warning in view.measurement.warnings)
            broken = [one for one in view.measurement.findings if not one.held]
            yield from (f"- {name}: rule {said(one.rule)} did not hold: {said(one.detail)}" for one in broken)
