"""When a check may be decided early, and what each such look costs.

Every look spends an equal part of the check's error rate (Bonferroni): against a Pocock boundary that costs next to
nothing at small error rates, and unlike O'Brien and Fleming's it can stop at the first look.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Arms that are never up together differ by what a start decides as well (memory layout, tuning, clocks), so that each
#: fresh start is one observation; with fewer, their scatter says nothing.
LEAST_FRESH_STARTS = 4


@dataclass(frozen=True, slots=True)
class Looks:
    """The numbers of rounds after which the data are looked at, ascending; the last is the most that is measured."""

    rounds: tuple[int, ...]

    @property
    def most(self) -> int:
        """Rounds after which measuring ends in any case."""
        return self.rounds[-1]

    @property
    def count(self) -> int:
        """Looks that share the error rate of a check."""
        return len(self.rounds)

    def taken(self, done: int) -> tuple[int, ...]:
        """The looks of a run that ended after ``done`` rounds: those before, and one at its end.

        A run that its time budget ends between two looks spends the later one's error rate: never more than planned.
        """
        return (*(look for look in self.rounds if look < done), done)


def doubling(most: int) -> Looks:
    """After 1 round, after every doubling, and after ``most``: 1, 2, 4, 8."""
    early = [2**number for number in range(most.bit_length()) if 2**number < most]
    return Looks((*early, most))
