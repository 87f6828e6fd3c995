"""An engine on the scripted one with a pool of blocks that is allocated once; the child of a memory pass runs it alone.

``options: {version: right}`` frees all blocks of a request at its end; ``faulty`` keeps one of each for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import OutOfMemory
from pytest_specgate.records import Arm, MemoryReading, Request, Trace

BLOCK = 4096
BLOCKS = 4096
PER_REQUEST = 4


class Pooled(ScriptedEngine):
    """Its pool stands from the start on, so that nothing outside of it ever grows."""

    def __init__(self, context: EngineContext) -> None:
        super().__init__(replace(context, spec=context.spec.model_copy(update={"options": {}})))
        self._keeps = context.spec.options["version"] != "right"
        self._free = BLOCKS
        self.requests = self.tokens = 0

    def start(self) -> None:
        super().start()
        self._pool = bytearray(b"\x01") * (BLOCK * BLOCKS)

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        needed = PER_REQUEST * len(requests)
        if needed > self._free:
            raise OutOfMemory("zoo", f"{needed} blocks of {self._free} that are free", "use fewer requests")
        self._free -= needed
        traces = super().generate(requests, arm)
        self._free += needed - (len(requests) if self._keeps and arm is Arm.CANDIDATE else 0)
        return traces

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """What is held of the pool; the process's own memory is left to the system."""
        return MemoryReading(kv_cache=BLOCK * (BLOCKS - self._free))
