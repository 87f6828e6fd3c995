"""Part A, what a request asks for and gets on one path only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor

from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.processors import (
    BadWords,
    CountPenalty,
    LogitBias,
    MinP,
    MinTokens,
    Processor,
    RepetitionPenalty,
)
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import DRAWN, PLAIN

EXACT = ("greedy_exactness",)
Processors = tuple[Processor, ...]


@dataclass(frozen=True, slots=True)
class BonusOnly:
    """Shapes the last position of a block alone: the path that rejects runs without it."""

    inner: Processor

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        shaped = self.inner(scores, row, drafted, before)
        return torch.cat((scores[:-1], shaped[-1:]))


@dataclass(frozen=True, slots=True)
class NeverInBlocks:
    """Shapes where nothing was drafted: the rejection sampler never calls it."""

    inner: Processor

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        return scores if len(scores) > 1 else self.inner(scores, row, drafted, before)


def _wrapped(wrap: Callable[[Processor], Processor], *kinds: type) -> Parts:
    def exchange(processors: Processors) -> Processors:
        return tuple(wrap(one) if isinstance(one, kinds) else one for one in processors)

    return Parts(processors=exchange)


def _without(*kinds: type) -> Parts:
    return Parts(processors=lambda processors: tuple(one for one in processors if not isinstance(one, kinds)))


@dataclass(frozen=True, slots=True)
class Grammar:
    """Brackets: a third of the tokens opens one, a third closes one; at most three deep, and none closes unopened."""

    def __call__(self, scores: Tensor, row: Row, drafted: Tensor, before: int) -> Tensor:
        depths = [self._depth(row, drafted[: before + place]) for place in range(len(scores))]
        return scores.masked_fill(torch.stack([_barred(depth, scores.shape[-1]) for depth in depths]), -torch.inf)

    def _depth(self, row: Row, drafted: Tensor) -> int:
        return sum(_STEP[token % 3] for token in (*row.output, *drafted.tolist()))


class StaleGrammar(Grammar):
    """Moves its state once a round: every position of a block is judged by what stood before the block."""

    def _depth(self, row: Row, drafted: Tensor) -> int:
        return super()._depth(row, drafted[:0])


class Quoting(ExactVerifier):
    """Tells the log-probability of every token that it hands out; ``quoted`` maps a request's number to them."""

    def __init__(self) -> None:
        self.quoted: dict[int, list[float]] = {}

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        verdict = super().judge(scores, draft, rows)
        shaped = Chooser(rows, scores.device).shaped(scores, draft.tokens)
        logs = shaped.log_softmax(dim=-1).gather(-1, verdict.tokens[..., None])[..., 0]
        for row, own, accepted in zip(rows, logs.tolist(), verdict.accepted.tolist()):
            before = self.quoted.get(row.number, []) if row.output else []
            self.quoted[row.number] = [*before, *self.tell(own, accepted)]
        return verdict

    def tell(self, logs: Sequence[float], accepted: int) -> list[float]:
        """What is told of a block's tokens: those that were accepted, and the one that follows."""
        return list(logs[: accepted + 1])


class CertainOfDrafts(Quoting):
    """Has no logits of accepted drafts at hand, and tells 0: a chance of one."""

    def tell(self, logs: Sequence[float], accepted: int) -> list[float]:
        return [*([0.0] * accepted), logs[accepted]]


#: What a token does to the depth, by its remainder.
_STEP = (1, -1, 0)
_DEEPEST = 3


def _barred(depth: int, rows: int) -> Tensor:
    kinds = torch.arange(rows) % 3
    if depth <= 0:
        return kinds == 1
    return kinds == 0 if depth >= _DEEPEST else torch.zeros(rows, dtype=torch.bool)


def _asking(name: str, **sampling: object) -> MappingProxyType[str, object]:
    return MappingProxyType({"sampling": [{"temperature": 0, "name": name, **sampling}]})


_PENALISED = replace(
    PLAIN, name="penalised", scenario=_asking("penalised", repetition_penalty=1.5, presence_penalty=2.0)
)
_BIASED = replace(PLAIN, name="biased", scenario=_asking("biased", logit_bias={30: 4.0, 41: 4.0, 52: 4.0}, min_p=0.1))
_LEAST = replace(PLAIN, name="least", scenario=_asking("least", min_tokens=30, bad_words=["w3 w4"]))
_QUOTING = Parts(verifier=Quoting)
_GRAMMAR = Parts(processors=lambda processors: (*processors, Grammar()), own_scores=True)

ENTRIES = (
    Entry(
        "V05",
        "penalties are ignored without a word",
        "repetition and presence penalties are dropped where drafts are verified",
        EXACT,
        _without(RepetitionPenalty, CountPenalty),
        setting=_PENALISED,
    ),
    Entry(
        "V06",
        "min_p and logit_bias reach the bonus token only",
        "biases shape the last position of a block alone",
        EXACT,
        _wrapped(BonusOnly, LogitBias, MinP),
        setting=_BIASED,
    ),
    Entry(
        "V07",
        "min_tokens and bad_words are not enforced under speculation",
        "the end of text and bad words are barred where nothing was drafted only",
        EXACT,
        _wrapped(NeverInBlocks, MinTokens, BadWords),
        setting=_LEAST,
    ),
    Entry(
        "V08",
        "a grammar's mask does not move over drafts",
        "the bracket grammar moves once a round and not once a token",
        EXACT,
        replace(_GRAMMAR, processors=lambda processors: (*processors, StaleGrammar())),
        right=_GRAMMAR,
        right_name="grammar",
    ),
    Entry(
        "V15",
        "log-probabilities are 0 for every token",
        "accepted drafts are told with a log-probability of 0",
        ("distribution_fit",),
        Parts(verifier=CertainOfDrafts),
        setting=DRAWN,
        right=_QUOTING,
        right_name="quoting",
        note="a suite's requests ask for no log-probabilities; a verifier of the zoo tells them, rightly or wrongly.",
    ),
)
