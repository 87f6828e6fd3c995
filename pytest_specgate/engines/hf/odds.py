"""The chances of the next token, row by row: of all tokens, or of the few that a filter has left.

A filter that leaves fifty tokens of a hundred thousand makes everything after it a sum over fifty; which of the two
forms a row is in shows in no answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Odds:
    """Chances ``odds [rows, some]`` of the tokens ``ids [rows, some]``, all others having none; without ids of all."""

    odds: Tensor
    ids: Tensor | None

    @classmethod
    def of_scores(cls, scores: Tensor, ids: Tensor | None = None) -> Odds:
        """The softmax of scores ``[rows, some]``, each row's own."""
        return cls(torch.softmax(scores, dim=-1), ids)

    def of(self, tokens: Tensor) -> Tensor:
        """The chance of one token a row, ``[rows]``."""
        return self.at(self.odds, tokens)

    def at(self, numbers: Tensor, tokens: Tensor) -> Tensor:
        """The number that stands for each row's token, 0 where none does."""
        if self.ids is not None:
            return (numbers * (self.ids == tokens[:, None])).sum(dim=-1, dtype=torch.float64)
        place = tokens.clamp(min=0, max=numbers.shape[-1] - 1)
        return numbers.gather(-1, place[:, None])[:, 0].double() * (place == tokens)

    def before(self, tokens: Tensor) -> Tensor:
        """The chance of all that ranks before one token a row, of equal ones the lower id first, ``[rows]``."""
        ids = torch.arange(self.odds.shape[-1], device=tokens.device) if self.ids is None else self.ids
        mine = self.of(tokens).to(self.odds.dtype)[:, None]
        first = (self.odds > mine) | ((self.odds == mine) & (ids < tokens[:, None]))
        return (self.odds * first).sum(dim=-1, dtype=torch.float64).clamp(max=1)

    def whole(self, size: int) -> Tensor:
        """The chances of the first ``size`` tokens, each at its own place."""
        if self.ids is None:
            missing = size - self.odds.shape[-1]
            return torch.nn.functional.pad(self.odds, (0, missing)) if missing > 0 else self.odds[:, :size]
        known = self.odds * (self.ids < size)
        return torch.zeros_like(known[:, :1]).expand(-1, size).scatter_add(-1, self.ids.clamp(max=size - 1), known)

    def taken(self, other: Odds, size: int) -> Tensor:
        """The chances that the other gives to this one's tokens, ``[rows, some]``."""
        if self.ids is None:
            return other.whole(size)
        if other.ids is None:
            return other.whole(size).gather(-1, self.ids)
        ids, order = other.ids.sort(dim=-1)
        place = torch.searchsorted(ids, self.ids).clamp(max=ids.shape[-1] - 1)
        found = other.odds.gather(-1, order.gather(-1, place))
        return found * (ids.gather(-1, place) == self.ids)
