"""What all tests share: pytest's own tool for testing plugins, and no luck."""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# A build tries what it tried yesterday, however slow the machine: examples are derived from the test itself and have
# no deadline. `--hypothesis-profile=search` looks for new ones.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("search"), derandomize=True)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin each test with the same random numbers of torch, whichever tests ran before it."""
    if (manual_seed := getattr(sys.modules.get("torch"), "manual_seed", None)) is not None:
        manual_seed(0)
