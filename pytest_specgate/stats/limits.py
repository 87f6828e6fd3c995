"""The two answers that a statistic can give: limits, or that the data cannot tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """An estimate with one-sided lower and upper limits, each wrong with the probability it was asked for."""

    estimate: float
    low: float
    high: float

    def widened(self, factor: float) -> Limits:
        """The same estimate with both half-widths multiplied."""
        return Limits(self.estimate, self.estimate - factor * (self.estimate - self.low),
                      self.estimate + factor * (self.high - self.estimate))  # fmt: skip


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Too little data for the asked error rate; ``needed`` says what would be enough, in words."""

    reason: str
    needed: str
