"""The two answers that a statistic can give: limits, or that the data cannot tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """An estimate with one-sided lower and upper limits, each wrong with the probability it was asked for.

    A limit that the data cannot give is infinite.
    """

    estimate: float
    low: float
    high: float

    def widened(self, factor: float) -> Limits:
        """The same estimate with both half-widths multiplied."""
        below, above = self.estimate - self.low, self.high - self.estimate
        return Limits(self.estimate, self.estimate - factor * below, self.estimate + factor * above)


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Too little data for the asked error rate; ``needed`` says what would be enough, in words."""

    reason: str
    needed: str
