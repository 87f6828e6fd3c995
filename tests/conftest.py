"""What all tests share: pytest's own tool for testing plugins."""

from __future__ import annotations

pytest_plugins = ["pytester"]
