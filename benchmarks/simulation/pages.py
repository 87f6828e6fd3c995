"""How a page of tables is written, and how a goal is told to be met or missed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.stats.proportions import exact_limits, upper_limit


@dataclass(frozen=True, slots=True)
class Effort:
    """The seed of a page and how many runs it may take: 1 is what the stored pages were made with."""

    seed: int
    scale: float

    def runs(self, count: int) -> int:
        """``count`` runs, scaled, but enough to see anything."""
        return max(20, round(count * self.scale))


@dataclass(frozen=True, slots=True)
class Goal:
    """One demand on error rates or costs, and what was found."""

    name: str
    wanted: str
    found: str
    verdict: str

    @classmethod
    def of(cls, name: str, wanted: str, found: str, *, met: bool) -> Goal:
        """A goal on a number without an error of its own."""
        return cls(name, wanted, found, "met" if met else "**missed**")

    @classmethod
    def mean_at_most(cls, name: str, bound: float, mean: float, error: float) -> Goal:
        """A goal on a mean with this standard error, as :meth:`at_most` for a rate."""
        low, high = mean - 1.645 * error, mean + 1.645 * error
        verdict = "met" if high <= bound else "**missed**" if low > bound else "consistent with it"
        return cls(name, f"at most {bound:g}", f"{mean:.2f} ± {error:.2f}", verdict)

    @classmethod
    def at_most(cls, name: str, bound: float, hits: int, runs: int) -> Goal:
        """A goal on a rate: met or missed where its exact 95 % limits say so, else consistent with it."""
        low, high = exact_limits(hits, runs)[0], upper_limit(hits, runs)
        verdict = "met" if high <= bound else "**missed**" if low > bound else "consistent with it"
        return cls(name, f"at most {bound:g}", at_most(hits, runs), verdict)

    @classmethod
    def at_least(cls, name: str, bound: float, hits: int, runs: int) -> Goal:
        """As :meth:`at_most`, from the other side."""
        low, high = exact_limits(hits, runs)
        verdict = "met" if low >= bound else "**missed**" if high < bound else "consistent with it"
        return cls(name, f"at least {bound:g}", f"{hits:,} of {runs:,} (at least {low:.4f})", verdict)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of docs/statistics: its file, its text, and the goals that its tables answer."""

    file: str
    title: str
    lines: tuple[str, ...]
    goals: tuple[Goal, ...] = ()


def paragraph(words: str) -> Iterator[str]:
    """An empty line, and the words in lines of at most 120 characters."""
    yield ""
    kept = " ".join(words.split()).replace(" %", "\N{NO-BREAK SPACE}%")  # a number stays with its unit
    yield from (line.replace("\N{NO-BREAK SPACE}", " ") for line in textwrap.wrap(kept, 120, break_on_hyphens=False))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table after an empty line."""
    yield ""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def at_most(hits: int, runs: int) -> str:
    """``3 of 24,000 (at most 0.00032)``: the count and the exact one-sided 95 % limit of its share."""
    return f"{hits:,} of {runs:,} (at most {upper_limit(hits, runs):.2g})"


def percent(share: float) -> str:
    """``3 %``."""
    return f"{share * 100:g} %"
