"""Part A, what a target's cache can get wrong: rewinding, windows, prefixes, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import SlotLayer, Span
from pytest_specgate.decoding.network import Network
from tests.faults import models
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import PLAIN

EXACT = ("greedy_exactness",)
BLOCK = 8


class Cached(Network):
    """A network whose cache is made of layers of another kind."""

    layer: type[SlotLayer] = SlotLayer

    def reserve(self, slots: int, capacity: int) -> None:
        if self.cache is None or self.cache.slots < slots or self.cache.capacity < capacity:
            super().reserve(slots, capacity)
            cache = self._reserved()
            cache.layers = [self.layer(slots, capacity) for _ in cache.layers]

    def _mask(self, span: Span, positions: Tensor) -> Any:
        """Always a mask of ours: the model's own knows nothing of these layers."""
        by_window = {window: self._band(span, positions, window) for window in set(self.anatomy.windows)}
        return by_window[self.anatomy.windows[0]]


# --- recurrent state ---


class Recurrent(Network):
    """A recurrent network of the model's embedding and head; it keeps the state after every position, to go back to."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._into = model.model.embed_tokens.weight.detach()
        mixed = model.model.layers[0].mlp.gate_proj.weight.detach()
        self._over = mixed[: mixed.shape[1]] / mixed.shape[1] ** 0.5 / mixed.std()
        self._states = torch.empty(0)

    def reserve(self, slots: int, capacity: int) -> None:
        self._states = self._into.new_zeros(slots, capacity + 1, self._into.shape[1])

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        found = []
        for row, start in enumerate(span.starts):
            found.append(self._read(tokens[row], span.first + row, start))
        return self.model.lm_head(torch.stack(found)[:, -keep:] * 3)

    def _read(self, tokens: Tensor, slot: int, start: int) -> Tensor:
        state, after = self._state(slot, start), []
        for ahead, token in enumerate(tokens):
            state = torch.tanh(state @ self._over.T + self._into[token])
            self._states[slot, start + ahead + 1] = state
            after.append(state)
        return torch.stack(after)

    def _state(self, slot: int, start: int) -> Tensor:
        return self._states[slot, start]

    def move(self, source: int, target: int) -> None:
        self._states[target] = self._states[source]

    def cache_bytes(self) -> int:
        return self._states.numel() * self._states.element_size()


class NotRewound(Recurrent):
    """Goes on from whatever it read last: rejected tokens stay in the state."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._ends: dict[int, int] = {}

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        scores = super().forward(tokens, span, keep)
        self._ends |= {span.first + row: start + span.width for row, start in enumerate(span.starts)}
        return scores

    def _state(self, slot: int, start: int) -> Tensor:
        return self._states[slot, self._ends.get(slot, start) if start else 0]

    def move(self, source: int, target: int) -> None:
        super().move(source, target)
        self._ends[target] = self._ends[source]


# --- a ring ---


class RingLayer(SlotLayer):
    """Holds as many tokens as the window needs while a block is being verified, the newest over the oldest."""

    room = models.WINDOW + PLAIN.k + 1

    def _write(self, store: Tensor, states: Tensor) -> Tensor:
        span = self._span
        rows = store[span.slots]
        places = span.positions(states.device) % self.room
        row = torch.arange(len(span.starts))[:, None]
        rows[row, :, places] = states.transpose(1, 2)
        return rows[:, :, torch.arange(span.length) % self.room]


class TightRingLayer(RingLayer):
    """Holds the window and no more: a block overwrites what its first tokens and a rejection still need."""

    room = models.WINDOW


class Ring(Cached):
    """Reads prompts token by token, because a ring cannot hold a long one at once."""

    layer = RingLayer

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        for place, token in enumerate(prompt):
            scores = self.forward(torch.tensor([[token]]), Span((place,), 1, slot), keep=1)
        return scores


class TightRing(Ring):
    layer = TightRingLayer


# --- paged blocks ---


class PagedLayer(SlotLayer):
    """Positions lie in blocks of eight that stand in the store in reverse order."""

    def _write(self, store: Tensor, states: Tensor) -> Tensor:
        span = self._span
        rows = store[span.slots]
        row = torch.arange(len(span.starts))[:, None]
        rows[row, :, self._physical(self._targets(span), store)] = states.transpose(1, 2)
        return rows[:, :, self._physical(torch.arange(span.length), store)]

    @staticmethod
    def _physical(places: Tensor, store: Tensor) -> Tensor:
        blocks = store.shape[2] // BLOCK
        return (blocks - 1 - places // BLOCK) * BLOCK + places % BLOCK

    def _targets(self, span: Span) -> Tensor:
        return span.positions("cpu")


class WrappingPagedLayer(PagedLayer):
    """A write that leaves its block goes on at that block's beginning."""

    def _targets(self, span: Span) -> Tensor:
        places = super()._targets(span)
        if not max(span.starts):  # prompts take another path
            return places
        return places[:, :1] // BLOCK * BLOCK + places % BLOCK


class Paged(Cached):
    layer = PagedLayer


class WrappingPaged(Cached):
    layer = WrappingPagedLayer


# --- reused prefixes ---


class Prefixes(Network):
    """Keeps what it read of prompts in blocks of four, and reads no block of a known beginning again but the last."""

    block = 4

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._known: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        whole = tuple(prompt)
        hit = max((self._shared(whole, known) for known in self._known), default=0)
        begun = self._reuse(whole, hit, slot) if hit > 1 else 0
        part = torch.tensor([whole[begun:]])
        scores = self.forward(part, Span((begun,), len(whole) - begun, slot), keep=1)
        self._known.setdefault(whole, self._copied(slot, len(whole)))
        return scores

    def _shared(self, one: tuple[int, ...], other: tuple[int, ...]) -> int:
        """Blocks of a common beginning."""
        most = min(len(one), len(other)) // self.block
        return next((n for n in range(most, 0, -1) if one[: n * self.block] == other[: n * self.block]), 0)

    def _reuse(self, prompt: tuple[int, ...], hit: int, slot: int) -> int:
        """Copy all blocks but the last, which is read again for its scores; return where reading goes on."""
        self._paste(prompt, hit, slot, drop=hit - 1)
        return (hit - 1) * self.block

    def _paste(self, prompt: tuple[int, ...], hit: int, slot: int, drop: int) -> None:
        stored = next(kept for known, kept in self._known.items() if self._shared(prompt, known) == hit)
        taken = [p for n in range(hit) if n != drop for p in range(n * self.block, (n + 1) * self.block)]
        for layer, (keys, values) in zip(self._reserved().layers, stored):
            if not layer.is_initialized:
                layer.lazy_initialization(keys[None], values[None])
            layer.keys[slot, :, : len(taken)] = keys[:, taken]
            layer.values[slot, :, : len(taken)] = values[:, taken]

    def _copied(self, slot: int, length: int) -> list[tuple[Tensor, Tensor]]:
        layers = self._reserved().layers
        return [(layer.keys[slot, :, :length].clone(), layer.values[slot, :, :length].clone()) for layer in layers]


class FirstBlockDropped(Prefixes):
    """Drops the first block of a hit and not the last."""

    def _reuse(self, prompt: tuple[int, ...], hit: int, slot: int) -> int:
        self._paste(prompt, hit, slot, drop=0)
        return (hit - 1) * self.block


# --- a mask ---


class ChunkOnly(Network):
    """A block of k+1 tokens attends to itself alone: the graph was captured with nothing before it."""

    def _band(self, span: Span, positions: Tensor, window: int | None) -> Tensor:
        mask = super()._band(span, positions, window)
        if span.width == PLAIN.k + 1 and min(span.starts):
            before = torch.arange(span.length) < positions[:, :1, None]
            mask = mask.masked_fill(before[:, None], self._lowest)
        return mask


_RECURRENT = Parts(target=Recurrent, draft=Recurrent, own_scores=True)
_RING = Parts(target=Ring)
_PAGED = Parts(target=Paged)
_PREFIXES = Parts(target=Prefixes)

ENTRIES = (
    Entry(
        "V09",
        "rewinding is a no-op for caches that cannot be trimmed",
        "a recurrent state goes on from rejected tokens",
        EXACT,
        replace(_RECURRENT, target=NotRewound),
        right=_RECURRENT,
        right_name="recurrent",
    ),
    Entry(
        "V10",
        "a sliding-window cache cannot rewind once it is full",
        "the ring is as large as the window, and a block overwrites it before its verdict",
        EXACT,
        Parts(target=TightRing),
        setting=replace(PLAIN, name="windowed", kind="mistral"),
        right=_RING,
        right_name="ring",
    ),
    Entry(
        "V13",
        "a verification of k+1 tokens ignores the earlier context",
        "a block of exactly k+1 tokens sees itself alone",
        EXACT,
        Parts(target=ChunkOnly),
    ),
    Entry(
        "V14",
        "reuse of a prefix drops the wrong block",
        "a known beginning is copied without its first block and not without its last",
        EXACT,
        Parts(target=FirstBlockDropped),
        right=_PREFIXES,
        right_name="prefixes",
    ),
    Entry(
        "V22",
        "accuracy halves at a draft length of 20",
        "a write past the end of its block of eight goes on at that block's beginning",
        EXACT,
        Parts(target=WrappingPaged),
        setting=replace(PLAIN, name="long-drafts", k=10),
        right=_PAGED,
        right_name="paged",
    ),
)
