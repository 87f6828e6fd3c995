"""A suite's matrix on the page: a table of words, its reasons below it by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pytest_specgate.report.html.markup import EMPTY, Markup, joined, tag
from pytest_specgate.report.tabled import Cell, Laid, Matrix, State, counted, laid

#: In a table of hundreds of cells a word must be short; the colour repeats what it says.
_WORDS = {
    State.EXACT: ("exact", "pass"),
    State.TIES: ("ties", "pass"),
    State.UNCOMPARED: ("runs", "unknown"),
    State.PARTIAL: ("in part", "unknown"),
    State.REFUSED: ("refused", "unknown"),
    State.UNDECIDED: ("undecided", "inconclusive"),
    State.BROKEN: ("broken", "fail"),
    State.ABSENT: ("not run", ""),
}

_MEANING = (
    "Exact: every gate passed, and both arms gave the same tokens. Ties: every gate passed, and texts part where the "
    "target scores two tokens alike. Red: the build fails. Numbers lead to reasons."
)


def matrices(found: Mapping[str, Matrix]) -> Markup:
    """A section with a table for every suite that has a matrix; nothing without one."""
    if not found:
        return EMPTY
    parts = [_matrix(number, suite, matrix) for number, (suite, matrix) in enumerate(found.items(), 1)]
    return tag("section", tag("h2", "What works", id="matrices"), *parts, aria_labelledby="matrices")


def _matrix(number: int, suite: str, matrix: Matrix) -> Markup:
    table = laid(matrix)
    caption = f"{suite}: {' × '.join(axis.name for axis in matrix.axes)}"
    body = (_row(row.options, row.cells, table, f"note-{number}") for row in table.rows)
    made = tag("table", tag("caption", caption), _head(table), tag("tbody", *body), class_="matrix")
    framed = tag("div", made, class_="scroll", tabindex=0, role="group", aria_label=caption)
    notes = [tag("li", note, id=f"note-{number}-{at}") for at, note in enumerate(table.notes, 1)]
    sums = tag("p", f"{counted(matrix, signs=False)}. {_MEANING}", class_="note")
    return joined([framed, sums, tag("ol", *notes) if notes else EMPTY])


def _head(table: Laid) -> Markup:
    """One line of heads, or two where columns have groups."""
    grouped = len(table.groups) > 1 or bool(table.groups[0])
    rows = 2 if grouped else 1
    axes = [tag("th", name, scope="col", rowspan=rows) for name in table.heads]
    inner = [tag("th", option, scope="col") for _ in table.groups for option in table.inner]
    if not grouped:
        return tag("thead", tag("tr", *axes, *inner))
    groups = [tag("th", " ".join(group), scope="colgroup", colspan=len(table.inner)) for group in table.groups]
    return tag("thead", tag("tr", *axes, *groups), tag("tr", *inner))


def _row(options: Iterable[str], cells: Iterable[Cell | None], table: Laid, anchor: str) -> Markup:
    heads = [tag("th", option, scope="row") for option in options]
    return tag("tr", *heads, *(tag("td", *_cell(cell, table, anchor)) for cell in cells))


def _cell(cell: Cell | None, table: Laid, anchor: str) -> Iterator[Markup]:
    if cell is None:
        yield Markup("–")
        return
    word, kind = _WORDS[cell.state]
    if not cell.expected:
        kind = "fail"
    yield tag("span", word, class_=f"badge {kind}") if kind else tag("small", word)
    if (number := table.number(cell)) is not None:
        yield tag("sup", tag("a", str(number), href=f"#{anchor}-{number}", aria_label=f"reason {number}"))
