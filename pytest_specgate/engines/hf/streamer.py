"""When tokens reached the host: a streamer that keeps a time and a count per chunk and decodes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pytest_specgate.records import Chunk


class ChunkClock:
    """Receives the prompt first, then every accepted block: transformers copies both to the host before.

    Once ``leaves_after`` tokens have come (None: never) its caller is gone: what comes then is ``unheard``.
    """

    def __init__(self, leaves_after: int | None = None) -> None:
        self.chunks: list[Chunk] = []
        self.unheard = 0
        self._leaves_after = leaves_after
        self._heard = 0
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """Note the time and size of a block; the first call is the prompt."""
        now = time.perf_counter_ns()
        if not self._prompt_seen:
            self._prompt_seen = True
        elif self._leaves_after is not None and self._heard >= self._leaves_after:
            self.unheard += value.numel()
        else:
            self.chunks.append(Chunk(now, value.numel()))
            self._heard += value.numel()

    def end(self) -> None:
        """Nothing is held back."""

    def deserted(self) -> Callable[..., Any]:
        """A stopping criterion: the round in which the caller leaves is the last one."""
        import torch

        def over(input_ids: Any, _scores: Any, **_more: Any) -> Any:
            return torch.full((len(input_ids),), self.unheard > 0, device=input_ids.device)

        return over
