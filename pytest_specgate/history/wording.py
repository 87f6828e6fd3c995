"""Sentences about trends, the same for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_specgate.history.series import Point, Series
from pytest_specgate.history.trend import Distance, Drift, Step, Trend
from pytest_specgate.metrics import Unit
from pytest_specgate.units import format_value, many


def change_text(series: Series, change: float) -> str:
    """``-19.0%``, or ``-3.1 points`` of a share or score."""
    if series.relative:
        return f"{change:+.1%}"
    points = change if series.metric.unit is Unit.SCORE else 100 * change
    return f"{points:+.1f} points"


def distance_text(series: Series, found: Distance | None) -> str:
    """``-19.4% [-21.0%, -17.7%]``, ``-`` where nothing is stored."""
    if found is None:
        return "-"
    ends = (found.change.low, found.change.high)
    value = change_text(series, found.change.value)
    if not all(math.isfinite(end) and abs(end) < 1e3 for end in ends) or ends[0] == ends[1]:
        return value
    return f"{value} [{', '.join(change_text(series, end).removesuffix(' points') for end in ends)}]"


def now_text(trend: Trend) -> str:
    """The present level with its limits."""
    unit, now = trend.series.metric.unit, trend.now
    value = format_value(now.value, unit)
    if now.low == now.high:
        return value
    return f"{value} [{format_value(now.low, unit)}, {format_value(now.high, unit)}]"


def name(point: Point) -> str:
    """A run as people name it: by its commit, else by its time (UTC), to the minute."""
    return point.commit[:12] or point.run.created[:16].replace("T", " ")


def told(trend: Trend) -> Iterator[tuple[str, str]]:
    """(``WORSE`` or ``BETTER``, sentence) of everything that happened to the series; what belongs to it has no word."""
    series = trend.series
    where = f"{series.case} {series.label}"
    for step in trend.steps:
        yield "WORSE" if step.worse else "BETTER", f"{where}: {_step(series, step)}"
        yield from (("", line) for line in _where(step))
    for drift in trend.drifts:
        yield "WORSE" if drift.worse else "BETTER", f"{where}: {_drift(series, drift)}"
    if trend.anchor is not None and trend.behind:
        first = f"the first baseline, of {trend.anchor.recorded}"
        yield "WORSE", f"{where}: {distance_text(series, trend.anchor)} against {first}{_forgiven(series, trend)}"


def notes(found: Sequence[Trend]) -> Iterator[str]:
    """What limits the trends, each once, with the series that it holds for."""
    holders: dict[str, list[str]] = {}
    for trend in found:
        for note in _notes(trend):
            holders.setdefault(note, []).append(f"{trend.series.case} {trend.series.label}")
    for note, (first, *others) in holders.items():
        if not others:
            yield f"{first}: {note}"
        elif len(others) + 1 == len(found):
            yield f"{'both' if len(found) == 2 else f'all {len(found)}'} series: {note}"
        else:
            yield f"{first} and {len(others)} more series: {note}"


def _forgiven(series: Series, trend: Trend) -> str:
    stored = trend.baseline
    if stored is None or trend.anchor is None or stored.recorded == trend.anchor.recorded:
        return ""
    return f", and {distance_text(series, stored)} against the present one, of {stored.recorded}"


def _values(series: Series, before: float, after: float, change: float) -> str:
    unit = series.metric.unit
    return f"{format_value(before, unit)} → {format_value(after, unit)} ({change_text(series, change)})"


def _step(series: Series, step: Step) -> str:
    return f"{_values(series, step.before, step.after, step.change)} since {name(step.first)}"


def _where(step: Step) -> Iterator[str]:
    """The commits that may have done it, and how to list them."""
    good, bad, kind = step.good, step.bad, "bad" if step.worse else "better"
    if step.same_commit:
        yield f"between two runs of one commit, {name(good)}: not the code, but the machine or what is installed"
    elif good.commit and bad.commit:
        yield f"first {kind} commit: after {name(good)}, up to {name(bad)} ({many(step.runs, 'run')}, 95 %)"
        yield f"list them: git log {good.commit[:12]}..{bad.commit[:12]}"
    else:
        yield f"first {kind} run: after {good.run.created}, up to {bad.run.created}"
    for what, was, now in step.subject:
        yield f"changed there: {what}: {was} → {now}"


def _drift(series: Series, drift: Drift) -> str:
    span = f"over {drift.runs} runs, {name(drift.first)} to {name(drift.last)}"
    return f"drifts: {_values(series, drift.before, drift.after, drift.change)} {span}, without a step"


def _notes(trend: Trend) -> Iterator[str]:
    series = trend.series
    if trend.needed:
        yield f"{many(len(series.points), 'run')} cannot show a change at this error; {trend.needed} could"
    if series.other_workloads:
        yield f"{series.other_workloads} earlier runs asked something else (prompts, parameters or target), left out"
    if series.broken:
        yield f"{series.broken} runs left out, in which an environment rule did not hold"
    if trend.alike:
        yield f"neighbouring runs are alike (correlation {trend.alike:.2f}): changes are claimed too easily here"
