"""What reshapes scores before a token is chosen. Each is a small value, applied at every position of a block.

A processor sees what precedes each position, drafts of the block included: a penalty that looked at the text before the
block alone would let a draft repeat itself. They act in the order in which a job lists them; transformers' own order is
bias, penalties, bad words, ``min_tokens``, temperature, then the filters, ``min_p`` last. Scores are ``[width,
vocabulary]``, one row of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import pad

from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.sending import sent

_NEVER = float("-inf")
#: So many best tokens hold the nucleus of most positions.
_FEW = 256


class Processor(Protocol):
    """Reshapes the scores of one row."""

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return new scores; position ``j`` follows the row's tokens and ``drafted[: before + j]``."""


@runtime_checkable
class Filter(Protocol):
    """A processor that leaves few tokens, and can tell them without writing the others down."""

    def few(self, scores: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return scores and ids ``[width, some]`` that hold all that is left, minus infinity for what is not.

        None where more are left than are looked for.
        """


@dataclass(frozen=True, slots=True)
class Temperature:
    """Divide scores by a positive ``value``: below 1 sharpens, above 1 flattens."""

    value: float

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores divided."""
        del row, drafted, before
        return scores / self.value


@dataclass(frozen=True, slots=True)
class TopK:
    """Keep the ``k`` best tokens, and all that are as good as the last of them."""

    k: int

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with the others at minus infinity."""
        del row, drafted, before
        least = scores.topk(min(self.k, scores.shape[-1]), dim=-1).values[..., -1:]
        return scores.masked_fill(scores < least, _NEVER)

    def few(self, scores: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the best tokens, unless there are many, or many as good as the last."""
        if scores.shape[-1] <= _FEW or self.k >= _FEW:
            return None
        best, ids = scores.topk(_FEW, dim=-1)
        least = best[..., self.k - 1 : self.k]
        return None if (best[..., -1:] == least).any() else (best.masked_fill(best < least, _NEVER), ids)


@dataclass(frozen=True, slots=True)
class TopP:
    """Keep the fewest best tokens whose probabilities add up to ``p`` at least (Holtzman et al., ICLR 2020)."""

    p: float

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with the others at minus infinity; the best token always stays."""
        del row, drafted, before
        # On a CPU a sort of a large vocabulary takes longer than the rest of a token. Elsewhere it is fast, and to
        # ask whether the first few suffice would wait for the device.
        return self._best(scores, _FEW) if scores.device.type == "cpu" else self._sorted(scores)

    def _best(self, scores: Tensor, few: int) -> Tensor:
        """The nucleus from so many best tokens, and from more where they do not hold it."""
        if scores.shape[-1] <= few:
            return self._sorted(scores)
        best, ids, kept = self._nucleus(scores, few)
        found = torch.full_like(scores, _NEVER).scatter(-1, ids, best.masked_fill(~kept, _NEVER))
        open_ended = kept[..., -1]
        if open_ended.any():
            found[open_ended] = self._best(scores[open_ended], 16 * few)
        return found

    def _nucleus(self, scores: Tensor, few: int) -> tuple[Tensor, Tensor, Tensor]:
        """The best tokens' scores and ids in falling order, and which of them are left."""
        best, ids = scores.topk(few, dim=-1)
        odds = (best - scores.logsumexp(dim=-1, keepdim=True)).exp()
        return best, ids, odds.cumsum(dim=-1) - odds < self.p

    def few(self, scores: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the nucleus, unless some position's holds many."""
        if scores.shape[-1] <= 16 * _FEW:
            return None
        best, ids, kept = self._nucleus(scores, _FEW)
        open_ended = kept[:, -1]
        if open_ended.any():
            found = self._nucleus(scores[open_ended], 16 * _FEW)
            if found[2][:, -1].any():
                return None
            rows = open_ended.nonzero()[:, 0]
            best, ids, kept = (
                pad(narrow, (0, wide.shape[-1] - _FEW)).index_copy(0, rows, wide)
                for narrow, wide in zip((best, ids, kept), found)
            )
        left = int(kept.sum(dim=-1).max())
        return best.masked_fill(~kept, _NEVER)[:, :left], ids[:, :left].contiguous()

    def _sorted(self, scores: Tensor) -> Tensor:
        ascending, order = scores.sort(dim=-1)
        dropped = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1 - self.p
        dropped[..., -1] = False
        return scores.masked_fill(dropped.scatter(-1, order, dropped), _NEVER)


@dataclass(frozen=True, slots=True)
class MinP:
    """Keep tokens at least ``p`` times as probable as the best one."""

    p: float

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with the others at minus infinity."""
        del row, drafted, before
        odds = scores.softmax(dim=-1)
        return scores.masked_fill(odds < self.p * odds.amax(dim=-1, keepdim=True), _NEVER)


@dataclass(frozen=True, slots=True)
class LogitBias:
    """Add to the scores of some tokens."""

    bias: Mapping[int, float]

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with the biases added."""
        del row, drafted, before
        tokens = sent(list(self.bias), scores.device)
        added = sent(list(self.bias.values()), scores.device, scores.dtype)
        return scores.index_add(-1, tokens, added.expand(len(scores), -1))


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Divide positive and multiply negative scores of all tokens seen so far (Keskar et al., 2019, "CTRL")."""

    penalty: float

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with what was seen made less likely, in prompt, output and the drafts before a position."""
        seen = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        seen[:, sent(row.tokens, scores.device)] = True
        for place in range(len(scores)):
            seen[place, drafted[: before + place]] = True
        penalised = torch.where(scores > 0, scores / self.penalty, scores * self.penalty)
        return torch.where(seen, penalised, scores)


@dataclass(frozen=True, slots=True)
class CountPenalty:
    """Subtract ``frequency`` for every time that the output holds a token, and ``presence`` once (OpenAI's API)."""

    frequency: float = 0.0
    presence: float = 0.0

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with what was said made less likely, in the output and the drafts before a position."""
        said = sent(row.tokens[len(row.job.prompt) :], scores.device)
        counts = torch.zeros_like(scores)
        for place, position in enumerate(counts):
            text = torch.cat((said, drafted[: before + place]))
            position.index_add_(0, text, torch.ones_like(text, dtype=scores.dtype))
        return scores - self.frequency * counts - self.presence * (counts > 0)


@dataclass(frozen=True, slots=True)
class MinTokens:
    """Forbid the tokens of ``eos`` until ``least`` tokens were made."""

    least: int
    eos: tuple[int, ...]

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with the end of text at minus infinity where it would come too early."""
        del drafted
        early = self.least - (len(row.tokens) - len(row.job.prompt)) - before
        if early <= 0:
            return scores
        scores = scores.clone()
        scores[:early, sent(self.eos, scores.device)] = _NEVER
        return scores


@dataclass(frozen=True, slots=True)
class BadWords:
    """Forbid sequences of tokens: the last of each, wherever the others stand right before."""

    words: tuple[tuple[int, ...], ...]

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        """Return scores with what would complete a bad word at minus infinity."""
        longest = max(map(len, self.words))
        text = sent(row.tokens[-longest:], scores.device)
        text = torch.cat((text, drafted))
        begins = [sent(word[:-1], scores.device) for word in self.words]
        scores = scores.clone()
        for place, position in enumerate(scores):
            end = len(text) - len(drafted) + before + place
            for word, begin in zip(self.words, begins):
                start = end - len(word) + 1
                if start >= 0:
                    begun = (text[start:end] == begin).all()
                    position[word[-1]] = torch.where(begun, _NEVER, position[word[-1]])
        return scores
