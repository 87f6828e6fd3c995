"""Engines whose arms are never up together; named ``tests.unit.apart_engines:Class`` in a suite."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.records import Arm, Request, Trace


class OneAtATime(ScriptedEngine):
    """Each start makes its arm some per cent faster or slower until the next one, as real starts do."""

    apart = True
    scatter = 0.05

    def __init__(self, given: EngineContext) -> None:
        super().__init__(given)
        self.starts: list[Arm] = []
        self.calls: list[tuple[Arm, tuple[str, ...]]] = []
        self._chance, self._factor = random.Random(7), 1.0

    def begin(self, arm: Arm) -> None:
        """Have this arm up alone."""
        self.starts.append(arm)
        self._factor = math.exp(self._chance.gauss(0, self.scatter))

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Refuse the arm that is not up."""
        assert self.starts[-1] is arm, "this arm is not up"
        self.calls.append((arm, tuple(request.prompt for request in requests)))
        traces = [self._stretched(trace) for trace in super().generate(requests, arm)]
        self._now_ns = max(self._now_ns, *(trace.chunks[-1].t_ns + 1_000 for trace in traces))
        return traces

    def _stretched(self, trace: Trace) -> Trace:
        def late(t_ns: int) -> int:
            return trace.submit_ns + round((t_ns - trace.submit_ns) * self._factor)

        chunks = tuple(replace(chunk, t_ns=late(chunk.t_ns)) for chunk in trace.chunks)
        rounds = tuple(replace(each, t_ns=late(each.t_ns)) for each in trace.rounds or ())
        return replace(trace, chunks=chunks, rounds=rounds if trace.rounds is not None else None)


class Together(OneAtATime):
    """Could, but need not."""

    apart = False

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Run either arm."""
        return ScriptedEngine.generate(self, requests, arm)
