"""A series in one line of characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-:=+*#"


def sparkline(values: Sequence[float], width: int = 32, *, ascii_only: bool = False) -> str:
    """The values from left to right, the lowest at the bottom; of more than ``width`` neighbours share a character."""
    if not values:
        return ""
    marks = _ASCII if ascii_only else _BLOCKS
    count = min(width, len(values))
    ends = [round(number * len(values) / count) for number in range(count + 1)]
    shown = [median(values[start:stop]) for start, stop in pairwise(ends)]
    low, high = min(shown), max(shown)
    if high - low <= 1e-9 * max(abs(high), abs(low)):
        return marks[3] * count
    return "".join(marks[min(int((value - low) / (high - low) * len(marks)), len(marks) - 1)] for value in shown)
