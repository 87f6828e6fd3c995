"""Axes, bars and intervals as inline SVG: positions in, markup out, no data of its own.

A picture is for the eye: its ``label`` tells in words what it shows, and screen readers hear that in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pytest_specgate.report.html.markup import EMPTY, Markup, escape, joined, tag

WIDTH = 360
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 8, 30


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` onto pixels ``start`` to ``end``; by logarithm where ``log`` says so."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value; one beyond the ends is drawn at the end."""
        low, high, at = self._ends(value)
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def _ends(self, value: float) -> tuple[float, float, float]:
        if self.log:
            return math.log(self.low), math.log(self.high), math.log(max(value, self.low))
        return self.low, self.high, value

    def ticks(self, most: int = 5) -> list[float]:
        """Round values between the ends: 1, 2 or 5 times a power of ten."""
        span = self.high - self.low
        if span <= 0 or not math.isfinite(span):
            return [self.low]
        step = next(s for s in _steps(span / most) if span / s <= most)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _steps(least: float) -> Iterable[float]:
    power = 10.0 ** math.floor(math.log10(least))
    return (factor * power for factor in (1, 2, 5, 10, 20, 50))


def around(values: Iterable[float], also: Sequence[float] = (), margin: float = 0.06) -> tuple[float, float]:
    """Ends of a scale that shows all these values, with a margin."""
    found = [value for value in (*values, *also) if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    pad = (high - low) * margin or abs(high) * margin or 1.0
    return low - pad, high + pad


def text(x: float, y: float, said: str, class_: str | None = None) -> Markup:
    """A label about its middle; class ``end`` ends it there and ``start`` starts it. Long ones are cut."""
    kind = f' class="{class_}"' if class_ else ""
    return Markup(f'<text x="{_n(x)}" y="{_n(y)}"{kind}>{escape(said, 40)}</text>')


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return lines([(x1, y1, x2, y2)], class_)


def lines(ends: Iterable[tuple[float, float, float, float]], class_: str) -> Markup:
    """Straight lines of one kind."""
    told = "".join(f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" for x1, y1, x2, y2 in ends)
    return Markup(f'<path d="{told}" class="{class_}"/>') if told else EMPTY


def dot(x: float, y: float, class_: str, said: str = "") -> Markup:
    """A point, whose numbers are told where the mouse rests on it."""
    return Markup(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="3" class="{class_}">{_title(said)}</circle>')


def bar(box: tuple[float, float, float, float], class_: str, said: str = "") -> Markup:
    """A rectangle (x, y, width, height); heights and widths below zero are none."""
    x, y, width, height = (_n(max(value, 0)) for value in box)
    return Markup(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="{class_}">{_title(said)}</rect>')


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through the points."""
    told = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return Markup(f'<polyline points="{told}" class="{class_}"/>') if len(points) > 1 else EMPTY


def x_axis(scale: Scale, top: float, bottom: float, said: Callable[[float], str], name: str) -> Markup:
    """Ticks with grid lines, and what the axis shows."""
    ticks = scale.ticks()
    labels = [text(scale(value), bottom + 12, said(value)) for value in ticks]
    grid = lines([(scale(value), top, scale(value), bottom) for value in ticks], "grid")
    return joined([grid, *labels, text((scale.start + scale.end) / 2, bottom + 25, name)])


def y_axis(scale: Scale, said: Callable[[float], str], left: float = LEFT, right: float = WIDTH - RIGHT) -> Markup:
    """Ticks with grid lines; of ticks that lie so near that they are told alike, the first is named."""
    ticks = scale.ticks(4)
    told = {said(value): value for value in reversed(ticks)}
    labels = [text(left - 4, scale(value) + 3.5, label, "end") for label, value in told.items()]
    return joined([lines([(left, scale(value), right, scale(value)) for value in ticks], "grid"), *labels])


def _n(value: float) -> str:
    """A pixel, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def _title(said: str) -> str:
    return f"<title>{escape(said)}</title>" if said else ""


def figure(title: str, label: str, height: float, parts: Iterable[Markup], note: str = "") -> Markup:
    """A picture under its title, with ``label`` for those who do not see it and a ``note`` for everybody.

    Where the note says what the label says, nobody shall hear it twice.
    """
    heard = title if label in note else f"{title}. {label}"
    picture = tag("svg", *parts, viewBox=f"0 0 {WIDTH} {height:g}", role="img", aria_label=heard, class_="plot")
    below = tag("p", note, class_="note") if note else EMPTY
    return tag("figure", tag("figcaption", title), picture, below)


def absent(title: str, why: str) -> Markup:
    """The place of a picture that cannot be drawn, and why."""
    return tag("figure", tag("figcaption", title), tag("p", why, class_="note"))
