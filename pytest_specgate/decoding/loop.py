"""The loop: admit, draft, verify, keep, until every job is done.

A round costs the host one wait for the device, where the verdict is read. The first token of a text comes from the
prompt's own forward and is delivered before the drafter reads the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft, Drafter, NoDraft, nothing
from pytest_specgate.decoding.job import Generation, Job, Row
from pytest_specgate.decoding.length import Constant, Length
from pytest_specgate.decoding.meter import Meter
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.refusal import NotFinite, Refusal
from pytest_specgate.decoding.scheduler import Scheduler
from pytest_specgate.decoding.sending import sent
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement, Verifier
from pytest_specgate.records import Round

#: A row's verified tokens, their log-probabilities if they are asked for, and whether the target's scores were finite
#: numbers, and the draft's.
_Block = tuple[Sequence[int], Sequence[float], Sequence[int], Sequence[int]]
#: Cache slots are made for texts of a multiple of so many tokens, so that texts of like length share them.
STEP = 64


class Decoder:
    """Generates with ``target``, helped by ``drafter`` with at most ``draft_tokens`` a round; without one, plainly.

    ``length`` may ask for fewer, row by row.
    """

    def __init__(
        self,
        target: Network,
        drafter: Drafter | None = None,
        draft_tokens: int = 0,
        *,
        verifier: Verifier | None = None,
        length: Length | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.target = target
        self.drafter: Drafter = drafter or NoDraft(target.device)
        self.meter = meter or Meter()
        self._draft_tokens = draft_tokens if drafter else 0
        self._length: Length = length or Constant(draft_tokens)
        self._verifier: Verifier = verifier or ExactVerifier()

    def run(self, jobs: Sequence[Job], slots: int) -> list[Generation]:
        """Return what became of the jobs, in their order; at most ``slots`` run at once, and the next waits for one.

        Raises Refusal, and NotFinite where scores of the target or of a draft model are no finite numbers.
        """
        self._refuse_long(jobs)
        with torch.inference_mode():
            self._reserve(jobs, min(slots, len(jobs)))
            scheduler = Scheduler(jobs, slots)
            self.meter.begin(min(slots, len(jobs)))
            while scheduler.busy:
                while scheduler.room:  # once more where an answer ended with its prompt
                    self._admit(scheduler)
                if scheduler.rows:
                    self._round(scheduler.rows)
                    self._retire(scheduler)
        done = sorted(scheduler.done, key=lambda row: row.number)
        return [_generation(row) for row in done]

    def forget(self) -> None:
        """Give all caches back; the next run allocates anew. For after a failure, out of memory above all."""
        for network in (self.target, *self.drafter.networks()):
            network.forget()

    def draft_cache_bytes(self) -> int:
        """What the drafter's own caches have allocated."""
        return sum(network.cache_bytes() for network in self.drafter.networks())

    def bytes_per_token(self) -> tuple[int, int]:
        """What a token of a row takes in the target's cache and in the drafter's own."""
        return self.target.bytes_per_token(), sum(network.bytes_per_token() for network in self.drafter.networks())

    def _refuse_long(self, jobs: Sequence[Job]) -> None:
        context = self.target.anatomy.context
        for job in jobs:
            if context is not None and len(job.prompt) + job.max_tokens > context:
                asked = f"{len(job.prompt)} prompt tokens and {job.max_tokens} to generate"
                raise Refusal(f"{asked} exceed the window of {context}", "lower max_tokens or shorten the prompt")

    def _reserve(self, jobs: Sequence[Job], slots: int) -> None:
        longest = max(len(job.prompt) + job.max_tokens for job in jobs) + self._draft_tokens + 1
        capacity = -(-longest // STEP) * STEP
        self.target.reserve(slots, capacity)
        self.drafter.reserve(slots, capacity)

    def _admit(self, scheduler: Scheduler) -> None:
        """Fill the free slots. Who gets one has come when it fell free, whoever's prompt is read before."""
        now, totals = self.meter.last, self.meter.totals()
        while row := scheduler.admit():
            row.submit_ns, row.before = now, totals
            self._enter(row, len(scheduler.rows) - 1)
        self._retire(scheduler)

    def _enter(self, row: Row, slot: int) -> None:
        scores = self.target.prefill(row.job.prompt, slot)
        draft = nothing(1, scores.device)
        verdict = self._verifier.judge(scores, draft, [row])
        heard = verdict.on_host(scores, draft)
        kept = row.take(heard.blocks[0], self.meter.lap("prefill"), self._logs(scores, draft, verdict, [row])[0])
        _refuse_bad(row, kept, heard.finite[0][:kept])
        if row.finish:
            row.totals = self.meter.totals()
        else:
            self.drafter.enter(row, slot)
            self.meter.lap("prefill")

    def _round(self, rows: Sequence[Row]) -> None:
        # The target's own token ends every block, so a draft that fills the budget could not be kept whole.
        draft = self.drafter.propose(rows, [min(self._allowed(row), row.left - 1) for row in rows])
        self.meter.lap("draft")
        last = sent([[row.tokens[-1]] for row in rows], self.target.device)
        block = torch.cat((last, draft.tokens), dim=1) if draft.width else last
        scores = self.target.forward(block, Span(tuple(len(row.tokens) - 1 for row in rows), 1 + draft.width))
        self.meter.lap("verify")
        verdict = self._verifier.judge(scores, draft, rows)
        heard = verdict.on_host(scores, draft)
        logs = self._logs(scores, draft, verdict, rows)
        now = self.meter.lap("sample")
        self.meter.count(draft.counts, heard.accepted)
        self.drafter.settle(heard.accepted)
        self._keep(rows, draft, list(zip(heard.blocks, logs, heard.finite, heard.sound)), now)
        self.meter.lap("host")

    def _allowed(self, row: Row) -> int:
        return min(self._draft_tokens, self._length.limit(row))

    def _logs(self, scores: Tensor, draft: Draft, verdict: Judgement, rows: Sequence[Row]) -> list[list[float]]:
        """Log-probabilities of each row's block under the target, where they are asked for."""
        return Chooser(rows, scores.device).logs(scores, draft.tokens, verdict.tokens)

    def _keep(self, rows: Sequence[Row], draft: Draft, blocks: Sequence[_Block], now_ns: int) -> None:
        offered = draft.offered()
        for slot, (row, drafted, (block, logs, finite, sound)) in enumerate(zip(rows, draft.counts, blocks)):
            if row.deserted:
                row.finish, row.totals = "cancelled", self.meter.totals()
                continue
            kept = row.take(block, now_ns, logs)
            _refuse_bad(row, kept, finite[:kept])
            _refuse_bad(row, kept, sound[:drafted], "draft")
            # Where the text ends inside the block, what was kept of the draft is what stands in the output.
            accepted = min(kept, len(block) - 1)
            tested = min(accepted + (kept > accepted), drafted)
            said = tuple(offered[slot][:drafted]) if offered else ()
            row.rounds.append(Round(drafted, tested, accepted, kept, now_ns, said))
            if row.finish:
                row.totals = self.meter.totals()

    def _retire(self, scheduler: Scheduler) -> None:
        for source, target in scheduler.retire():
            self.target.move(source, target)
            self.drafter.move(source, target)


def _refuse_bad(row: Row, kept: int, finite: Sequence[int], whose: str = "target") -> None:
    """Raise NotFinite where a token of the row's last block was chosen among scores that are no finite numbers.

    ``kept`` tokens of that block stand at the output's end already.
    """
    if not all(finite):
        raise NotFinite(row.number, len(row.output) - kept + list(finite).index(0) + 1, whose)


def _generation(row: Row) -> Generation:
    assert row.before is not None and row.totals is not None  # noqa: S101, PT018 - a row is done when it has finished
    rounds, spent = tuple(row.rounds), row.totals.since(row.before)
    logs = tuple(row.logs) if row.job.logprobs else None
    return Generation(tuple(row.output), row.finish, row.submit_ns, tuple(row.chunks), rounds, spent, logs)
