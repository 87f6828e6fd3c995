"""Engines with bugs of their own, as a user's adapter may have; named ``tests.unit.crashing:Class`` in a suite."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.records import Arm, Request, Trace


class CrashesAlone(ScriptedEngine):
    """Crashes where it prepares one arm alone, as the memory pass does."""

    def __init__(self, context: EngineContext) -> None:
        super().__init__(context)
        self.alone = len(context.arms) == 1

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, or hit a bug."""
        if self.alone:
            raise ZeroDivisionError("no tokens")
        return super().generate(requests, arm)


class DiesAlone(CrashesAlone):
    """As above, without a word."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, or be gone."""
        if self.alone:
            os._exit(7)
        return super().generate(requests, arm)


class BuggyStart(ScriptedEngine):
    """Cannot start, for a reason that is its own bug."""

    starts = 0

    def start(self) -> None:
        """Hit a bug."""
        type(self).starts += 1
        raise KeyError("weights")


class BuggyGenerate(ScriptedEngine):
    """Starts, and hits a bug when it generates."""

    calls = 0

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Hit a bug."""
        type(self).calls += 1
        raise IndexError("list index out of range")
