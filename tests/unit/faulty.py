"""Decoders with one part exchanged for a faulty one: the mechanisms of real faults, on the ordinary loop.

``options: {fault: NAME}`` of an engine of kind ``tests.unit.faulty:Faulty``; the reference arm is transformers' own
plain decoding, so that a fault strikes the candidate alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement
from pytest_specgate.engines.hf.shaping import eos_ids
from pytest_specgate.engines.transformers import TransformersEngine
from pytest_specgate.records import Arm, Request, Trace


class Faulty(TransformersEngine):
    """The transformers engine whose candidate arm is our own decoder with the fault of its options."""

    def start(self) -> None:
        super().start()
        assert self._target is not None
        assert self._draft is not None
        assert self._context.spec.candidate is not None
        fault = str(self._context.spec.options.get("fault", "none"))
        verifier, network, self._stop = FAULTS[fault]
        target, drafter = network(self._target.model), DraftModel(Network(self._draft.model))
        k = self._context.spec.candidate.num_draft_tokens
        self._decoder = Decoder(target, drafter, k, verifier=verifier())

    def _generate(self, request: Request, arm: Arm, choice: int) -> Trace:
        if arm is Arm.REFERENCE:
            return super()._generate(request, arm, choice)
        target = self._started()
        prompt = tuple(self._encode(request, target)["input_ids"][0].tolist())
        eos = frozenset(() if request.ignore_eos else eos_ids(target.model))
        (made,) = self._decoder.run([Job(prompt, request.max_tokens, self._stop(eos))], 1)
        return Trace(
            prompt=request.prompt,
            arm=arm,
            token_ids=made.tokens,
            text=target.tokenizer.decode(made.tokens, skip_special_tokens=True),
            prompt_tokens=len(prompt),
            submit_ns=made.submit_ns,
            chunks=made.chunks,
            finish=made.finish,
            rounds=made.rounds,
            prefill_tokens=1,
            max_tokens=request.max_tokens,
            eos_ids=tuple(eos),
        )


class Lenient(ExactVerifier):
    """Keeps a draft that the target gives a chance of 0.3 or more, though it is not its choice."""

    chance = 0.3

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        best = scores.argmax(dim=-1)
        if not draft.width:
            return Judgement(best, torch.zeros_like(best[:, 0]))
        odds = scores.softmax(dim=-1)[:, :-1].gather(-1, draft.tokens[..., None])[..., 0]
        kept = ((odds >= self.chance) | (best[:, :-1] == draft.tokens)).long().cumprod(dim=1).sum(dim=1)
        tokens = torch.cat((draft.tokens, best[:, -1:]), dim=1)
        row = torch.arange(len(kept))
        tokens[row, kept] = best[row, kept]
        return Judgement(tokens, kept)


class Tolerant(Lenient):
    """As above from 0.05 on: typical acceptance without saying so."""

    chance = 0.05


class FirstUnseen(ExactVerifier):
    """Never looks at the first draft token."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        if draft.width:
            scores = scores.clone()
            scores[:, 0].scatter_(-1, draft.tokens[:, :1], float(scores.max()) + 1)
        return super().judge(scores, draft, rows)


class NoEos(ExactVerifier):
    """Never lets the target end its text."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        barred = scores.clone()
        barred[..., list(rows[0].job.stop.eos)] = scores.min() - 1
        return super().judge(barred, draft, rows)


class LateStop(StopRule):
    """Looks for the end of text at the last token of a block alone."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = StopRule().cut(output, block, budget)
        return (kept, "eos") if block[kept - 1] in self.eos else (kept, finish)


class EarlyStop(StopRule):
    """Ends a text of ten tokens with the next block, as if a stop string had been found."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = StopRule().cut(output, block, budget)
        return (kept, finish or "stop") if len(output) >= 10 else super().cut(output, block, budget)


class EarlyEnd(EarlyStop):
    """As above, and says that the text ended by itself."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = super().cut(output, block, budget)
        return kept, "eos" if finish == "stop" else finish


class _Late(Span):
    """A block whose drafts are said to stand one position later than they do."""

    def positions(self, device: Any) -> Tensor:
        found = Span.positions(self, device)
        return torch.cat((found[:, :1], found[:, 1:] + 1), dim=1)


class ShiftedPositions(Network):
    """Reads the drafts of every block one position too late."""

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        late = span.width > 1 and span.starts[0] > 0
        return super().forward(tokens, _Late(span.starts, span.width, span.first) if late else span, keep)


class NoRollback(Network):
    """Leaves rejected drafts visible: every block is read as if it stood behind all that was ever read."""

    read = 0

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        assert self.cache is not None
        fits = self.read + span.width <= self.cache.capacity
        start = 0 if span.starts[0] == 0 else self.read if fits else span.starts[0]
        self.read = start + span.width
        return super().forward(tokens, Span((start,), span.width, span.first), keep)


#: (verifier, network of the target, stop rule) by fault.
FAULTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Network], Callable[[frozenset[int]], StopRule]]] = {
    "none": (ExactVerifier, Network, StopRule),
    "accepts a chance of 0.3": (Lenient, Network, StopRule),
    "accepts a chance of 0.05": (Tolerant, Network, StopRule),
    "first draft unseen": (FirstUnseen, Network, StopRule),
    "end of text barred": (NoEos, Network, StopRule),
    "end of text seen last only": (ExactVerifier, Network, LateStop),
    "breaks off as by a stop": (ExactVerifier, Network, EarlyStop),
    "breaks off as by an end": (ExactVerifier, Network, EarlyEnd),
    "positions off by one": (ExactVerifier, ShiftedPositions, StopRule),
    "rejected drafts stay": (ExactVerifier, NoRollback, StopRule),
}
