"""A model with its cache: one forward over a block of new tokens, every row at its own position.

Masks are made here: a token sees what stands at or before its own position, so whatever an earlier round left behind
is invisible until it is overwritten. Where all rows are aligned and one token is new, or a prompt begins, the model
makes its own mask, which its kernels know how to do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.anatomy import Anatomy, examine
from pytest_specgate.decoding.cache import SlotCache, Span
from pytest_specgate.decoding.kernels import unplanned
from pytest_specgate.decoding.lean import CLASSES, ROUGH, LeanForward, lean
from pytest_specgate.decoding.recorded import Recorder, Recordings
from pytest_specgate.decoding.refusal import Refusal
from pytest_specgate.decoding.sending import sent

#: Prompt tokens of one forward: bounds the mask and the scores of a long prompt.
PREFILL_CHUNK = 1024


class Network:
    """One model of transformers, driven block by block. Raises Refusal for a model that cannot be.

    ``forward`` is a lean forward to be used unasked. ``doubt`` says why a model is not driven by one although its class
    would fit.
    """

    def __init__(self, model: Any, forward: LeanForward | None = None) -> None:
        self.model = model
        self.anatomy: Anatomy = examine(model)
        self.cache: SlotCache | None = None
        self._device = model.device
        self._lowest = torch.finfo(model.dtype).min
        self._lean, self.doubt = forward, ""
        if forward is None:
            admission = lean(model, self.anatomy, lambda other: Network(other, LeanForward(other)))
            self._lean, self.doubt = admission.forward, admission.doubt
        self._recordings: Recordings | None = None

    @property
    def device(self) -> Any:
        """Where the model runs."""
        return self._device

    @property
    def forward_name(self) -> str:
        """``lean`` where the class is driven in few operations, else ``modules``: its own."""
        return "lean" if self._lean else "modules"

    @property
    def rounds_apart(self) -> bool:
        """Whether the model's own modules round in another order, in a dtype in which that shows."""
        return self._lean is not None and self.model.dtype in ROUGH

    def record(self, fresh: Callable[[], Recorder]) -> None:
        """From now on record forwards by shape, with recorders that ``fresh`` makes, and replay them.

        Raises Refusal for a class that cannot be.
        """
        if self.doubt:
            raise Refusal(f"forwards of {self.anatomy.name} cannot be recorded: {self.doubt}", "remove 'graphs'")
        if self._lean is None:
            hint = f"remove 'graphs' or use a model of one of these classes: {', '.join(CLASSES)}, windows apart"
            raise Refusal(f"forwards of {self.anatomy.name} cannot be recorded", hint)
        if not self._lean.recordable:
            what = f"forwards of {self.anatomy.name} cannot be recorded: its angles depend on how long a text is"
            raise Refusal(what, "remove 'graphs'")
        self._recordings = Recordings(self._lean, fresh, self.anatomy.context)

    @property
    def recordings(self) -> Recordings | None:
        """Forwards recorded so far; None where none is wanted."""
        return self._recordings

    @property
    def copied_bytes(self) -> int:
        """Weights that are kept a second time, in a form that is read faster."""
        return self._lean.copied_bytes if self._lean else 0

    def apart(self) -> Network:
        """The same forward with a cache of its own and nothing recorded: what it runs leaves this one as it is."""
        made = copy(self)
        made.cache = made._recordings = None  # noqa: SLF001 - its own class
        return made

    def reserve(self, slots: int, capacity: int) -> None:
        """Have a cache of at least so many slots and tokens per slot; one that is large enough is kept.

        Between runs: whatever the cache holds may be written over.
        """
        if self.cache is None or self.cache.slots < slots or self.cache.capacity < capacity:
            self.forget()
            self.cache = SlotCache(len(self.anatomy.windows), slots, capacity)
        if self._recordings is not None:
            with unplanned(self._device):
                self._recordings.make(self.cache)

    def forget(self) -> None:
        """Give the cache back, and what was recorded for it."""
        self.cache = None
        if self._recordings is not None:
            self._recordings.forget()

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        """Write the block ``tokens [rows, width]`` and return its scores ``[rows, width, vocabulary]``.

        ``keep`` asks for the last so many positions alone, 0 for all. Positions past the model's context are read as
        its last one: only padding, whose scores nobody reads, may stand there.
        """
        cache = self._reserved()
        if self._recordings is not None and not keep:
            recorded = self._recordings.scores(tokens, span, cache)
            if recorded is not None:
                return recorded
        with unplanned(self._device):
            return self._forward(tokens, span, cache, keep)

    def _forward(self, tokens: Tensor, span: Span, cache: SlotCache, keep: int) -> Tensor:
        positions = span.positions(self._device)
        cache.aim(span, positions)
        context = self.anatomy.context
        if context is not None and span.length > context:
            positions = positions.clamp(max=context - 1)
        mask = self._mask(span, positions)
        if self._lean and not isinstance(mask, dict):
            return self._lean(tokens, positions, mask, cache, keep)
        output = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=keep,
            **{self.anatomy.cache_name: cache},
        )
        scores: Tensor = output.logits
        return scores

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        """Read a prompt into a slot and return the scores after its last token, ``[1, 1, vocabulary]``."""
        scores: Tensor | None = None
        for start in range(0, len(prompt), PREFILL_CHUNK):
            part = prompt[start : start + PREFILL_CHUNK]
            tokens = sent([list(part)], self._device)
            scores = self.forward(tokens, Span((start,), len(part), slot), keep=1)
        if scores is None:
            raise ValueError("an empty prompt has no next token")
        return scores

    def block_after(self, texts: Sequence[Sequence[int]], width: int) -> Callable[[], Tensor]:
        """Read texts, one a slot, and return a forward over ``width`` tokens after each that can be run repeatedly.

        Room for both must be reserved.
        """
        for slot, text in enumerate(texts):
            self.prefill(text, slot)
        block = sent([[text[-1]] * width for text in texts], self._device)
        span = Span(tuple(map(len, texts)), width)
        return lambda: self.forward(block, span)

    def forced(self, prompt: Sequence[int], output: Sequence[int], width: int) -> Iterator[Tensor]:
        """Scores ``[tokens, vocabulary]`` of a given text: a row after the prompt, then ``width`` from each forward.

        A cache is reserved for it, as for a run.
        """
        self.reserve(1, len(prompt) + len(output))
        yield self.prefill(prompt, 0)[0]
        for at in range(0, len(output) - 1, width):
            block = sent([list(output[at : min(at + width, len(output) - 1)])], self._device)
            yield self.forward(block, Span((len(prompt) + at,), block.shape[1]))[0]

    def whole(self, prompt: Sequence[int], output: Sequence[int], most: int) -> Iterator[Tensor]:
        """As :meth:`forced`, text and prompt alike read as a prompt is, with ``most`` rows of scores a forward."""
        tokens, first = [*prompt, *output[:-1]], len(prompt) - 1
        self.reserve(1, len(tokens))
        step = min(PREFILL_CHUNK, most)
        for start in range(0, len(tokens), step):
            part = tokens[start : start + step]
            asked = start + len(part) - max(start, first)
            block = sent([part], self._device)
            scores = self.forward(block, Span((start,), len(part)), keep=max(1, asked))
            if asked > 0:
                yield scores[0]

    def move(self, source: int, target: int) -> None:
        """Copy one slot over another."""
        self._reserved().move(source, target)

    def cache_bytes(self) -> int:
        """What the cache has allocated."""
        return self.cache.bytes() if self.cache else 0

    def bytes_per_token(self) -> int:
        """What the cache holds a token of a row in."""
        return self.cache.bytes_per_token() if self.cache else 0

    def _reserved(self) -> SlotCache:
        if self.cache is None:
            raise RuntimeError("reserve() comes before the first forward")
        return self.cache

    def _mask(self, span: Span, positions: Tensor) -> Tensor | dict[str, Tensor] | None:
        """Additive masks ``[rows, 1, width, length]``, by kind of layer if several; None for the model's own."""
        if span.aligned and (span.width == 1 or span.starts[0] == 0):
            return None
        by_window = {window: self._band(span, positions, window) for window in set(self.anatomy.windows)}
        if self.anatomy.kinds:
            return {kind: by_window[window] for kind, window in zip(self.anatomy.kinds, self.anatomy.windows)}
        return by_window[self.anatomy.windows[0]]

    def _band(self, span: Span, positions: Tensor, window: int | None) -> Tensor:
        keys = torch.arange(min(span.length, self._reserved().capacity), device=self._device)
        queries = positions[:, :, None]
        visible = keys <= queries
        if window is not None and span.length > window:
            visible &= keys > queries - window
        mask = torch.zeros(visible.shape, dtype=self.model.dtype, device=self._device)
        return mask.masked_fill_(~visible, self._lowest)[:, None]
