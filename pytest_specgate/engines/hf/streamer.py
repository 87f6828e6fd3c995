"""When tokens reached the host: a streamer that keeps a time and a count per chunk and decodes nothing."""

from __future__ import annotations

import time
from typing import Any

from pytest_specgate.records import Chunk


class ChunkClock:
    """Receives the prompt first, then every accepted block: transformers copies both to the host before."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """Note the time and size of a block; the first call is the prompt."""
        now = time.perf_counter_ns()
        if self._prompt_seen:
            self.chunks.append(Chunk(now, value.numel()))
        self._prompt_seen = True

    def end(self) -> None:
        """Nothing is held back."""
