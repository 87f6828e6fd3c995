"""Forwards recorded once per shape and replayed: on a GPU a small batch spends more on launching than on computing.

A recording reads fixed tensors, so a block is copied into them and runs as it was recorded, for as many rows and as
long ones as the shape has at most: rows that are not there write over their slot's last place, which no token takes,
and the mask hides what lies behind a row's end. Recordings are made between runs, of the shapes that earlier ones
lacked, so none falls into measured time: a warm-up that runs what is measured later has it recorded. One whose scores
are not the forward's own is thrown away with all others; why is kept.

CUDA graphs as PyTorch documents them: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import SlotCache, Span
from pytest_specgate.decoding.lean import LeanForward, agree

#: Runs something once and returns what runs it again on the same tensors, and gives its result.
Recorder = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]

#: How far a replay's scores may lie from the forward's own, relative to their size: it runs the same kernels.
_SAME = {torch.float64: 1e-9, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-3}
#: Why nothing is recorded where memory ran out; when caches are given back it is tried again.
_NO_ROOM = "there is no memory to record forwards in"
#: Recordings of one model; each costs about the memory of its intermediate results.
MOST = 64
#: The shortest bucket of lengths, the next ones being twice as long each.
LEAST_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """What a recording is made for; ``layers`` tells an early exit's forwards from whole ones."""

    rows: int
    width: int
    length: int
    layers: int


@dataclass(frozen=True, slots=True)
class _Recording:
    """One shape's fixed tensors ``[rows, width]``, and what runs the forward on them."""

    tokens: Tensor
    positions: Tensor
    replay: Callable[[], Tensor]


class Recordings:
    """The recordings of one model. ``context`` is its window; ``refused`` says why there are none, if so.

    ``fresh`` makes a recorder: one for each cache, for what one recorder recorded may share memory.
    """

    def __init__(self, forward: LeanForward, fresh: Callable[[], Recorder], context: int | None) -> None:
        self.refused = ""
        self.replayed = 0
        self._forward, self._fresh, self._context = forward, fresh, context
        self._recorder = fresh()
        self._made: dict[Shape, _Recording] = {}
        self._lacked: Counter[Shape] = Counter()

    def __len__(self) -> int:
        return len(self._made)

    def scores(self, tokens: Tensor, span: Span, cache: SlotCache) -> Tensor | None:
        """Scores ``[rows, width, vocabulary]`` of a block as it was recorded, None for a shape that was not.

        They are the recording's own and hold until it runs again.
        """
        if self.refused or span.first or not cache.pooled:
            return None
        shape = self._shape(span, cache)
        recording = self._made.get(shape)
        if recording is None:
            self._lacked[shape] += 1
            return None
        rows = len(span.starts)
        recording.tokens[:rows].copy_(tokens)
        starts = (*span.starts, *(cache.capacity - 1,) * (shape.rows - rows))
        recording.positions.copy_(_places(starts, span.width, cache, tokens.device))
        self.replayed += 1
        return recording.replay()[:rows]

    def forget(self) -> None:
        """Throw all away: the cache that they write to is gone. What was lacked is still wanted."""
        self._lacked.update(dict.fromkeys(self._made, 1))
        self._made.clear()
        self._recorder = self._fresh()
        if self.refused == _NO_ROOM:
            self.refused = ""

    def make(self, cache: SlotCache) -> None:
        """Record what was lacked, the most wanted first; no row may live, for the cache is written over."""
        wanted = [shape for shape, _ in self._lacked.most_common(MOST - len(self._made))]
        self._lacked.clear()
        for shape in wanted:
            if self.refused:
                return
            if shape.rows <= cache.slots and shape.length <= cache.capacity:
                self._record(shape, cache)

    def _record(self, shape: Shape, cache: SlotCache) -> None:
        device = self._forward.device
        size = (shape.rows, shape.width)
        tokens = torch.zeros(size, dtype=torch.long, device=device)
        recording_at = _places((0,) * shape.rows, shape.width, cache, device)

        def run() -> Tensor:
            return self._run(tokens, recording_at, shape, cache)

        try:
            run()
            made = _Recording(tokens, recording_at, self._recorder(run))
            # Other tokens at other places: what was recorded as a number and not as a tensor shows.
            tokens.fill_(1)
            recording_at.copy_(_places((min(3, shape.length - shape.width),) * shape.rows, shape.width, cache, device))
            expected = run()
            same = agree(made.replay(), expected, _SAME)
        except torch.OutOfMemoryError:
            self._refuse(_NO_ROOM)
            return
        except RuntimeError as error:
            self._refuse(f"recording failed: {str(error).partition(chr(10))[0]}")
            return
        if same:
            self._made[shape] = made
        else:
            self._refuse("a replay's scores are not the forward's own")

    def _refuse(self, why: str) -> None:
        self.refused = why
        self._made.clear()

    def _run(self, tokens: Tensor, places: Tensor, shape: Shape, cache: SlotCache) -> Tensor:
        cache.aim_by(places, shape.length)
        keys = torch.arange(shape.length, device=places.device)
        hidden = keys > places[:, :, None]
        mask = torch.zeros(hidden.shape, dtype=self._forward.dtype, device=places.device)
        mask = mask.masked_fill_(hidden, torch.finfo(self._forward.dtype).min)[:, None]
        turned = places if self._context is None else places.clamp(max=self._context - 1)
        return self._forward(tokens, turned, mask, cache, layers=shape.layers)

    def _shape(self, span: Span, cache: SlotCache) -> Shape:
        rows = min(_doubling(len(span.starts), 1), cache.slots)
        length = min(_doubling(span.length, LEAST_LENGTH), cache.capacity)
        return Shape(rows, span.width, length, self._forward.layers)


def cuda_recorder(device: torch.device) -> Recorder:
    """Record as CUDA graphs of this device, on a stream of their own and in one pool of memory."""
    pool: Any = torch.cuda.graph_pool_handle()
    side = _side(device)

    def record(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
        side.wait_stream(current)
        with torch.cuda.stream(side):  # what allocates or chooses kernels at first use must not be recorded
            run()
        current.wait_stream(side)
        try:
            with torch.cuda.device(device), torch.cuda.graph(graph, pool=pool, stream=side):
                scores = run()
        except RuntimeError:
            torch.cuda.set_stream(current)  # where recording breaks off, PyTorch stays on the other stream
            raise

        def replay() -> Tensor:
            graph.replay()
            return scores

        return replay

    return record


@cache
def _side(device: torch.device) -> Any:
    """The stream that recordings of a device are made on: for each one that computes, cuBLAS keeps memory for good."""
    return torch.cuda.Stream(device)


def _places(starts: tuple[int, ...], width: int, cache: SlotCache, device: Any) -> Tensor:
    """Places in the cache ``[rows, width]``; padding past the end goes to the last one."""
    return Span(starts, width).positions(device).clamp_(max=cache.capacity - 1)


def _doubling(number: int, least: int) -> int:
    """The smallest of least, 2 × least, 4 × least, ... that is not below the number."""
    while least < number:
        least *= 2
    return least
