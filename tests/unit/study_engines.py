"""Engines for tests of studies; named ``tests.unit.study_engines:Class`` in a suite."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.records import Arm, Chunk, MemoryReading, Place, Request, Trace


class Remembers(ScriptedEngine):
    """Keeps what it was asked."""

    asked: list[tuple[Arm, Request]]
    checked: list[tuple[int, bool]]

    def start(self) -> None:
        """Begin with nothing asked."""
        self.asked, self.checked = [], []

    def check(self, concurrency: int, greedy: bool) -> None:
        """Keep the question."""
        self.checked.append((concurrency, greedy))

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Keep the requests."""
        self.asked += [(arm, request) for request in requests]
        return super().generate(requests, arm)


class TrueClock(ScriptedEngine):
    """Two tokens, at the times at which they were there."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Take a millisecond for each token."""
        traces = []
        for trace in super().generate(requests, arm):
            begin = time.perf_counter_ns()
            chunks = []
            for _ in range(2):
                time.sleep(0.001)
                chunks.append(Chunk(time.perf_counter_ns(), 1))
            ids = trace.token_ids[:2]
            traces.append(replace(trace, submit_ns=begin, chunks=tuple(chunks), token_ids=ids, rounds=None))
        return traces


class RealMemory(ScriptedEngine):
    """Leaves its memory to the operating system."""

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Know nothing."""
        return MemoryReading()


class Moves(ScriptedEngine):
    """Is where the environment says."""

    def place(self) -> Place:
        """Read ``$TEST_PLACE``."""
        return Place(os.environ["TEST_PLACE"], 1, "none")


class Interrupted(ScriptedEngine):
    """Gets a Ctrl-C after so many generations of all its instances."""

    left = 0

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, or be interrupted."""
        type(self).left -= 1
        if type(self).left == 0:
            raise KeyboardInterrupt
        return super().generate(requests, arm)
