"""Native engines that do not honour requests: one part of the decoder exchanged, the mechanisms of real faults.

``options: {faults: [NAME, ...]}`` of an engine of kind ``tests.unit.unfaithful:Unfaithful``. Only the candidate arm is
struck, except where the fault's name says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from torch import Tensor

from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.processors import (
    BadWords,
    CountPenalty,
    LogitBias,
    MinTokens,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)
from pytest_specgate.decoding.scheduler import Scheduler
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement
from pytest_specgate.engines.native import NativeEngine
from pytest_specgate.records import Arm, Request, Trace

_PENALTIES = (RepetitionPenalty, CountPenalty)
Change = Callable[[Job], Job]


class Unfaithful(NativeEngine):
    """The native engine whose candidate arm has the fault of its options."""

    def __init__(self, context: Any) -> None:
        self._faults = frozenset(context.spec.options.get("faults", ()))
        super().__init__(context)

    def start(self) -> None:
        super().start()
        decoder = self._decoders[Arm.CANDIDATE]
        run = decoder.run
        for fault in self._faults & VERIFIERS.keys():
            decoder._verifier = VERIFIERS[fault]()
        changes = [JOBS[fault] for fault in JOBS if fault in self._faults]
        for fault in self._faults & DECODERS.keys():
            DECODERS[fault](decoder)
        together = reduce(lambda inner, fault: BATCHES[fault], self._faults & BATCHES.keys(), list[Job])
        decoder.run = lambda jobs, slots: run(together(reduce(lambda j, f: f(j), changes, job) for job in jobs), slots)

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        if "parameters ignored in both arms" in self._faults:
            requests = [replace(r, sampling=replace(r.sampling, repetition_penalty=1.0)) for r in requests]
        if arm is Arm.CANDIDATE and "mixed rows" in self._faults and len(requests) > 1:
            traces = super().generate([*requests[1:], requests[0]], arm)
            return [replace(t, prompt=r.prompt) for t, r in zip(traces, requests)]
        if arm is Arm.CANDIDATE and "crash at the window" in self._faults:
            window = self.bounds().window or 0
            for request in requests:
                if request.token_ids and len(request.token_ids) + request.max_tokens + 3 > window:
                    raise IndexError("cache row out of range")
        return super().generate(requests, arm)


def without(*kinds: type) -> Change:
    """Jobs whose processors of these kinds are gone."""
    return lambda job: replace(job, processors=tuple(p for p in job.processors if not isinstance(p, kinds)))


class BonusOnly(ExactVerifier):
    """Applies the processors of these kinds at the last position of a block alone."""

    kinds: tuple[type, ...] = ()

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        fewer = [self._without(row) for row in rows]
        shaped = Chooser(fewer, scores.device).shaped(scores, draft.tokens)
        whole = Chooser(rows, scores.device).shaped(scores, draft.tokens)
        mixed = shaped.clone()
        mixed[:, -1] = whole[:, -1]
        bare = [replace_job(row, replace(row.job, processors=())) for row in rows]
        return super().judge(mixed, draft, bare)

    def _without(self, row: Row) -> Row:
        return replace_job(row, without(*self.kinds)(row.job))


def replace_job(row: Row, job: Job) -> Row:
    return Row(row.number, job, row.tokens, row.rounds, row.chunks, row.finish)


class LateMinTokens(BonusOnly):
    kinds = (MinTokens,)


class LateBias(BonusOnly):
    kinds = (LogitBias, BadWords)


class LastTokenStop(StopRule):
    """Looks for an end at the last token of a block alone."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept = min(len(block), budget)
        if block[kept - 1] in self.eos:
            return kept, "eos"
        if self.strings and self._completed([*output, *block[:kept]]):
            return kept, "stop"
        return (kept, "length") if len(block) >= budget else (kept, "")


class BlockBudget(StopRule):
    """Charges whole blocks: ends where another one of two drafts would not fit."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = StopRule(self.eos, self.strings, self.decode).cut(output, block, budget)
        return (kept, finish) if finish or budget - kept >= 3 else (kept, "length")


def stopping(kind: type[StopRule]) -> Change:
    return lambda job: replace(job, stop=kind(job.stop.eos, job.stop.strings, job.stop.decode))


def one_seed(jobs: Iterable[Job]) -> list[Job]:
    """All answers to one prompt are drawn with the first one's seed."""
    seeds: dict[tuple[int, ...], int] = {}
    return [replace(job, seed=seeds.setdefault(job.prompt, job.seed)) for job in jobs]


def keep_places(decoder: Decoder) -> None:
    """Where a caller left, the last row takes the number of its slot and not its own cache along."""

    def retire(scheduler: Scheduler) -> None:
        left = {slot for slot, row in enumerate(scheduler.rows) if row.finish == "cancelled"}
        for source, target in scheduler.retire():
            if target not in left:
                decoder.target.move(source, target)
                decoder.drafter.move(source, target)

    decoder._retire = retire  # type: ignore[method-assign]


def quote_draft(decoder: Decoder) -> None:
    """Tells what the draft gave its own tokens, where they were kept."""
    own = decoder._logs

    def logs(scores: Tensor, draft: Draft, verdict: Judgement, rows: Sequence[Row]) -> list[list[float]]:
        told = own(scores, draft, verdict, rows)
        if draft.odds is None:
            return told
        drafted = draft.odds.gather(-1, draft.tokens[..., None])[..., 0].log().tolist()
        kept = verdict.accepted.tolist()
        return [[*theirs[:n], *ours[n:]] for theirs, ours, n in zip(drafted, told, kept)]

    decoder._logs = logs  # type: ignore[method-assign]


def quote_nothing(decoder: Decoder) -> None:
    """Has no scores of kept drafts at hand, and tells a chance of one."""
    own = decoder._logs

    def logs(scores: Tensor, draft: Draft, verdict: Judgement, rows: Sequence[Row]) -> list[list[float]]:
        told = own(scores, draft, verdict, rows)
        return [[*([0.0] * n), *ours[n:]] for ours, n in zip(told, verdict.accepted.tolist())]

    decoder._logs = logs  # type: ignore[method-assign]


_global = random.Random(5)

JOBS: dict[str, Change] = {
    "penalties dropped": without(*_PENALTIES),
    "bias dropped": without(LogitBias),
    "bad words dropped": without(BadWords),
    "filters dropped": without(TopK, TopP),
    "temperature dropped": without(Temperature),
    "stop at the last token": stopping(LastTokenStop),
    "budget by blocks": stopping(BlockBudget),
    "one generator for all": lambda job: replace(job, seed=_global.randrange(2**31)),
    "one constant seed": lambda job: replace(job, seed=7),
    "nobody may leave": lambda job: replace(job, cancel_after=None),
}
BATCHES: dict[str, Callable[[Iterable[Job]], list[Job]]] = {"several answers of one seed": one_seed}
DECODERS: dict[str, Callable[[Decoder], None]] = {
    "places of those who left": keep_places,
    "log-probabilities of the draft": quote_draft,
    "log-probabilities of zero": quote_nothing,
}
VERIFIERS: dict[str, type[ExactVerifier]] = {
    "min_tokens at the bonus alone": LateMinTokens,
    "bias at the bonus alone": LateBias,
}
