"""From scores to tokens: what each row's job makes of them, at every position of a block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.randomness import Purpose, uniforms
from pytest_specgate.decoding.sending import sent


class Chooser:
    """Reads scores for the rows of one round. ``greedy`` says that no row draws, and nothing is random then."""

    def __init__(self, rows: Sequence[Row], device: object) -> None:
        self._rows = rows
        self._device = device
        self.greedy = all(row.job.greedy for row in rows)
        self._processed = any(row.job.processors for row in rows)
        if not self.greedy:
            self._seeds = sent([[row.job.seed] for row in rows], device)
            self._next = sent([[len(row.tokens)] for row in rows], device)

    def shaped(self, scores: Tensor, drafted: Tensor) -> Tensor:
        """Apply each row's processors to ``scores [rows, width, vocabulary]``.

        The last position stands after all of ``drafted [rows, any]``, those before it after one less each: a verifier
        hands in all positions of a block, a drafter the one after what it has drafted so far. Scores of 16 bits are
        shaped in 32: a sum of probabilities, as top-p takes it, loses the small ones otherwise.
        """
        if not self._processed:
            return scores
        if scores.dtype.itemsize < 4:
            scores = scores.float()
        before = drafted.shape[1] - scores.shape[1] + 1
        return torch.stack(
            [self._shape_row(row, scores[slot], drafted[slot], before) for slot, row in enumerate(self._rows)]
        )

    @staticmethod
    def _shape_row(row: Row, scores: Tensor, drafted: Tensor, before: int) -> Tensor:
        for processor in row.job.processors:
            scores = processor(scores, row, drafted, before)
        return scores

    def odds(self, shaped: Tensor) -> Tensor:
        """Probabilities of ``[rows, width, vocabulary]``: all on the best token where the row is greedy."""
        probabilities = torch.softmax(shaped.float() if shaped.dtype.itemsize < 4 else shaped, dim=-1)
        for slot, row in enumerate(self._rows):
            if row.job.greedy:
                sure = best(shaped[slot])[..., None]
                probabilities[slot] = torch.zeros_like(probabilities[slot]).scatter_(-1, sure, 1.0)
        return probabilities

    def logs(self, scores: Tensor, drafted: Tensor, tokens: Tensor) -> list[list[float]]:
        """Log-probabilities of ``tokens [rows, width]`` where any row's job asks for them, else an empty list a row.

        They are those of the shaped scores, whether a token was drawn from them or is their best.
        """
        if not any(row.job.logprobs for row in self._rows):
            return [[] for _ in self._rows]
        shaped = self.shaped(scores, drafted)
        wide = shaped.float() if shaped.dtype.itemsize < 4 else shaped
        found: list[list[float]] = wide.log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0].tolist()
        return found

    def uniforms(self, width: int, purpose: Purpose, ahead: int = 0) -> Tensor:
        """Random numbers for the next ``width`` positions of every row, ``ahead`` of them skipped."""
        steps = torch.arange(ahead, ahead + width, device=self._next.device)
        return uniforms(self._seeds, self._next + steps, purpose)

    def draft(self, scores: Tensor, drafted: Tensor) -> tuple[Tensor, Tensor | None]:
        """Choose the token after ``drafted [rows, step]`` from ``scores [rows, vocabulary]``.

        Return it, ``[rows]``, and the probabilities ``[rows, vocabulary]`` that it was drawn from, None where all is
        greedy.
        """
        shaped = self.shaped(scores[:, None], drafted)
        if self.greedy:
            return best(shaped[:, 0]), None
        odds = self.odds(shaped)
        chosen = drawn(odds, self.uniforms(1, Purpose.DRAFT, ahead=drafted.shape[1]))
        return chosen[:, 0], odds[:, 0]


def best(scores: Tensor) -> Tensor:
    """The token with the highest score of ``[..., vocabulary]``, the first of equal ones.

    Of 16 bits on a CPU this takes a sixth of what ``argmax`` takes.
    """
    return scores.max(dim=-1).indices


def drawn(weights: Tensor, numbers: Tensor) -> Tensor:
    """Draw one token per position by inverting the cumulated ``weights [..., vocabulary]`` at ``numbers [...]``.

    Weights need not add up to one. A token without weight is never drawn, at either end of the scale.
    """
    cumulated = weights.to(torch.float64).cumsum(dim=-1)
    total = cumulated[..., -1:].contiguous()
    found = torch.searchsorted(cumulated, numbers[..., None] * total, right=True)
    last = torch.searchsorted(cumulated, total)  # rounding may reach the total itself
    last.clamp_(max=weights.shape[-1] - 1)  # weights that are no numbers have no place, and get a token all the same
    return torch.minimum(found, last)[..., 0]
