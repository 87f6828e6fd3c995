"""What a gate needs to know beside the numbers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from pytest_specgate.records import Check, Finding, Interval, Place


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """Where and how a case was measured, and how much error this check may make.

    ``alpha`` bounds the chance of a FAIL without cause; ``updating`` means that a baseline is being recorded, so there
    is nothing to compare with yet.
    """

    suite: str
    case: str
    engine: str
    alpha: float
    place: Place
    today: datetime.date
    findings: tuple[Finding, ...] = ()
    updating: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What a family found: its checks, what it measured, and what was stored, in the metric's own unit."""

    checks: tuple[Check, ...]
    measured: Interval
    baseline: Interval | None = None
    warnings: tuple[str, ...] = ()
