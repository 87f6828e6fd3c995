"""The progress line of a long run: rewritten on a terminal, a line now and then in a log, silent under -q.

pytest's own terminal reporter writes it, with capture set aside for that moment, so that ``-v``, ``-s`` and
``--capture`` change nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager

import pytest

from pytest_specgate.masking import masker
from pytest_specgate.pacing import Pace, rewrites


class Progress:
    """Called with each new state of a measurement; ``environ`` tells a CI's log from a terminal, and what is secret."""

    def __init__(self, config: pytest.Config, environ: Mapping[str, str] = os.environ) -> None:
        self._plugins = config.pluginmanager
        self._silent = config.get_verbosity() < 0 or hasattr(config, "workerinput")
        self._environ = environ
        self._pace = Pace()
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show the text if it is time to."""
        reporter: pytest.TerminalReporter | None = self._plugins.get_plugin("terminalreporter")
        if self._silent or reporter is None:
            return
        rewriting = rewrites(bool(reporter.isatty), self._environ)
        if not self._pace.due(rewriting=rewriting):
            return
        text = masker(self._environ)(text)
        with self._uncaptured():
            if rewriting:
                self._rewrite(reporter, text)
            else:
                reporter.write_line(f"specgate: {text}")

    def clear(self) -> None:
        """Remove the line, so that pytest's own output starts on a clean one."""
        reporter: pytest.TerminalReporter | None = self._plugins.get_plugin("terminalreporter")
        if self._shown and reporter is not None:
            self._shown = False
            with self._uncaptured():
                reporter.rewrite("", erase=True)
                reporter.rewrite("")

    def _rewrite(self, reporter: pytest.TerminalReporter, text: str) -> None:
        if not self._shown:
            reporter.ensure_newline()
        width = reporter.config.get_terminal_writer().fullwidth - 1
        reporter.rewrite(text[:width], erase=True)
        self._shown = True

    def _uncaptured(self) -> AbstractContextManager[None]:
        capture = self._plugins.get_plugin("capturemanager")
        uncaptured: AbstractContextManager[None] = (
            contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()
        )
        return uncaptured
