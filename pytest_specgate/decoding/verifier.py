"""What of a draft is kept, and which token follows it: the rule that makes speculation exact.

Greedy: keep the drafts that are the target's own best tokens, then emit its best token. Drawn: keep draft x with chance
min(1, p(x) / q(x)), at the first rejection draw from the positive part of p - q, after a full block from p (Leviathan,
Kalman and Matias, "Fast inference from transformers via speculative decoding", ICML 2023; Chen et al. 2023). A draft
that was certain has q(x) = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from pytest_specgate.decoding.choice import Chooser, best, drawn
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.randomness import Purpose
from pytest_specgate.decoding.sending import sent


class Heard(NamedTuple):
    """A judgement on the host, by row: how many drafts are kept, and the text's next tokens.

    ``finite`` is for each of these whether the target's scores were finite numbers, 1 or 0; ``sound`` so for each draft
    of the draft's own scores, if it has any.
    """

    accepted: list[int]
    blocks: list[list[int]]
    finite: list[list[int]]
    sound: list[list[int]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """``accepted [rows]`` drafts are kept; the first ``accepted + 1`` of ``tokens [rows, width + 1]`` are the text."""

    tokens: Tensor
    accepted: Tensor

    def on_host(self, scores: Tensor, draft: Draft) -> Heard:
        """All as numbers: the one time that a round waits for the device.

        What is chosen among ``scores``, or by the draft among its own, that are no finite numbers means nothing. A
        score of minus infinity rules its token out, and no more.
        """
        finite = scores.amax(dim=-1).abs() < math.inf  # a NaN among them is the highest of all
        width = self.tokens.shape[1]
        parts = [self.accepted[:, None], self.tokens, finite]
        if draft.peaks is not None:
            parts.append(draft.peaks.abs() < math.inf)
        packed = torch.cat(parts, dim=1).tolist()
        kept = [slice(row[0] + 1) for row in packed]
        return Heard(
            [row[0] for row in packed],
            [row[1 : 1 + width][part] for row, part in zip(packed, kept)],
            [row[1 + width : 1 + 2 * width][part] for row, part in zip(packed, kept)],
            [row[1 + 2 * width :] for row in packed],
        )


class Verifier(Protocol):
    """Decides what is kept."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        """Judge ``scores [rows, width + 1, vocabulary]``: the target's after each row's last token and drafts."""


class ExactVerifier:
    """Keeps the target's distribution: greedy rows get its best tokens, the others its own chances."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        """Judge a block by the rule that its rows ask for."""
        chooser = Chooser(rows, scores.device)
        shaped = chooser.shaped(scores, draft.tokens)
        if chooser.greedy:
            return _greedy(shaped, draft)
        return _rejecting(chooser, chooser.odds(shaped), draft)


def _greedy(scores: Tensor, draft: Draft) -> Judgement:
    own = best(scores)
    if not draft.width:
        return Judgement(own, torch.zeros_like(own[:, 0]))
    kept = _run_length((own[:, :-1] == draft.tokens) & _proposed(draft))
    return Judgement(own, kept)


def _rejecting(chooser: Chooser, odds: Tensor, draft: Draft) -> Judgement:
    numbers = chooser.uniforms(draft.width + 1, Purpose.TARGET)
    if not draft.width:
        chosen = drawn(odds, numbers)
        return Judgement(chosen, torch.zeros_like(chosen[:, 0]))
    wanted = odds[:, :-1].gather(-1, draft.tokens[..., None])[..., 0]
    offered = torch.ones_like(wanted)
    if draft.odds is not None:
        offered = draft.odds.gather(-1, draft.tokens[..., None])[..., 0]
    lucky = chooser.uniforms(draft.width, Purpose.ACCEPT) * offered < wanted
    kept = _run_length(lucky & _proposed(draft))
    row = torch.arange(len(kept), device=kept.device)
    rest = _residual(odds, draft, kept, row)
    follower = drawn(rest, numbers[row, kept])
    tokens = torch.cat((draft.tokens, follower[:, None]), dim=1)
    tokens[row, kept] = follower
    return Judgement(tokens, kept)


def _residual(odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
    """What the token after the kept drafts is drawn from, ``[rows, vocabulary]``: less what a rejected draft had."""
    after = odds[row, kept]
    rejected = kept < sent(draft.counts, kept.device)
    place = kept.clamp(max=draft.width - 1)
    if draft.odds is None:
        taken = torch.zeros_like(after).scatter_(-1, draft.tokens[row, place][:, None], 1.0)
    else:
        taken = draft.odds[row, place]
    rest = (after - taken).clamp(min=0)
    # Equal distributions leave nothing, and reject nothing but by rounding.
    usable = rejected & (rest.sum(dim=-1) > 0)
    return torch.where(usable[:, None], rest, after)


def _proposed(draft: Draft) -> Tensor:
    """Which places of ``[rows, width]`` hold a proposal."""
    device = draft.tokens.device
    counts = sent(draft.counts, device)[:, None]
    return torch.arange(draft.width, device=device) < counts


def _run_length(kept: Tensor) -> Tensor:
    """How many of each row's places are true before the first that is not."""
    return kept.long().cumprod(dim=1).sum(dim=1)
