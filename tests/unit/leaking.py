"""Engines on the scripted one that hold real memory; named ``tests.unit.leaking:Class`` in a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import OutOfMemory
from pytest_specgate.records import Arm, MemoryReading, Request, Trace

KIB = 2**10
MIB = 2**20


class Keeps(ScriptedEngine):
    """Keeps a cache of a MiB for every request of a call, which it gives back when drained."""

    def __init__(self, context: EngineContext) -> None:
        super().__init__(context)
        self.cache: list[bytes] = []

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate into a cache of the call's own size."""
        self.cache = [bytes(b"x" * MIB) for _ in requests]
        return super().generate(requests, arm)

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Leave memory to the operating system."""
        return MemoryReading()

    def drain(self) -> None:
        """Let the cache go."""
        self.cache = []


class Leaks(Keeps):
    """Loses 256 KiB with every request for good."""

    lost: list[bytes]

    def start(self) -> None:
        """Begin with nothing lost."""
        self.lost = []

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, and lose some."""
        self.lost += [b"y" * (256 * KIB) for _ in requests]
        return super().generate(requests, arm)


class Pool(Keeps):
    """Has a pool of its own, and loses a KiB of it with every request."""

    held = 0

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, and keep some of the pool."""
        self.held += KIB * len(requests)
        return super().generate(requests, arm)

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Tell what is held of the pool."""
        return MemoryReading(kv_cache=self.held)


class Records(Keeps):
    """Takes four times as long the first time that so many requests run after a drain."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, late where so many are new."""
        known = len(self.cache) == len(requests)
        traces = super().generate(requests, arm)
        return traces if known else [_late(trace) for trace in traces]


def _late(trace: Trace) -> Trace:
    taken = [replace(chunk, t_ns=4 * chunk.t_ns - 3 * trace.submit_ns) for chunk in trace.chunks]
    return replace(trace, chunks=tuple(taken), rounds=None)


class Takes(Keeps):
    """Takes real memory for every request: 24 MiB, and half as much again for the draft."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Generate, if the memory for it is there."""
        each = 24 * MIB if arm is Arm.REFERENCE else 36 * MIB
        self.cache = []
        try:
            self.cache = [bytes(b"x" * each) for _ in requests]
        except MemoryError as error:
            self.cache = []
            raise OutOfMemory("tiny", "no memory for the caches", "use fewer requests") from error
        return ScriptedEngine.generate(self, requests, arm)
