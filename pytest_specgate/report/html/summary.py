"""What a reader sees first: counts, what did not pass and why, and a row for every case with a link to it.

Each list has room of its own; what does not fit is counted in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.report import numbers
from pytest_specgate.report.document import Report
from pytest_specgate.report.html.case import label
from pytest_specgate.report.html.markup import EMPTY, Markup, badge, joined, table, tag
from pytest_specgate.report.numbers import text
from pytest_specgate.report.outline import (
    WORST_FIRST,
    CaseView,
    alike,
    case_name,
    counts,
    engine_of,
    related,
    worst_first,
)
from pytest_specgate.report.phrases import behind
from pytest_specgate.units import many

_ROOM_FOR_TROUBLES, _ROOM_FOR_CASES, _ROOM_FOR_WARNINGS = 500_000, 500_000, 50_000
_MOST_OPEN = 6  # reasons of one entry that show at once


def summary(report: Report, views: Sequence[CaseView]) -> Markup:
    """Counts, then what did not pass and why, then what the run warned of."""
    found = counts(report.verdicts)
    cards = [tag("li", tag("b", str(found[o])), " ", badge(o), class_="card") for o in WORST_FIRST]
    waiting = [verdict for verdict in worst_first(report.verdicts) if verdict.outcome is not Outcome.PASS]
    warnings, left_out = fitted((tag("li", warning) for warning in report.warnings), _ROOM_FOR_WARNINGS)
    judged = f"{many(len(report.verdicts), 'gate')} on {many(len(views), 'case')}"
    parts = [
        tag("h2", "Summary", id="summary"),
        tag("ul", *cards, class_="cards", aria_label="How many gates came to what"),
        tag("p", f"{judged}. {_exit(report.exit_status)}"),
        _troubles(waiting, {id(verdict): view for view in views for verdict in view.verdicts}),
        joined([tag("h3", "Warnings"), tag("ul", *warnings), _rest(left_out, "warnings")]) if warnings else EMPTY,
    ]
    return tag("section", *parts, aria_labelledby="summary")


def overview(views: Sequence[CaseView], anchors: Mapping[int, str]) -> Markup:
    """A row for every case, with a link to it; ``anchors`` are of those that the page shows, by the view's id."""
    rows, used = list[tuple[Markup | str, ...]](), 0
    for view in views:
        row = _row(view, anchors.get(id(view)))
        used += sum(size(joined([cell])) for cell in row) + 60
        if used > _ROOM_FOR_CASES:
            break
        rows.append(row)
    heads = ("case", "engine", "suite", "gates", "speedup")
    made = table("All cases", heads, rows) if rows else tag("p", "No case was judged or measured.")
    more = _rest(len(views) - len(rows), "cases")
    return tag("section", tag("h2", "Cases", id="cases"), made, more, aria_labelledby="cases")


def fitted(parts: Iterable[Markup], room: int) -> tuple[list[Markup], int]:
    """(the parts from the first on that fit into ``room`` bytes, how many others there are)."""
    kept, left_out = list[Markup](), 0
    for part in parts:
        room -= size(part)
        if room < 0 or left_out:
            left_out += 1
        else:
            kept.append(part)
    return kept, left_out


def size(markup: str) -> int:
    """Bytes in UTF-8."""
    return len(markup.encode())


def _rest(number: int, noun: str) -> Markup:
    """What a list left out."""
    said = f"{number} more {noun} are left out to keep this page below 4 MB; the JSON report holds them."
    return tag("p", said, class_="problem") if number else EMPTY


def _exit(status: int) -> str:
    said = {0: "the build passes", 1: "the build fails", 2: "the run was interrupted", 5: "no test was collected"}
    return f"Exit status {status}: {said.get(status, 'pytest could not run as asked')}."


def _troubles(verdicts: Sequence[Verdict], views: Mapping[int, CaseView]) -> Markup:
    """One entry for every engine and thing to look at next, with its reasons."""
    items, left_out = fitted((tag("li", _trouble(group, views)) for group in related(verdicts)), _ROOM_FOR_TROUBLES)
    if not verdicts:
        return EMPTY
    entries = tag("ol", *items, class_="troubles") if items else EMPTY
    return joined([tag("h3", "What did not pass, and why"), entries, _rest(left_out, "entries")])


def _trouble(group: Sequence[Verdict], views: Mapping[int, CaseView]) -> Markup:
    first = group[0]
    gates = many(len(group), "gate")
    lines, left_out = fitted((tag("li", _reason(ones, views)) for ones in alike(group)), _ROOM_FOR_TROUBLES // 10)
    folded = lines[_MOST_OPEN:]
    more = tag("details", tag("summary", f"{len(folded)} more"), tag("ul", *folded)) if folded else EMPTY
    advice = tag("p", f"Next: {first.advice}", class_="note") if first.advice else EMPTY
    head = joined([label(first), " ", tag("b", engine_of(first)), f": {gates}"])
    return joined([head, tag("ul", *lines[:_MOST_OPEN]), more, _rest(left_out, "reasons"), advice])


def _reason(group: Sequence[Verdict], views: Mapping[int, CaseView]) -> Markup:
    """One reason, the gates it speaks for, and what stands behind it: since when, and what a speed is made of."""
    first, *others = group
    more = f" and {len(others)} more" if others else ""
    where = joined([tag("b", first.gate), " on ", tag("bdi", case_name(first)), more, ": "])
    view = views.get(id(first))
    told = ". ".join(behind(first, view)) if view is not None else ""
    history = tag("div", f"{told[0].upper()}{told[1:]}.", class_="note") if told else EMPTY
    return joined([where, f"{first.reason}. ", tag("code", first.location), history])


def _row(view: CaseView, anchor: str | None) -> tuple[Markup | str, ...]:
    speed = numbers.speedup(view.samples) if view.samples else None
    outcomes = joined([badge(o, f"{view.outcomes[o]} {o.value}") for o in WORST_FIRST if view.outcomes[o]], " ")
    name = tag("a", view.name, href=f"#{anchor}") if anchor else view.name
    return (name, view.engine, view.suite, outcomes, text(speed, Unit.RATIO))
