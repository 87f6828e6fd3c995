"""Drafting token by token with a network, from the scores after each row's last token on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.network import Network


def continued(
    network: Network, chooser: Chooser, scores: Tensor, begins: Sequence[int], limits: Sequence[int]
) -> Draft:
    """Return ``max(limits)`` tokens per row, one at least; the network's cache reads all of them but the last.

    ``scores [rows, vocabulary]`` are those after each row's last token, and ``begins`` the positions that follow it.
    """
    tokens = torch.empty((len(begins), 0), dtype=torch.long, device=network.device)
    odds = []
    for step in range(max(limits)):
        if step:
            span = Span(tuple(begin + step - 1 for begin in begins), 1)
            scores = network.forward(tokens[:, -1:], span)[:, 0]
        chosen, drawn_from = chooser.draft(scores, tokens)
        tokens = torch.cat((tokens, chosen[:, None]), dim=1)
        if drawn_from is not None:
            odds.append(drawn_from)
    return Draft(tokens, tuple(limits), torch.stack(odds, dim=1) if odds else None)
