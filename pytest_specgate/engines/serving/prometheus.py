"""The text format of Prometheus, as far as counters need it: every series of a name added up over engines and ranks.

``_created`` series are times and have a name of their own, so they are never added to a counter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r'^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)')
#: A label counts up to so many things, for more are nonsense and fill the memory; and the digits of the longest number.
MOST = 1_000
_DIGITS = 18
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Series:
    """All samples of a page: name → list of (labels, value)."""

    samples: Mapping[str, list[tuple[Mapping[str, str], float]]]

    def total(self, name: str) -> int | None:
        """Sum over all series of a counter; None where the page has none, for absent is not zero; nor for infinity."""
        found = self.samples.get(name)
        return None if found is None else _rounded(sum(value for _, value in found))

    def mean(self, name: str) -> float | None:
        """Mean over all series of a gauge; None where the page has none."""
        found = self.samples.get(name)
        return None if not found else sum(value for _, value in found) / len(found)

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of the first series; none where the page has none."""
        return next(iter(self.samples.get(name, ())), ({}, 0.0))[0]

    def by(self, name: str, label: str) -> tuple[int, ...]:
        """Sums by a label that numbers from 0, in order; empty where there is none. Those from MOST on are left out."""
        sums: dict[int, float] = {}
        for labels, value in self.samples.get(name, ()):
            if (number := whole(labels.get(label, ""))) is not None and number < MOST:
                sums[number] = sums.get(number, 0.0) + value
        return tuple(_rounded(sums.get(i, 0.0)) or 0 for i in range(max(sums) + 1)) if sums else ()


def whole(text: str) -> int | None:
    """A number written in plain digits, and not more of them than any count has; None for all else."""
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdecimal() else None


def _rounded(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None


def parse(page: str) -> Series:
    """Read a page; lines that are no finite samples are skipped."""
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for line in page.splitlines():
        if line.startswith("#") or not (match := _LINE.match(line)):
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            samples.setdefault(match[1], []).append((dict(_LABEL.findall(match[2] or "")), value))
    return Series(samples)
