"""The time that a run may measure, dealt out case by case: what a clear case leaves goes to those that follow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class TimeBudget:
    """So many seconds for so many cases, counted from when the first of them asks.

    Everything counts that happens in between, starting an engine too: the user's clock runs on as well.
    """

    seconds: float
    cases: int
    clock: Callable[[], float] = time.monotonic
    _end: float | None = None

    def allot(self) -> float:
        """Seconds for the next case: its equal share of what is left, which may be nothing. Call it once a case."""
        now = self.clock()
        if self._end is None:
            self._end = now + self.seconds
        share = max(self._end - now, 0.0) / max(self.cases, 1)
        self.cases -= 1
        return share
