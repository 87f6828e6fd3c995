"""What a gate needs to know beside the numbers, and what a family of gates answers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from pytest_specgate.records import Check, Finding, Interval, Place
from pytest_specgate.stats.budget import WRONG_PASS


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """Where and how a case was measured, and how much error this check may make.

    ``alpha`` bounds the chance of a FAIL without cause over all ``looks`` at the data; ``updating`` means that a
    baseline is being recorded, so there may be nothing to compare with yet.
    """

    suite: str
    case: str
    engine: str
    alpha: float
    place: Place
    today: datetime.date
    findings: tuple[Finding, ...] = ()
    updating: bool = False
    looks: int = 1

    @property
    def wrong_fail(self) -> float:
        """Error rate of a FAIL at one look."""
        return self.alpha / self.looks

    @property
    def wrong_pass(self) -> float:
        """Error rate of a PASS at one look."""
        return WRONG_PASS / self.looks


@dataclass(frozen=True, slots=True)
class Judged:
    """What a family found: its checks, what it measured, and what was stored, in the metric's own unit."""

    checks: tuple[Check, ...]
    measured: Interval | None
    baseline: Interval | None = None
    warnings: tuple[str, ...] = ()


class NoVerdict(Exception):
    """Raised by a family when the numbers that it needs are not there; becomes an ERROR verdict."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason} — {advice}")
        self.reason = reason
        self.advice = advice
