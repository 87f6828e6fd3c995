"""Trends as one HTML file without scripts or network: a table, what happened, and a picture for each series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pytest_specgate.history.series import Series
from pytest_specgate.history.trend import ERROR, Trend
from pytest_specgate.history.wording import distance_text, name, notes, now_text, told
from pytest_specgate.report.html import svg
from pytest_specgate.report.html.markup import Markup, joined, table, tag
from pytest_specgate.report.html.style import STYLE
from pytest_specgate.units import format_value

_HEIGHT = 150


def page(found: Sequence[Trend], problems: Sequence[str], hide: Callable[[str], str] = str) -> str:
    """The file's text; ``hide`` is applied to every text of the history."""
    worse = sum(any(kind == "WORSE" for kind, _ in told(trend)) for trend in found)
    title = f"Trends: {worse} of {len(found)} series got worse" if worse else f"Trends: none of {len(found)} got worse"
    promise = (
        f"Steps and drifts are claimed with {ERROR:.0%} error for all series together; distances have 95 % limits."
    )
    head = tag("head", Markup('<meta charset="utf-8">'), _viewport(), tag("title", title), tag("style", Markup(STYLE)))
    body = joined(
        [
            tag("h1", title),
            tag("p", promise, class_="note"),
            *_happened(found, hide),
            tag("h2", "Levels"),
            _levels(found, hide),
            tag("h2", "Courses"),
            tag("div", *(_picture(trend, hide) for trend in found), class_="figures"),
            *(tag("p", hide(problem), class_="note") for problem in problems),
        ]
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}<body><main>{body}</main></body></html>\n'


def _viewport() -> Markup:
    return tag("meta", name="viewport", content="width=device-width,initial-scale=1")


def _happened(found: Sequence[Trend], hide: Callable[[str], str]) -> Iterator[Markup]:
    """An entry for each thing that happened; what belongs to it stands below."""
    entries: list[tuple[list[str], list[Markup]]] = []
    for kind, sentence in (one for trend in found for one in told(trend)):
        if kind:
            entries.append(([kind, hide(sentence)], []))
        elif entries:
            entries[-1][1].append(tag("li", tag("small", hide(sentence))))
    entries += [(["note", hide(note)], []) for note in notes(found)]
    items = (
        tag("li", tag("b", kind), f" {sentence}", *([tag("ul", *below)] if below else []))
        for (kind, sentence), below in entries
    )
    yield tag("ul", *items)


def _levels(found: Sequence[Trend], hide: Callable[[str], str]) -> Markup:
    headers = ("metric", "case", "place", "runs", "now", "since the baseline", "since the first")
    rows = (
        (
            trend.series.label,
            hide(trend.series.case),
            hide(trend.series.place),
            str(len(trend.series.points)),
            now_text(trend),
            distance_text(trend.series, trend.baseline),
            distance_text(trend.series, trend.anchor),
        )
        for trend in found
    )
    return table("Present levels and their distance from stored values", headers, rows)


def _picture(trend: Trend, hide: Callable[[str], str]) -> Markup:
    series = trend.series
    values = [point.value for point in series.points]
    stored = [one.stored for one in (trend.anchor, trend.baseline) if one is not None]
    x = svg.Scale(-0.5, max(len(values) - 0.5, 0.5), svg.LEFT, svg.WIDTH - svg.RIGHT)
    y = svg.Scale(*svg.around(values, stored), _HEIGHT - svg.BOTTOM, svg.TOP)
    dots = [
        svg.dot(x(number), y(value), "candidate", _said(series, number, hide)) for number, value in enumerate(values)
    ]
    places = {point.run.created: number for number, point in enumerate(series.points)}
    steps = [
        (
            x(places[step.first.run.created] - 0.5),
            svg.TOP,
            x(places[step.first.run.created] - 0.5),
            _HEIGHT - svg.BOTTOM,
        )
        for step in trend.steps
    ]
    anchor = (
        []
        if trend.anchor is None
        else [svg.line(x.start, y(trend.anchor.stored), x.end, y(trend.anchor.stored), "even")]
    )
    parts = [
        svg.y_axis(y, lambda value: format_value(value, series.metric.unit)),
        *anchor,
        svg.lines(steps, "limit"),
        *dots,
        svg.text((x.start + x.end) / 2, _HEIGHT - 8, f"{name(series.points[0])} to {name(series.points[-1])}"),
    ]
    note = "dashed: the first baseline; dotted: steps" if anchor else "dotted: steps"
    happened = "; ".join(hide(sentence) for kind, sentence in told(trend) if kind)
    label = happened or ("too few runs to show a change" if trend.needed else "no change")
    return svg.figure(hide(f"{series.label} of {series.case}"), label, _HEIGHT, parts, note)


def _said(series: Series, number: int, hide: Callable[[str], str]) -> str:
    point = series.points[number]
    return hide(f"{name(point)}, {point.run.created}: {format_value(point.value, series.metric.unit)}")
