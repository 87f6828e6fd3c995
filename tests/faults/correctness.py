"""Part A, what a verifier and a stop rule can get wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import ENDLESS, PLAIN
from tests.unit.faulty import FirstUnseen

EXACT = ("greedy_exactness",)


class LateStop(StopRule):
    """Looks for the end of text at the last token of a block alone."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = StopRule().cut(output, block, budget)
        return (kept, "eos") if block[kept - 1] in self.eos else (kept, finish)


class BlockBudget:
    """Charges every round a whole block, whatever of it was kept."""

    def __init__(self, rule: StopRule) -> None:
        self._rule, self.eos = rule, rule.eos
        self._charged = -PLAIN.k  # the prompt's own token is no block

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = self._rule.cut(output, block, budget)
        self._charged += PLAIN.k + 1
        spent = self._charged >= len(output) + budget
        return (kept, "length") if spent and not finish else (kept, finish)


class ByName(ExactVerifier):
    """Where drafts differ in length, takes the scores in the order of the requests' names and not of the slots."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        if len(set(draft.counts)) > 1:
            scores = scores[sorted(range(len(rows)), key=lambda slot: rows[slot].job.prompt)]
        return super().judge(scores, draft, rows)


class WrappingIndex(ExactVerifier):
    """Finds the follower by the last accepted row: with nothing accepted that is -1, the last row of the block."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        right = super().judge(scores, draft, rows)
        none = right.accepted == 0
        tokens = right.tokens.clone()
        tokens[none, 0] = scores[none, -1].argmax(dim=-1)
        return Judgement(tokens, right.accepted)


class Adapters(ExactVerifier):
    """Every request has an adapter of its own, here a fixed shift of its scores: each row of the batch gets its own."""

    def adapted(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        """Scores ``[rows, width, vocabulary]`` with every row's adapter applied."""
        return scores + _shifts(rows, scores)[:, None]

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        return super().judge(self.adapted(scores, rows), draft, rows)


class AdaptersByRequest(Adapters):
    """The map from row to adapter has one entry per request, though a request samples several rows a round."""

    def adapted(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        count, width, size = scores.shape
        which = torch.arange(count * width) % count
        return (scores.reshape(-1, size) + _shifts(rows, scores)[which]).view(count, width, size)


def _shifts(rows: Sequence[Row], scores: Tensor) -> Tensor:
    """Adapters ``[rows, vocabulary]``: one of three, by the prompt."""
    kinds = torch.randn(3, scores.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (2 * kinds[torch.tensor([sum(row.job.prompt) % 3 for row in rows])]).to(scores.dtype)


def _stop(kind: type[StopRule]) -> Parts:
    return Parts(stop=lambda rule: kind(rule.eos, rule.strings, rule.decode))


class Uneven(DraftModel):
    """Drafts one to four tokens, each request its own number."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        return super().propose(rows, [min(limit, 1 + row.number % PLAIN.k) for row, limit in zip(rows, limits)])


_UNEVEN = Parts(drafter=lambda rig: Uneven(rig.own))
_ADAPTERS = Parts(verifier=Adapters, own_scores=True)

ENTRIES = (
    Entry(
        "V01",
        "decoding runs past an end of text accepted in mid-block",
        "the stop rule looks at the last token of a block only",
        ("greedy_exactness", "token_accounting"),
        _stop(LateStop),
    ),
    Entry(
        "V11",
        "tokens leak between requests",
        "the verifier takes scores in the order of names where drafts differ in length",
        EXACT,
        replace(_UNEVEN, verifier=ByName),
        right=_UNEVEN,
        right_name="uneven",
    ),
    Entry(
        "V12",
        "the first draft token is never verified",
        "the verifier compares from the second draft token on",
        EXACT,
        Parts(verifier=FirstUnseen),
    ),
    Entry(
        "V18",
        "the budget is charged per block",
        "the stop rule charges every round a whole block",
        ("token_accounting",),
        Parts(stop=BlockBudget),  # type: ignore[arg-type]  # what the loop asks of a rule it has
        setting=ENDLESS,
    ),
    Entry(
        "V19",
        "the map from row to adapter has one entry per request",
        "a block's rows get the neighbours' adapters",
        EXACT,
        replace(_ADAPTERS, verifier=AdaptersByRequest),
        right=_ADAPTERS,
        right_name="adapters",
    ),
    Entry(
        "V51",
        "an accepted count of zero is used as index -1",
        "where nothing is accepted the follower is read from the block's last row",
        EXACT,
        Parts(verifier=WrappingIndex),
    ),
)
