"""Drafting token by token with a network, from the scores after each row's last token on.

A draft may end before its limit, where the network itself holds it unlikely that all of it is kept. That is asked
before a token is chosen, so what is proposed depends on what stands before it alone, and drawn texts stay the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft, nothing
from pytest_specgate.decoding.network import Network


@dataclass(frozen=True, slots=True)
class Begun:
    """Where drafting goes on: ``scores [rows, vocabulary]`` after each row's last token, ``begins`` the positions next.

    ``limits`` are the most tokens of each row, one at least of some; ``least`` is how sure the network must be.
    """

    scores: Tensor
    begins: Sequence[int]
    limits: Sequence[int]
    least: float = 0.0


class _Counts:
    """How many tokens each row proposes: up to its limit, as long as the product of its best chances is enough."""

    def __init__(self, begun: Begun) -> None:
        self._limits, self._least = begun.limits, begun.least
        self._sure = torch.ones(len(begun.limits), device=begun.scores.device)
        self.found = [0] * len(begun.limits) if begun.least else list(begun.limits)

    def another(self, scores: Tensor, step: int) -> bool:
        """Whether any row proposes a token of these scores; asking waits for the device where ``least`` is set."""
        if not self._least:
            return True
        wide = scores.float()
        self._sure = self._sure * (wide.amax(dim=-1) - wide.logsumexp(dim=-1)).exp()
        sure = (self._sure >= self._least).tolist()
        for row, limit in enumerate(self._limits):
            if sure[row] and self.found[row] == step < limit:
                self.found[row] += 1
        return max(self.found) > step


def continued(network: Network, chooser: Chooser, begun: Begun) -> Draft:
    """Return a draft of at most ``max(limits)`` tokens per row; the network's cache reads all of them but the last."""
    scores, begins, counts = begun.scores, begun.begins, _Counts(begun)
    tokens = torch.empty((len(begins), 0), dtype=torch.long, device=network.device)
    odds, peaks = list[Tensor](), list[Tensor]()
    for step in range(max(begun.limits)):
        if step:
            span = Span(tuple(begin + step - 1 for begin in begins), 1)
            scores = network.forward(tokens[:, -1:], span)[:, 0]
        if not counts.another(scores, step):
            break
        chosen, drawn_from = chooser.draft(scores, tokens)
        tokens = torch.cat((tokens, chosen[:, None]), dim=1)
        peaks.append(_peak(scores, chosen, drawn_from))
        if drawn_from is not None:
            odds.append(drawn_from)
    if not tokens.shape[1]:
        return nothing(len(begins), network.device)
    drawn_from = torch.stack(odds, dim=1) if odds else None
    return Draft(tokens, tuple(counts.found), drawn_from, torch.cat(peaks, dim=1))


def _peak(scores: Tensor, chosen: Tensor, drawn_from: Tensor | None) -> Tensor:
    """A number ``[rows, 1]`` that is finite where the ``scores`` are that a token was ``chosen`` by.

    The best of scores is a NaN or an infinity if any is, and so are all chances that come of them: what was chosen
    tells of the others, and a whole row need not be read once more.
    """
    at = chosen[:, None]
    peak = scores.gather(-1, at)
    return peak if drawn_from is None else peak + drawn_from.gather(-1, at)
