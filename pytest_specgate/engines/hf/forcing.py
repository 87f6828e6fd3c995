"""Teacher-forced logits of texts by plain forwards: several texts whole, or one block by block on its cache.

Works for any causal model. A batch is padded on the right, where such a model does not look.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch


class Forced(Protocol):
    """A text to force: ids of a prompt and of what answers it."""

    @property
    def prompt(self) -> tuple[int, ...]:
        """The prompt's ids."""

    @property
    def output(self) -> tuple[int, ...]:
        """The answer's ids; there is one at least."""


def groups(texts: Sequence[Forced], most: int) -> Iterator[list[int]]:
    """Texts of like length together, so that little is padded; at most ``most`` rows of logits each."""
    group: list[int] = []
    for i in sorted(range(len(texts)), key=lambda i: (len(texts[i].prompt) + len(texts[i].output), i)):
        if group and (len(group) + 1) * _kept([texts[j] for j in (*group, i)]) > most:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def _kept(texts: Sequence[Forced]) -> int:
    """Positions, counted from the end of the longest, that hold every output token's logits."""
    longest = max(len(text.prompt) + len(text.output) - 1 for text in texts)
    return longest - min(len(text.prompt) for text in texts) + 1


def whole(model: Any, texts: Sequence[Forced]) -> list[Any]:
    """Logits ``[tokens, vocabulary]`` of each text, all read in one forward."""
    # The last token of a text is scored by the row before it and need not be read.
    inputs = [text.prompt + text.output[:-1] for text in texts]
    longest = max(map(len, inputs))
    ids = torch.tensor([row + (0,) * (longest - len(row)) for row in inputs], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in inputs], device=model.device)
    kept = min(_kept(texts), longest)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, **keep(model, kept)).logits
    before = longest - logits.shape[1]
    found = []
    for number, text in enumerate(texts):
        first = len(text.prompt) - 1 - before
        found.append(logits[number, first : first + len(text.output)])
    return found


def blockwise(model: Any, text: Forced, width: int) -> Iterator[Any]:
    """Logits of one text in order: one row after the prompt, then up to ``width`` from each forward on its cache."""
    begin = torch.tensor([text.prompt], device=model.device)
    out = model(input_ids=begin, use_cache=True, **keep(model, 1))
    yield out.logits[0, -1:]
    for at in range(0, len(text.output) - 1, width):
        block = text.output[at : min(at + width, len(text.output) - 1)]
        ids = torch.tensor([block], device=model.device)
        out = model(input_ids=ids, use_cache=True, **cached(model, out))
        yield out.logits[0]


def keep(model: Any, positions: int) -> dict[str, int]:
    """How to ask for the last logits only; a model that cannot be asked makes them all."""
    known = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": positions} if known else {}


def cached(model: Any, out: Any) -> dict[str, Any]:
    """The cache so far, under the name by which this version of transformers takes it."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    return {name: getattr(out, name)}
