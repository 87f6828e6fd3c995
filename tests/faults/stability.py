"""Part E, what crashes at an edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Barrier, Thread
from types import MappingProxyType

from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from tests.faults import models
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import ENDLESS, GREEDY, PLAIN

ANY = tuple(str(gate["metric"]) for gate in GREEDY)


class Exact(Network):
    """Its cache ends where the window does, and a write past that end is an error, as on a device."""

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, min(capacity, models.CONTEXT))

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        if span.length > models.CONTEXT:
            raise IndexError(f"place {span.length} of a cache of {models.CONTEXT}")
        return super().forward(tokens, span, keep)


class LooksPast(DraftModel):
    """Always proposes as many tokens as are configured."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        return super().propose(rows, [PLAIN.k] * len(limits))


class Ranks(DraftModel):
    """Two ranks draft together, and meet before each proposal."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        meeting = Barrier(2)
        other = Thread(target=self._rank, args=(meeting, limits))
        other.start()
        try:
            meeting.wait()
        finally:
            other.join()
        return super().propose(rows, limits)

    def _rank(self, meeting: Barrier, limits: Sequence[int]) -> None:
        if self._skips(limits):
            meeting.abort()  # the watchdog of the collective: without one the others would wait for ever
        else:
            meeting.wait()

    def _skips(self, limits: Sequence[int]) -> bool:
        return False


class OneRankSkips(Ranks):
    """Near the end of the budget one rank finds nothing worth drafting, and does not come."""

    def _skips(self, limits: Sequence[int]) -> bool:
        return min(limits) < PLAIN.k


class NeedsEos(PromptLookup):
    """Cuts a copy before the end of text, wherever there is one."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        made = super().propose(rows, limits)
        ends = [min(row.job.stop.eos) for row, count in zip(rows, made.counts) if count]
        assert all(end >= 0 for end in ends)
        return made


_BRIM = replace(
    PLAIN,
    name="brim",
    prompts=4,
    concurrency=1,
    words=(models.CONTEXT - PLAIN.max_tokens - 3,) * 2,
    scenario=MappingProxyType({"ignore_eos": True}),
)

ENTRIES = (
    Entry(
        "V47",
        "the draft looks ahead past the end of the cache",
        "as many tokens are drafted as configured, in the last tokens of the window too",
        ANY,
        Parts(target=Exact, drafter=lambda rig: LooksPast(rig.own)),
        setting=_BRIM,
        right=Parts(target=Exact),
        right_name="exact",
        note="the cache of the entry raises on a write past its end; the decoder's own has room for a block more.",
    ),
    Entry(
        "V49",
        "one rank skips drafting near the length limit while the others wait",
        "near the end of the budget one of two ranks does not come to the meeting before a proposal",
        ANY,
        Parts(drafter=lambda rig: OneRankSkips(rig.own)),
        setting=ENDLESS,
        right=Parts(drafter=lambda rig: Ranks(rig.own)),
        right_name="ranks",
        note="the meeting has a watchdog, as collectives do. Without one the call would never end, and no "
        "gate within the process would see it.",
    ),
    Entry(
        "V50",
        "prompt lookup crashes where no end of text is configured",
        "a copy is cut at the end-of-text token though there is none",
        ANY,
        Parts(drafter=lambda rig: NeedsEos(3)),
        setting=replace(PLAIN, name="endless-lookup", kind="endless", lookup=True),
        right_name="lookup",
    ),
)
