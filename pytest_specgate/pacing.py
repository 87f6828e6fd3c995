"""When a line of progress is due: often where it is rewritten on a terminal, now and then where it stays in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LOG_SECONDS = 30.0
TERMINAL_SECONDS = 0.2


def rewrites(terminal: bool, environ: Mapping[str, str]) -> bool:
    """Whether the line is rewritten: what a CI shows is a log, whatever its stream says."""
    return terminal and not environ.get("CI")


class Pace:
    """Tells when the next line is due, and takes it for written; nothing is due at the start."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def due(self, *, rewriting: bool) -> bool:
        """Whether enough time has passed since the last line."""
        now = self._clock()
        if now - self._last < (TERMINAL_SECONDS if rewriting else LOG_SECONDS):
            return False
        self._last = now
        return True
