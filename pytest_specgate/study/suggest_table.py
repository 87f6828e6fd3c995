"""Proposed gates as lines of a suite, rounded away from trouble, each with what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_specgate.labels import metric_of, split
from pytest_specgate.metrics import Better, Family, Metric, Unit
from pytest_specgate.study.suggest import Proposal, Suggestion
from pytest_specgate.units import format_value

#: More than this is no allowance but a gate that is off.
MOST = 0.5
_MOST_OF = {Unit.FRACTION: 1.0, Unit.SCORE: 100.0}
_LEAST_SHARE, _LEAST_POINTS, _LEAST_SCORE = 0.01, 0.01, 0.5


def lines(found: Suggestion) -> Iterator[str]:
    """The whole proposal; what follows ``gates:`` can be pasted into the suite."""
    rate = f"a false-alarm rate of {100 * found.rate:.3g}% a build over {found.checks} checks"
    yield f"proposed from {found.runs} runs of unchanged code, for {rate}:"
    yield "gates:"
    open_ones = []
    for one in found.proposals:
        text = gate_text(one)
        if text is None:
            open_ones.append(one)
        else:
            yield f"  - {{{text}}}  # {_why(one)}"
    for one in open_ones:
        what = f"{one.engine}, {one.scenario}: {one.label}: no limit is proposed, {_why(one)}"
        yield f"note: {what}" + ("" if one.exact else "; more runs, or more measure.rounds, would allow one")
    yield from (f"note: {note}" for note in found.notes)


def gate_text(one: Proposal) -> str | None:
    """``metric: speedup, limit: ">=1.42x", max_drop: "3.5%", engines: [tiny], scenarios: [qa]``.

    None for a gate that would be off, or could not fail.
    """
    (name, statistic), metric = split(one.label), metric_of(one.label)
    parts = [f"metric: {name}", *([f"statistic: {statistic}"] if statistic else [])]
    if one.exact and one.level == 1.0 and metric.unit is Unit.FRACTION:
        parts.append('limit: "==100%"')
    elif _off(one, metric):
        return None
    elif demands := list(_demands(one, metric)):
        parts += demands
    else:
        return None
    return ", ".join([*parts, f"engines: [{one.engine}]", f"scenarios: [{one.scenario}]"])


def _off(one: Proposal, metric: Metric) -> bool:
    """Whether so much would be allowed that the gate stood for nothing."""
    if metric.unit is Unit.SLOPE:  # a share cannot fall by more in a doubling
        return _change(one, metric) >= 1
    return not one.by_points and one.change > MOST


def _demands(one: Proposal, metric: Metric) -> Iterator[str]:
    """A limit, and an allowed change from the baseline; neither where nothing that can be measured would break it."""
    low, high = _ends(one, metric)
    least, most = _possible(metric)
    floor = _down(low, metric.unit) if _digits(low, up=False) > least else ""
    ceiling = _up(high, metric.unit) if _digits(high, up=True) < most else ""
    if metric.better is Better.NEITHER:
        if floor or ceiling:
            yield f'limit: "{floor}..{ceiling}"' if floor and ceiling else f'limit: "{_one_sided(floor, ceiling)}"'
    elif metric.better is Better.LOWER:
        if ceiling:
            yield f'limit: "<={ceiling}"'
        if one.level + _whole(one, metric) < most:
            yield f'max_rise: "{_allowed(one, metric)}"'
    else:
        if floor and metric.unit is not Unit.SLOPE:  # of a slope about zero, what counts is its change
            yield f'limit: ">={floor}"'
        if one.level - _whole(one, metric) > least:
            yield f'max_drop: "{_allowed(one, metric)}"'


def _one_sided(floor: str, ceiling: str) -> str:
    return f">={floor}" if floor else f"<={ceiling}"


def _possible(metric: Metric) -> tuple[float, float]:
    """The least and the most that the metric can be, whatever the code does."""
    if metric.family in (Family.DECAY, Family.GROWTH):
        return -math.inf, math.inf
    least = 1.0 if metric.name == "acceptance_length" else 0.0  # a round emits a token, whatever is accepted
    return least, _MOST_OF.get(metric.unit, math.inf)


def _ends(one: Proposal, metric: Metric) -> tuple[float, float]:
    """What unchanged builds stay within; about a number that was always the same, room for a turned tie."""
    if one.exact:
        least = _LEAST_SCORE if metric.unit is Unit.SCORE else _LEAST_POINTS if one.by_points else _LEAST_SHARE
        room = least if one.by_points else least * one.level
        return one.level - room, one.level + room
    room = abs(one.level - one.bound)
    return one.level - room, one.level + room


def _change(one: Proposal, metric: Metric) -> float:
    """The allowed change, as a share or in points, rounded up from no less than a person would write."""
    if metric.unit is Unit.SCORE:
        return _ceil(max(one.change, _LEAST_SCORE), 0.1)
    if one.by_points:
        return _ceil(max(one.change, _LEAST_POINTS), 0.001)
    return _ceil(max(one.change, _LEAST_SHARE), 0.005)


def _whole(one: Proposal, metric: Metric) -> float:
    """The allowed change in the metric's unit."""
    return _change(one, metric) * (1.0 if one.by_points else abs(one.level))


def _allowed(one: Proposal, metric: Metric) -> str:
    change = _change(one, metric)
    if metric.unit is Unit.SCORE:
        return f"{change:.1f}"
    return f"{change:.3g}" if one.by_points else f"{100 * change:.1f}%"


def _ceil(value: float, step: float) -> float:
    return math.ceil(value / step - 1e-9) * step


def _digits(value: float, *, up: bool) -> float:
    """Three significant digits, rounded up or down."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return (math.ceil(value / step - 1e-9) if up else math.floor(value / step + 1e-9)) * step


def _down(value: float, unit: Unit) -> str:
    return _written(_digits(value, up=False), unit)


def _up(value: float, unit: Unit) -> str:
    return _written(_digits(value, up=True), unit)


def _written(value: float, unit: Unit) -> str:
    if unit is Unit.SECONDS:
        return f"{value * 1e3:.6g} ms"
    if unit is Unit.BYTES:
        return f"{math.ceil(value / 2**20)} MiB"
    if unit is Unit.FRACTION:
        return f"{100 * min(value, 1.0):.4g}%"
    return f"{value:.6g}{'x' if unit is Unit.RATIO else ' tokens/s' if unit is Unit.RATE else ''}"


def _why(one: Proposal) -> str:
    unit = metric_of(one.label).unit
    level = format_value(one.level, unit)
    if one.exact:
        return f"{level} in every run"
    scatter = format_value(one.scatter, unit) if one.by_points else f"{one.scatter:.2%}"
    return f"{level}, runs differ by {scatter}"
