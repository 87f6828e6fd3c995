"""Self-speculation: the target's first layers draft for the whole of it, with its own last norm and head.

Those layers' keys and values are the target's own, so drafting reads and writes the target's cache: no prompt is read
twice, and the target's forward over the block writes the same again. (Elhoushi et al., "LayerSkip", ACL 2024.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pytest_specgate.decoding.cache import SlotCache, Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft, nothing
from pytest_specgate.decoding.drafters.stepwise import Begun, continued
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.refusal import Refusal
from pytest_specgate.decoding.sending import sent


class EarlyExit:
    """Drafts with the first ``layers`` layers of ``target``, while they are as sure as ``least`` of the whole draft.

    Raises Refusal where its class cannot stop early.
    """

    def __init__(self, target: Network, layers: int, least: float = 0.0) -> None:
        self._target, self._layers, self._least = target, layers, least
        total = len(target.anatomy.windows)
        if not 0 < layers < total:
            raise Refusal(f"exit_layer {layers} is not below the target's {total} layers", f"choose 1 to {total - 1}")
        self._refuse_deaf()

    def _refuse_deaf(self) -> None:
        """Some classes run all their layers whatever their configuration says; their caches tell."""
        model, total = self._target.model, len(self._target.anatomy.windows)
        cache = SlotCache(total, 1, 2)
        token = torch.zeros((1, 1), dtype=torch.long, device=self._target.device)
        cache.aim(Span((0,), 1), token)
        with torch.inference_mode(), shallow(model, self._layers):
            model(input_ids=token, position_ids=token, use_cache=True, **{self._target.anatomy.cache_name: cache})
        if cache.layers[self._layers].is_initialized:
            what = f"{self._target.anatomy.name} runs all its layers, so none can be left early"
            raise Refusal(what, "choose another method")

    def reserve(self, slots: int, capacity: int) -> None:
        """Needs no room: the cache is the target's."""

    def enter(self, row: Row, slot: int) -> None:
        """The target has read the prompt."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return the next tokens of every row, of which each proposes what its limit allows."""
        device = self._target.device
        if not max(limits):
            return nothing(len(rows), device)
        lengths = tuple(len(row.tokens) for row in rows)
        last = sent([[row.tokens[-1]] for row in rows], device)
        with shallow(self._target.model, self._layers):
            scores = self._target.forward(last, Span(tuple(length - 1 for length in lengths), 1))[:, 0]
            return continued(self._target, Chooser(rows, device), Begun(scores, lengths, limits, self._least))

    def settle(self, accepted: Sequence[int]) -> None:
        """Nothing to forget: the target's forward has written over the drafts."""

    def move(self, source: int, target: int) -> None:
        """The target's cache moves by itself."""

    def networks(self) -> tuple[Network, ...]:
        """None of its own."""
        return ()

    def step_after(self, texts: Sequence[Sequence[int]]) -> Callable[[], object]:
        """The target's forward of one token as far as the exit."""
        whole = self._target.block_after(texts, 1)

        def step() -> object:
            with shallow(self._target.model, self._layers):
                return whole()

        return step


@contextmanager
def shallow(model: Any, layers: int) -> Iterator[None]:
    """While open, the model's forward stops after so many layers: transformers' classes read that number each time."""
    config = model.config.get_text_config(decoder=True)
    whole = config.num_hidden_layers
    config.num_hidden_layers = layers
    try:
        yield
    finally:
        config.num_hidden_layers = whole
