"""The entry module that pytest loads in every run: stdlib and pytest alone, hooks that delegate.

Without ``--specgate`` nothing more is imported than the options table and the hook specifications.
"""

from __future__ import annotations

import pytest

from pytest_specgate.plugin import hookspecs, options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the options and their ini twins."""
    options.add(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let users' conftest files implement our hooks, whether or not a run uses them."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Load the rest only where it was asked for."""
    if options.wanted(config):
        from pytest_specgate.plugin import active

        active.install(config)
