"""Trends for a terminal: a table for each case with sparklines, then sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from pytest_specgate.history.sparkline import sparkline
from pytest_specgate.history.trend import ERROR, Trend
from pytest_specgate.history.wording import distance_text, name, notes, now_text, told
from pytest_specgate.report.escape import flat, in_ascii
from pytest_specgate.units import many


def lines(found: Sequence[Trend], problems: Sequence[str], *, ascii_only: bool = False) -> Iterator[str]:
    """A table for each case, then what happened, then what could not be read."""
    groups: dict[tuple[str, str, str], list[Trend]] = {}
    for trend in found:
        groups.setdefault((trend.series.suite, trend.series.case, trend.series.place), []).append(trend)
    for (suite, case, place), group in groups.items():
        points = max((trend.series.points for trend in group), key=len)
        runs = many(len(points), "run")
        yield flat(f"{suite} · {case} · {place} · {runs}, {name(points[0])} to {name(points[-1])}")
        yield from _table(group, ascii_only=ascii_only)
        yield ""
    for trend in found:
        for kind, sentence in told(trend):
            yield f"{kind} {flat(sentence)}" if kind else f"    {flat(sentence)}"
    yield from (f"note {flat(note)}" for note in notes(found))
    yield from (f"warning: {flat(problem)}" for problem in problems)
    count = "1 series" if len(found) == 1 else f"{len(found)} series"
    yield f"Steps and drifts of {count}: {ERROR:.0%} error for all together; distances have 95 % limits."


def _table(group: Sequence[Trend], *, ascii_only: bool) -> list[str]:
    headers = ["metric", "trend", "now", "since the baseline", "since the first"]
    rows = [
        [
            trend.series.label,
            sparkline([point.value for point in trend.series.points], ascii_only=ascii_only),
            now_text(trend),
            distance_text(trend.series, trend.baseline),
            distance_text(trend.series, trend.anchor),
        ]
        for trend in group
    ]
    if ascii_only:
        rows = [[in_ascii(cell) for cell in row] for row in rows]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()
