"""Where a run keeps its state on pytest's own objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specgate.plugin.run import Run
    from pytest_specgate.records import Verdict

#: On the config: everything about this run; present only while the plugin is active.
RUN: pytest.StashKey[Run] = pytest.StashKey()

#: On a gate's item: what the gate said.
VERDICT: pytest.StashKey[Verdict] = pytest.StashKey()
