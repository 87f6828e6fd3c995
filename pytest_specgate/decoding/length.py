"""How many tokens a row may draft in its next round, by what became of its drafts so far.

A length depends on rounds that are over and on nothing else: not on what would be drawn next, so drawn texts stay the
target's own, nor on the clock or on who shares the batch, so a request's rounds are the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pytest_specgate.decoding.job import Row


class Length(Protocol):
    """Says how long drafts are."""

    def limit(self, row: Row) -> int:
        """The most tokens that the row drafts in its next round."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always as many."""

    most: int

    def limit(self, row: Row) -> int:
        """The same for every row."""
        del row
        return self.most


@dataclass(frozen=True, slots=True)
class Paying:
    """As many, while at least a share of ``least`` of the last ``window`` tested tokens was kept; else none.

    A row that drafts nothing tries again after ``pause`` rounds, for its text may have become easier.
    """

    most: int
    least: float
    window: int = 16
    pause: int = 16

    def limit(self, row: Row) -> int:
        """``most``, or 0."""
        silent = tested = accepted = 0
        for done in reversed(row.rounds):
            if not done.drafted and not tested:
                silent += 1
            tested, accepted = tested + done.tested, accepted + done.accepted
            if silent >= self.pause or tested >= self.window:
                break
        pays = tested < self.window or accepted >= self.least * tested
        return self.most if pays or silent >= self.pause else 0
