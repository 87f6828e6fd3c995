"""A key-value cache of fixed size that rows of different lengths share, written in place and rolled back by forgetting.

Keys and values of a layer are ``[slots, heads, capacity, head size]``, allocated once. A forward writes a block of new
tokens where its :class:`Span` says, each row at its own position. Nothing is ever removed: a row's length is the
caller's knowledge, what lies beyond it is hidden by the mask of the next forward and overwritten by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from pytest_specgate.decoding.sending import sent


@dataclass(frozen=True, slots=True)
class Span:
    """Where ``width`` new tokens per row go: row ``i`` is slot ``first + i`` and begins at ``starts[i]``."""

    starts: tuple[int, ...]
    width: int
    first: int = 0

    @property
    def slots(self) -> slice:
        """The slots of the block."""
        return slice(self.first, self.first + len(self.starts))

    @property
    def length(self) -> int:
        """Tokens that the longest row holds once the block is written."""
        return max(self.starts) + self.width

    @property
    def aligned(self) -> bool:
        """Whether all rows begin at one position."""
        return min(self.starts) == max(self.starts)

    def positions(self, device: Any) -> Tensor:
        """The tokens' positions, ``[rows, width]``."""
        ahead = torch.arange(self.width, device=device)
        return sent(self.starts, device)[:, None] + ahead


@dataclass(frozen=True, slots=True)
class Block:
    """Where one forward writes and what it reads, by layer: views that are taken for all layers at once.

    ``into`` is where the new tokens go, a slice of their places or the rows' whole slots; ``index`` leads to the places
    within the latter, None for a slice. ``keys`` and ``values`` are what the rows then hold.
    """

    into: tuple[Tensor, ...]
    index: tuple[Tensor | slice, ...] | None
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def write(self, layer: int, states: Tensor) -> tuple[Tensor, Tensor]:
        """Write ``[rows, width, 2 × heads, head size]``, keys first, and return keys and values so far."""
        if self.index is None:
            self.into[layer].copy_(states.transpose(1, 2))
        else:
            self.into[layer][self.index] = states
        return self.keys[layer], self.values[layer]


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers ships no types
    """One layer's keys and values; its tensors are made at the first write, when their sizes are known."""

    is_compileable = False
    is_croppable = False
    is_sliding = False  # a sliding layer keeps all its tokens too, its window is in the mask

    def __init__(self, slots: int, capacity: int) -> None:
        super().__init__()
        self._slots, self._capacity = slots, capacity
        self._span = Span((0,), 0)
        self._places: Tensor | None = None

    def aim(self, span: Span, places: Tensor | None) -> None:
        """Say where the next block goes; ``places`` are its positions ``[rows, width]``, None for aligned rows."""
        self._span, self._places = span, places

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate. Zeroed, for what a mask hides must still be a number."""
        self.keys, self.values = self._room(key_states), self._room(value_states)
        self.is_initialized = True

    def adopt(self, keys: Tensor, values: Tensor) -> None:
        """Take these for its own, and keep what it has."""
        if self.is_initialized:
            keys.copy_(self.keys)
            values.copy_(self.values)
        self.keys, self.values, self.is_initialized = keys, values, True

    def _room(self, states: Tensor) -> Tensor:
        return states.new_zeros(self._slots, states.shape[1], self._capacity, states.shape[3])

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write ``[rows, heads, width, head size]`` and return all that these rows hold so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return self._write(self.keys, key_states), self._write(self.values, value_states)

    def _write(self, store: Tensor, states: Tensor) -> Tensor:
        span = self._span
        rows = store[span.slots]
        if self._places is None:
            start = span.starts[0]
            rows[:, :, start : start + span.width] = states
        else:
            row = torch.arange(len(span.starts), device=states.device)[:, None]
            rows[row, :, self._places] = states.transpose(1, 2)
        return rows[:, :, : span.length]

    def move(self, source: int, target: int) -> None:
        """Copy one slot over another."""
        if self.is_initialized:
            self.keys[target], self.values[target] = self.keys[source], self.values[source]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys that the next forward sees, and the position of the first."""
        del query_length  # the span knows it
        return self._span.length, 0

    def get_seq_length(self) -> int:
        """Tokens before the next block, where rows are aligned."""
        return self._span.starts[0]

    def get_max_length(self) -> int:
        """Tokens that a slot can hold."""
        return self._capacity


@dataclass(frozen=True, slots=True)
class Apart:
    """As :class:`Block`, for layers that keep their tokens in ways of their own."""

    layers: tuple[SlotLayer, ...]
    heads: int

    def write(self, layer: int, states: Tensor) -> tuple[Tensor, Tensor]:
        """Hand ``[rows, width, 2 × heads, head size]``, keys first, to the layer."""
        states = states.transpose(1, 2)
        return self.layers[layer].update(states[:, : self.heads], states[:, self.heads :])


class SlotCache(Cache):  # type: ignore[misc]  # transformers ships no types
    """The cache that a model's forward is given: one :class:`SlotLayer` per layer."""

    def __init__(self, layers: int, slots: int, capacity: int) -> None:
        super().__init__(layers=[SlotLayer(slots, capacity) for _ in range(layers)])
        self.slots, self.capacity = slots, capacity
        self._pool: Tensor | None = None
        self._span = Span((0,), 0)
        self._places: Tensor | None = None

    def aim(self, span: Span, positions: Tensor) -> None:
        """Say where the next forward's block goes; ``positions`` is ``[rows, width]``.

        A block of rows that differ in length is padded, and padding may reach past the end: it is written over the last
        place, which no token ever takes (the loop reserves one more than it needs).
        """
        within = span.length <= self.capacity
        places = None if span.aligned and within else positions if within else positions.clamp(max=self.capacity - 1)
        self._span, self._places = span, places
        if self._pool is None:
            for layer in self.layers:
                layer.aim(span, places)

    def aim_by(self, places: Tensor, length: int) -> None:
        """Say so by a tensor alone, for a forward that is recorded: rows from slot 0, of ``length`` tokens at most."""
        rows, width = places.shape
        self._span, self._places = Span((length - width,) * rows, width), places

    @property
    def pooled(self) -> bool:
        """Whether all layers' tokens lie in one tensor."""
        return self._pool is not None

    def block(self, like: Tensor, heads: int, size: int) -> Block | Apart:
        """The block that the cache is aimed at, of layers that are alike, in the dtype and on the device of ``like``.

        All layers' keys and values then lie in one tensor, of which each layer's own are views.
        """
        if any(type(layer) is not SlotLayer for layer in self.layers):
            return Apart(tuple(self.layers), heads)
        if self._pool is None:
            self._pool = like.new_zeros(len(self.layers), self.slots, 2 * heads, self.capacity, size)
            for layer, store in zip(self.layers, self._pool):
                layer.adopt(store[:, :heads], store[:, heads:])
        span, places = self._span, self._places
        rows = self._pool[:, span.slots]
        seen = rows[:, :, :, : span.length]
        keys, values = seen[:, :, :heads].unbind(0), seen[:, :, heads:].unbind(0)
        if places is None:
            start = span.starts[0]
            return Block(rows[:, :, :, start : start + span.width].unbind(0), None, keys, values)
        row = torch.arange(len(span.starts), device=like.device)[:, None]
        return Block(rows.unbind(0), (row, slice(None), places), keys, values)

    def move(self, source: int, target: int) -> None:
        """Copy one slot over another in all layers."""
        if self._pool is not None:
            self._pool[:, target] = self._pool[:, source]
            return
        for layer in self.layers:
            layer.move(source, target)

    def bytes(self) -> int:
        """What is allocated, over all layers."""
        made = [store for layer in self.layers if layer.is_initialized for store in (layer.keys, layer.values)]
        return sum(store.numel() * store.element_size() for store in made)

    def bytes_per_token(self) -> int:
        """What one token of one row takes, over all layers."""
        return self.bytes() // (self.slots * self.capacity)
