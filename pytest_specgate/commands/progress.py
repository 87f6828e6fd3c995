"""The progress line of a long command, on standard error: rewritten on a terminal, a line now and then in a log."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from pytest_specgate.pacing import Pace, rewrites
from pytest_specgate.report.escape import flat


class Progress:
    """Called with each new state; ``environ`` tells a CI's log from a terminal, ``clock`` gives seconds."""

    def __init__(
        self,
        stream: TextIO,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._rewriting = rewrites(stream.isatty(), environ)
        self._pace = Pace(clock)
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show the text if it is time to."""
        if not self._pace.due(rewriting=self._rewriting):
            return
        if self._rewriting:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[2K{flat(text)[:width]}")
            self._shown = True
        else:
            self._stream.write(f"specgate: {flat(text)}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the line, so that what follows starts on a clean one."""
        if self._shown:
            self._shown = False
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
