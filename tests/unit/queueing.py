"""Engines with a queue on a simulated clock; named ``tests.unit.queueing:Class`` in a suite."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.records import Arm, Capability, Request, Trace

#: Whoever takes a place does so this much after it fell free.
CHANGE_NS = 1_000


class Queueing(ScriptedEngine):
    """Runs so many requests at once, each as long as its prompt's number says, and lets the next in as one ends."""

    def __init__(self, given: EngineContext) -> None:
        super().__init__(given)
        self.capabilities |= {Capability.QUEUE}
        self.calls: list[tuple[Arm, tuple[str, ...], int | None]] = []

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        self.calls.append((arm, tuple(request.prompt for request in requests), None))
        return super().generate(requests, arm)

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        """Each request begins when the first place falls free."""
        self.calls.append((arm, tuple(request.prompt for request in requests), slots))
        free, traces = [self._now_ns] * slots, list[Trace]()
        for request in requests:
            traces.append(self._trace(request, arm, heapq.heappop(free)))
            heapq.heappush(free, traces[-1].chunks[-1].t_ns + CHANGE_NS)
        self._now_ns = max(free) + CHANGE_NS
        return traces

    def _seconds_per_token(self, request: Request, arm: Arm) -> float:
        longer = 1 + int("".join(filter(str.isdigit, request.prompt.partition("/")[0])) or 0) % 3
        return longer * super()._seconds_per_token(request, arm)


class Boastful(ScriptedEngine):
    """Declares a queue that it does not have."""

    def __init__(self, given: EngineContext) -> None:
        super().__init__(given)
        self.capabilities |= {Capability.QUEUE}
