"""When a check may be decided early, and what each such look costs.

Every look spends an equal part of the check's error rate (Bonferroni): against a Pocock boundary that costs next to
nothing at small error rates, and unlike O'Brien and Fleming's it can stop at the first look.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Looks:
    """The numbers of rounds after which the data are looked at, ascending."""

    rounds: tuple[int, ...]

    def alpha(self, total: float) -> float:
        """The error rate of one look, for a check that may err at the rate ``total``."""
        return total / max(len(self.rounds), 1)


def doubling(first: int = 1, looks: int = 4) -> Looks:
    """After ``first`` rounds and after every doubling: 1, 2, 4, 8."""
    return Looks(tuple(first * 2**number for number in range(looks)))


def single(rounds: int) -> Looks:
    """One look, when all is measured."""
    return Looks((rounds,))
