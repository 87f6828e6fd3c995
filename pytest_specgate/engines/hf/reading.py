"""Teacher-forced logits of many texts, each token read once: what texts begin with alike is read for all of them.

Texts make a tree (:mod:`~pytest_specgate.engines.hf.texttree`). A forward reads a stretch of it as one row in which a
token sees its ancestors alone; the cache holds the way to the stretch and is rolled back by length to the next one. So
nothing is padded, a prompt's keys and values are computed once for all answers to it, and prompts share what their
template puts before them. Logits are made where an output token is scored, and nowhere else.

The model's own modules compute, not the decoder's lean forward: what judges a decoder shares as little with it as can
be. A class is read so only after a probe agreed with plain forwards; others are read text by text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from pytest_specgate.decoding.anatomy import Anatomy, examine
from pytest_specgate.decoding.cache import SlotCache, Span
from pytest_specgate.decoding.refusal import Refusal
from pytest_specgate.engines.hf import forcing
from pytest_specgate.engines.hf.manyrows import fast
from pytest_specgate.engines.hf.texttree import Stretch, Tree, stretches, tree_of

#: Tokens of one forward, by the device's kind: enough to keep it busy, few enough that those which do not see each
#: other cost little.
WIDTH = {"cpu": 256}
WIDTH_ELSEWHERE = 2048
#: How far logits of both ways of reading may differ, relative to the largest: rounding in another order.
_AGREEMENT = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}
_PROBE = (tuple(range(6)), (0, 1, 2, 5, 4, 3))


@dataclass(frozen=True, slots=True)
class Voice:
    """A model that reads, and what is held open while it does."""

    model: Any
    hold: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True)
class Piece:
    """Logits of a text's output tokens from the ``at``-th on: ``[tokens, vocabulary]`` of each voice."""

    text: int
    at: int
    logits: tuple[Tensor, ...]


def pieces(readers: Readers, voices: Sequence[Voice], texts: Sequence[forcing.Forced], most: int) -> Iterator[Piece]:
    """All output tokens of all texts, each text's own in order; a forward makes at most ``most`` rows of logits."""
    anatomies = [readers.anatomy(voice.model) for voice in voices]
    fit = [anatomy for anatomy in anatomies if anatomy is not None]
    if len(fit) < len(voices):
        yield from _one_by_one(voices, texts, most)
        return
    tree, width = tree_of([(text.prompt, text.output) for text in texts]), width_for(voices[0].model)
    each = [Reader(voice.model, anatomy, tree, width) for voice, anatomy in zip(voices, fit)]
    for stretch in stretches(tree, width, most):
        made = []
        for voice, reader in zip(voices, each):
            with voice.hold():
                made.append(reader.read(stretch))
        for use in stretch.uses:
            yield Piece(use.text, use.at, tuple(_rows(logits, use.rows) for logits in made))


def _rows(logits: Tensor, rows: Sequence[int]) -> Tensor:
    """These rows, which ascend; no copy where they follow each other."""
    first, after = rows[0], rows[-1] + 1
    return logits[first:after] if after - first == len(rows) else logits[list(rows)]


def _one_by_one(voices: Sequence[Voice], texts: Sequence[forcing.Forced], most: int) -> Iterator[Piece]:
    for group in forcing.groups(texts, most):
        chosen = [texts[i] for i in group]
        if len(chosen[0].output) > most:
            yield from _blockwise(voices, (group[0], chosen[0]), most)
            continue
        made = []
        for voice in voices:
            with voice.hold():
                made.append(forcing.whole(voice.model, chosen))
        for number, logits in zip(group, zip(*made)):
            yield Piece(number, 0, logits)


def _blockwise(voices: Sequence[Voice], numbered: tuple[int, forcing.Forced], width: int) -> Iterator[Piece]:
    number, text = numbered
    running = [forcing.blockwise(voice.model, text, width) for voice in voices]
    at = 0
    while at < len(text.output):
        made = []
        for voice, one in zip(voices, running):
            with voice.hold():
                made.append(next(one))
        yield Piece(number, at, tuple(made))
        at += len(made[0])


class Readers:
    """Whether each model of an engine can be read as a tree, found out once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Anatomy | None]] = {}

    def anatomy(self, model: Any) -> Anatomy | None:
        """What reading must know of the model; None where texts have to be read one by one."""
        if id(model) not in self._known:
            self._known[id(model)] = (model, _examined(model))  # the model is held, so its id stays its own
        return self._known[id(model)][1]


class Reader:
    """Reads one tree through one model, stretch by stretch."""

    def __init__(self, model: Any, anatomy: Anatomy, tree: Tree, width: int) -> None:
        self._model, self._anatomy, self._tree = model, anatomy, tree
        self._device, self._lowest = model.device, torch.finfo(model.dtype).min
        self._depths, self._ends = (torch.tensor(ids, device=self._device) for ids in (tree.depths, tree.ends))
        self._tokens = torch.tensor(tree.tokens, device=self._device)
        self._cache = SlotCache(len(anatomy.windows), 1, max(tree.depths, default=0) + 1 + width)
        self._held: list[int] = []  # nodes by their place in the cache

    def read(self, stretch: Stretch) -> Tensor:
        """Logits ``[scored, vocabulary]`` of a stretch; they come in order."""
        self._back_to(stretch.way)
        nodes = torch.arange(stretch.begin, stretch.end, device=self._device)
        span = Span((len(stretch.way),), len(nodes))
        depths = self._depths[nodes][None]
        self._cache.aim(span, depths)
        wanted = torch.tensor([node - stretch.begin for node in stretch.scored], device=self._device)
        with fast(self._model):
            output = self._model(
                input_ids=self._tokens[nodes][None],
                attention_mask=self._masks(stretch, nodes),
                position_ids=depths,
                use_cache=True,
                logits_to_keep=wanted if len(wanted) else 1,
                **{self._anatomy.cache_name: self._cache},
            )
        self._held += range(stretch.begin, stretch.end)
        logits: Tensor = output.logits[0]
        return logits[: len(wanted)]

    def _back_to(self, way: Sequence[int]) -> None:
        """Have the cache hold this way and nothing else."""
        kept = 0
        while kept < min(len(way), len(self._held)) and way[kept] == self._held[kept]:
            kept += 1
        if kept < len(way):
            places = {node: place for place, node in enumerate(self._held)}
            moved = torch.tensor([places[node] for node in way[kept:]], device=self._device)
            for layer in self._cache.layers:
                if layer.is_initialized:  # an early exit leaves the last ones alone
                    for store in (layer.keys, layer.values):
                        store[:, :, kept : len(way)] = store[:, :, moved]
        self._held = list(way)

    def _masks(self, stretch: Stretch, nodes: Tensor) -> Tensor | dict[str, Tensor]:
        seen = torch.cat((torch.tensor(stretch.way, dtype=torch.long, device=self._device), nodes))
        visible = (seen <= nodes[:, None]) & (nodes[:, None] < self._ends[seen])
        distance = self._depths[nodes][:, None] - self._depths[seen]
        by_window = {window: self._mask(visible, distance, window) for window in set(self._anatomy.windows)}
        if self._anatomy.kinds:
            return {kind: by_window[window] for kind, window in zip(self._anatomy.kinds, self._anatomy.windows)}
        return by_window[self._anatomy.windows[0]]

    def _mask(self, visible: Tensor, distance: Tensor, window: int | None) -> Tensor:
        if window is not None:
            visible = visible & (distance < window)
        mask = torch.zeros(visible.shape, dtype=self._model.dtype, device=self._device)
        return mask.masked_fill_(~visible, self._lowest)[None, None]


def width_for(model: Any) -> int:
    """Tokens that one forward of the model reads."""
    return WIDTH.get(torch.device(model.device).type, WIDTH_ELSEWHERE)


def _examined(model: Any) -> Anatomy | None:
    if not isinstance(model, PreTrainedModel) or "logits_to_keep" not in signature(model.forward).parameters:
        return None
    try:
        anatomy = examine(model)
        with torch.inference_mode():
            return anatomy if _agrees(model, anatomy) else None
    except (Refusal, TypeError, ValueError, IndexError, AttributeError, RuntimeError):
        return None  # a class of another kind, whatever it stumbles over


def _agrees(model: Any, anatomy: Anatomy) -> bool:
    """Whether two texts that part get the logits of plain forwards, read in stretches that need the cache."""
    rows = [[token % anatomy.vocabulary for token in text] for text in _PROBE]
    plain = model(input_ids=torch.tensor(rows, device=model.device), use_cache=False).logits
    texts = [(row[:1], [*row[1:], 0]) for row in rows]
    tree = tree_of(texts)
    reader, worst = Reader(model, anatomy, tree, 4), 0.0
    for stretch in stretches(tree, 4, len(rows) * len(rows[0])):
        logits = reader.read(stretch)
        for use in stretch.uses:
            own = plain[use.text, use.at : use.at + len(use.rows)]
            distance = float((logits[list(use.rows)] - own).abs().max())
            if not math.isfinite(distance):  # no number is larger than one that is none
                return False
            worst = max(worst, distance)
    return worst <= _AGREEMENT.get(model.dtype, 0.0) * float(plain.abs().max())
