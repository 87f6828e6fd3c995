"""Part C, what costs time and nothing else; all of it on a simulated clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.drafters.base import Draft, NoDraft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from tests.faults.clock import CostModel, flat, tenth
from tests.faults.entry import Entry
from tests.faults.parts import Parts, Rig
from tests.faults.settings import AT_32, LONG_LOOKUP, TIMED

#: Tokens of a forward from which on this target is bound by computing.
KNEE = 40
#: Tokens of a forward for which graphs were captured: one for each of so many requests.
CAPTURED = TIMED.concurrency
#: Seconds of one comparison in a search by the host.
COMPARISON = 1e-6


def kneed(rows: int, width: int, length: int) -> float:
    """A target whose forward is in proportion to its tokens past a knee."""
    return flat(rows, width, length) * max(1.0, rows * width / KNEE)


def eager_past_capture(rows: int, width: int, length: int) -> float:
    """A forward of more tokens than graphs were captured for is launched kernel by kernel."""
    decoding = width < length
    return flat(rows, width, length) * (1.5 if decoding and rows * width > CAPTURED else 1.0)


def waits_for_draft(rows: int, width: int, length: int) -> float:
    """A prompt's forward returns once the draft has read the prompt too, and made its first proposal."""
    waits = TIMED.k * tenth(rows, 1, length) + tenth(rows, width, length) if width == length else 0.0
    return flat(rows, width, length) + waits


def reads_all_again(rows: int, width: int, length: int) -> float:
    """The cache of the last round is not found: every round reads the whole text besides."""
    return flat(rows, width, length) + (flat(rows, length, length) if width < length else 0.0)


class Idle(DraftModel):
    """Speculation is switched off, and drafts are made all the same and thrown away."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        made = super().propose(rows, limits)
        return replace(made, tokens=made.tokens[:, :0], counts=(0,) * len(rows), odds=None)

    def settle(self, accepted: Sequence[int]) -> None:
        super().settle([0] * len(accepted))


class Searching(PromptLookup):
    """Compares the text's ending with every place of the text, for every length of ending, each round anew."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(3)
        self._clock = rig.clock

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        compared = sum(self._compared(row.tokens) for row in rows)
        self._clock.charge(compared * COMPARISON)
        return super().propose(rows, limits)

    @staticmethod
    def _compared(tokens: Sequence[int]) -> int:
        """Comparisons of a search from the text's beginning, which keeps the last place that fits.

        Each place costs as many as the n-gram is long; a shorter one is looked for where no longer one was found.
        """
        found = 0
        for length in range(3, 0, -1):
            ending, places = tokens[-length:], range(len(tokens) - length)
            found += length * len(places)
            if any(tokens[start : start + length] == ending for start in places):
                break
        return found


class Compiling(Network):
    """Takes the time of the call for a constant, and compiles anew at each."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._begun = 0
        self._compiled = torch.compile(lambda scores, begun: scores * 1 + 0 * begun, backend="eager", dynamic=False)

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, capacity)
        self._begun = time.perf_counter_ns()

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        from torch._dynamo import config

        with config.patch(recompile_limit=1000, accumulated_recompile_limit=10000):
            return self._compiled(super().prefill(prompt, slot), self._begun)


_OFF = Parts(drafter=lambda rig: NoDraft())


def _costing(target: Any) -> Parts:
    return Parts(cost=CostModel(target, tenth))


ENTRIES = (
    Entry(
        "V35",
        "speculation loses at batch 32",
        "verification costs in proportion to batch × (k+1) past a knee",
        ("speedup",),
        _costing(kneed),
        setting=AT_32,
    ),
    Entry(
        "V36",
        "speculation that is switched off still costs",
        "drafts are made and thrown away",
        ("speedup",),
        Parts(drafter=lambda rig: Idle(rig.own)),
        setting=TIMED,
        right=_OFF,
        right_name="off",
    ),
    Entry(
        "V37",
        "graphs are too small for 1+k tokens a request",
        "a forward of more tokens than there are requests runs outside the captured graphs",
        ("speedup", "tpot"),
        _costing(eager_past_capture),
        setting=TIMED,
    ),
    Entry(
        "V38",
        "the first token waits for the draft",
        "a prompt's forward returns after the draft has read it too and made a proposal",
        ("ttft",),
        _costing(waits_for_draft),
        setting=TIMED,
    ),
    Entry(
        "V39",
        "the search for n-grams grows with the text",
        "every round compares the text's ending with every place before it",
        ("speedup",),
        Parts(drafter=Searching),
        setting=LONG_LOOKUP,
    ),
    Entry(
        "V40",
        "the wrong past is handed from round to round",
        "every round reads the whole text again",
        ("speedup", "tpot"),
        _costing(reads_all_again),
        setting=TIMED,
    ),
    Entry(
        "V41",
        "compilation inside the timed loop",
        "the target is compiled anew for every call",
        ("speedup",),
        Parts(target=Compiling),
        setting=TIMED,
        rule="compilation",
        note="the rule is named and the speed-up stays undecided. What a missing synchronisation does needs a "
        "device that works behind the host's back, and is not miniaturised.",
    ),
)
