"""The whole page: verdict summary first, then every suite, engine and case; never above 4 MB.

Pictures are left out case by case, those of passing cases first, where the page would grow beyond its size, and then
whole cases; a sentence says so. The page runs no script and loads nothing: its policy allows one style sheet, by its
hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from pytest_specgate.report.document import Report
from pytest_specgate.report.html.advice import advice
from pytest_specgate.report.html.case import case, setting
from pytest_specgate.report.html.markup import EMPTY, Markup, joined, pairs, tag
from pytest_specgate.report.html.matrix import matrices
from pytest_specgate.report.html.series import by_concurrency
from pytest_specgate.report.html.style import STYLE
from pytest_specgate.report.html.summary import fitted, overview, size, summary
from pytest_specgate.report.outline import CaseView, outline, worst_views
from pytest_specgate.report.phrases import headline, place_of, scoring_of_all

MOST_BYTES = 4_000_000
_ROOM_FOR_ENGINES = 600_000  # their settings, and their pictures over concurrency
_MARGIN = 100_000  # the frame: head, policy, style, headings, the overview's links
_LEGEND = (
    ("reference, candidate", "the target alone, and the target with speculation"),
    ("intervals of gates", "hold the gate's own error rate, shared among all gates of the build"),
    ("intervals elsewhere", "95 %, on these prompts; requests that ran at the same time count as one"),
    ("dashed line", "break-even: no faster and no slower than without speculation"),
    ("dotted line", "the gate's own limit"),
    ("candidate ÷ reference", "of times and rates, the mean over pairs of one prompt; medians may differ otherwise"),
    ("quantile strips", "thin from 5 to 95 %, thick for the middle half, a dot for the median, a tick for 99 %"),
    ("not measured", "the engine or the run does not tell it; never zero, and never a pass"),
)


def html(report: Report) -> str:
    """The page as one text."""
    views = outline(report)
    engines = _engine_heads(views)
    first = summary(report, views)
    everything = {id(view): f"case-{number}" for number, view in enumerate(views, 1)}
    advised, tables = advice(report.advice), matrices(report.matrices)
    heads = (first, tables, advised, overview(views, everything), *engines.values())
    fixed = sum(map(size, heads)) + _MARGIN
    bodies, note = _bodies(views, everything, MOST_BYTES - fixed)
    anchors = {key: anchor for key, anchor in everything.items() if bodies[key]}
    suites = _suites(views, engines, bodies)
    shown = (first, tables, advised, note, overview(views, anchors), *suites, _machine(report), _legend())
    main = tag("main", *shown, id="main")
    notes = filter(None, (place_of(report), scoring_of_all(report)))
    head = tag("header", tag("h1", headline(report)), *(tag("p", note, class_="note") for note in notes))
    skip = tag("a", "Skip to the summary", href="#main", class_="skip")
    body = tag("body", skip, head, main, tag("footer", tag("p", f"pytest-specgate {report.version}")))
    return f"<!doctype html>\n{tag('html', _head(headline(report)), body, lang='en')}\n"


def _head(title: str) -> Markup:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )


def _bodies(views: Sequence[CaseView], anchors: Mapping[int, str], room: int) -> tuple[dict[int, Markup], Markup]:
    """Every case's section, the worst made first while there is room; nothing for those that there was none for."""
    bodies: dict[int, Markup] = {}
    plain = absent = 0
    for view in worst_views(views):
        made = EMPTY if plain else case(view, anchors[id(view)])
        if not made or size(made) > room:
            plain += 1
            made = EMPTY if absent else case(view, anchors[id(view)], pictures=False)
        if not made or size(made) > room:
            absent += 1
            made = EMPTY
        bodies[id(view)] = made
        room -= size(made)
    return bodies, _left_out(len(views), plain - absent, absent)


def _left_out(cases: int, plain: int, absent: int) -> Markup:
    parts = [f"{plain} have no pictures"] if plain else []
    parts += [f"{absent} stand in the overview alone"] if absent else []
    if not parts:
        return EMPTY
    said = f"To keep this page below 4 MB, of {cases} cases {' and '.join(parts)}. The JSON report holds everything."
    return tag("p", said, class_="problem")


def _suites(
    views: Sequence[CaseView], engines: Mapping[tuple[str, str], Markup], bodies: Mapping[int, Markup]
) -> Iterator[Markup]:
    for suite, of_suite in groupby(views, key=lambda view: view.suite):
        sections = []
        for name, group in groupby(of_suite, key=lambda view: view.engine):
            inside = [engines[suite, name], *(bodies[id(view)] for view in group)]
            if any(inside):
                sections.append(tag("section", tag("h3", f"Engine {name}"), *inside))
        if sections:
            yield tag("section", tag("h2", f"Suite {suite}"), *sections, aria_label=f"Suite {suite}")


def _engine_heads(views: Sequence[CaseView]) -> dict[tuple[str, str], Markup]:
    """What all cases of an engine share: place and subject, and the pictures over concurrency; while there is room."""
    groups: dict[tuple[str, str], list[CaseView]] = {}
    for view in views:
        groups.setdefault((view.suite, view.engine), []).append(view)
    made, _ = fitted((joined([setting(group), by_concurrency(group)]) for group in groups.values()), _ROOM_FOR_ENGINES)
    return {key: made[number] if number < len(made) else EMPTY for number, key in enumerate(groups)}


def _machine(report: Report) -> Markup:
    if not report.machine:
        return EMPTY
    return tag(
        "section", tag("h2", "Machine", id="machine"), pairs("Machine", report.machine), aria_labelledby="machine"
    )


def _legend() -> Markup:
    """How to read it."""
    rows = joined(joined([tag("dt", term), tag("dd", said)]) for term, said in _LEGEND)
    return tag("section", tag("h2", "How to read this", id="legend"), tag("dl", rows), aria_labelledby="legend")
