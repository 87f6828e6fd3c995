"""What changes with the number of requests at once: speedup and break-even, throughput against latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_specgate.metrics import Unit
from pytest_specgate.report import loads, numbers
from pytest_specgate.report.html import svg, tables
from pytest_specgate.report.html.markup import EMPTY, Markup, joined, tag
from pytest_specgate.report.html.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Scale
from pytest_specgate.report.numbers import Estimate, text
from pytest_specgate.report.outline import CaseView
from pytest_specgate.report.served import room_for_requests
from pytest_specgate.units import format_value

_HEIGHT = 170
_ARMS = {"reference_": "reference", "": "candidate"}


def by_concurrency(views: Sequence[CaseView]) -> Markup:
    """Both pictures for every scenario that ran at several concurrencies; nothing where none did."""
    groups: dict[str, list[tuple[int, CaseView]]] = {}
    for view in views:
        if view.series is not None and view.samples is not None:
            groups.setdefault(view.series[0], []).append((view.series[1], view))
    known = {name: sorted(group, key=lambda one: one[0]) for name, group in groups.items() if group[1:]}
    pictures = [_pictures(name, group) for name, group in known.items()]
    rates = [_table(name, group) for name, group in known.items()]
    rooms = [tag("p", f"{room}.", class_="note") for room in room_for_requests(views)]
    return joined([tag("div", *pictures, class_="figures"), *rates, *rooms]) if pictures else EMPTY


def _pictures(name: str, group: Sequence[tuple[int, CaseView]]) -> Markup:
    found = loads.by_concurrency([view for _, view in group])
    over = tables.throughput(f"Throughput by requests at once: {name}", found)
    return joined([_speedup(name, group), over, _throughput(name, group)])


def _table(name: str, group: Sequence[tuple[int, CaseView]]) -> Markup:
    found = loads.by_concurrency([view for _, view in group])
    return tables.load_table(found, f"{name}; medians, 95 % intervals") if found else EMPTY


def _speedup(name: str, group: Sequence[tuple[int, CaseView]]) -> Markup:
    title = f"Speedup against concurrency: {name}"
    found = [(n, one) for n, view in group if view.samples and (one := numbers.speedup(view.samples)) is not None]
    if len(found) < 2:
        return svg.absent(title, "not measured at two concurrencies or more")
    across = Scale(found[0][0], found[-1][0], LEFT + 16, WIDTH - RIGHT - 16, log=found[0][0] > 0)
    up = Scale(*svg.around([end for _, one in found for end in numbers.ends(one)], [1.0]), _HEIGHT - BOTTOM, TOP)
    parts = [svg.y_axis(up, lambda value: f"{value:.3g}x"), svg.line(LEFT, up(1.0), WIDTH - RIGHT, up(1.0), "even")]
    parts.append(svg.path([(across(n), up(one.value)) for n, one in found], "curve candidate"))
    for n, one in found:
        kind = "worse" if one.value < 1 else "candidate"
        if one.low is not None and one.high is not None:
            parts.append(svg.line(across(n), up(one.low), across(n), up(one.high), f"whisker {kind}"))
        parts.append(svg.dot(across(n), up(one.value), kind, f"{n} at once: {text(one, Unit.RATIO)}"))
        parts.append(svg.text(across(n), _HEIGHT - 17, str(n)))
    parts.append(svg.text((LEFT + WIDTH) / 2, _HEIGHT - 4, "requests at once"))
    said = "; ".join(f"{n} at once: {text(one, Unit.RATIO)}" for n, one in found)
    return svg.figure(title, said, _HEIGHT, parts, f"{said}. {_break_even(found)}")


def _break_even(found: Sequence[tuple[int, Estimate]]) -> str:
    losing = [n for n, one in found if one.high is not None and one.high < 1]
    gaining = [n for n, one in found if one.low is not None and one.low > 1]
    if losing:
        return f"Slower than without speculation at {', '.join(map(str, losing))} at once."
    if len(gaining) == len(found):
        return "Faster than without speculation at every concurrency measured."
    return "Not told apart from break-even at every concurrency measured."


def _throughput(name: str, group: Sequence[tuple[int, CaseView]]) -> Markup:
    title = f"Throughput against latency: {name}"
    curves = {arm: _curve(prefix, group) for prefix, arm in _ARMS.items()}
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return svg.absent(title, "not measured")
    across = Scale(*svg.around([end for _, rate, _ in points for end in numbers.ends(rate)]), LEFT, WIDTH - RIGHT)
    up = Scale(*svg.around([e for _, _, seconds in points for e in numbers.ends(seconds)]), _HEIGHT - BOTTOM, TOP + 6)
    parts = [svg.y_axis(up, lambda value: format_value(value, Unit.SECONDS))]
    parts.append(svg.x_axis(across, TOP, _HEIGHT - BOTTOM, lambda value: f"{value:.4g}", "tokens per second"))
    said = []
    for arm, curve in curves.items():
        at = [(n, across(rate.value), up(seconds.value)) for n, rate, seconds in curve]
        parts.append(svg.path([(x, y) for _, x, y in at], f"curve {arm}"))
        parts.append(svg.lines(_spans(curve, across, up), f"whisker {arm}"))
        for (n, x, y), (_, rate, seconds) in zip(at, curve):
            said.append(f"{arm}, {n} at once: {text(rate, Unit.RATE)}, {text(seconds, Unit.SECONDS)}")
            parts += [svg.dot(x, y, arm, said[-1]), svg.text(x, y - 6, str(n))]
    note = "Upwards: median seconds to the last token. Grey: reference, blue: candidate; numbers: requests at once."
    return svg.figure(title, "; ".join(said), _HEIGHT, parts, note)


_Point = tuple[int, Estimate, Estimate]


def _curve(prefix: str, group: Sequence[tuple[int, CaseView]]) -> list[_Point]:
    """(concurrency, tokens per second, seconds) as medians, where both were measured."""
    found = []
    for n, view in group:
        if view.samples is None:
            continue
        rate = numbers.median(view.samples, f"{prefix}throughput")
        seconds = numbers.median(view.samples, f"{prefix}e2el")
        if rate is not None and seconds is not None:
            found.append((n, rate, seconds))
    return found


def _spans(curve: Sequence[_Point], across: Scale, up: Scale) -> Iterator[tuple[float, float, float, float]]:
    """Both intervals of every point, as far as they are known."""
    for _, rate, seconds in curve:
        x, y = across(rate.value), up(seconds.value)
        if rate.low is not None and rate.high is not None:
            yield across(rate.low), y, across(rate.high), y
        if seconds.low is not None and seconds.high is not None:
            yield x, up(seconds.low), x, up(seconds.high)
