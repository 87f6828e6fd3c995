"""The decoder against the target's own ``generate``: every architecture, batch size and draft length, ragged rows.

``SPECGATE_EXHAUSTIVE=1`` tries every batch size with every draft length, for every architecture: some minutes.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.meter import Meter
from pytest_specgate.decoding.network import Network
from tests.unit.decoding import FAMILIES, LENGTHS, OUTPUT, family

EVERYTHING = range(len(LENGTHS))
SIZES, DRAFTS = range(1, 17), range(1, 9)
EXHAUSTIVE = os.environ.get("SPECGATE_EXHAUSTIVE") == "1"


def points(number: int) -> list[tuple[int, int]]:
    """Batch sizes and draft lengths that architecture ``number`` is tried with: each size once, each length twice."""
    if EXHAUSTIVE:
        return [(size, drafts) for size in SIZES for drafts in DRAFTS]
    return [(size, 1 + (3 * size + number + size // 9) % 8) for size in SIZES]


def decoder(name: str, draft_tokens: int, meter: Meter | None = None) -> Decoder:
    made = family(name)
    drafter = DraftModel(Network(made.draft)) if draft_tokens else None
    return Decoder(Network(made.target), drafter, draft_tokens, meter=meter)


def check(name: str, slots: int, draft_tokens: int, which: Any, budgets: Any, meter: Meter | None = None) -> None:
    made = family(name)
    texts = decoder(name, draft_tokens, meter).run(made.jobs(which, budgets), slots)
    assert [t.tokens for t in texts] == [made.outputs[n][:budget] for n, budget in zip(which, budgets)]


@pytest.mark.parametrize("number", range(len(FAMILIES)), ids=list(FAMILIES))
def test_greedy_output_is_that_of_generate(number: int) -> None:
    """Every architecture sees every batch size and every draft length; it takes its two seconds."""
    name, meter = list(FAMILIES)[number], Meter()
    for slots, draft_tokens in points(number):
        check(name, slots, draft_tokens, EVERYTHING[: max(slots, 6)], [OUTPUT] * 16, meter)
    check(name, 5, 0, EVERYTHING[:6], [OUTPUT] * 6)
    assert meter.ragged >= meter.shared / 2
    assert 0 < sum(meter.accepted_at) < sum(meter.drafted_at)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(list(FAMILIES)),
    st.integers(1, 16),
    st.integers(0, 8),
    st.permutations(EVERYTHING),
    st.lists(st.integers(1, OUTPUT), min_size=1, max_size=16),
)
def test_any_order_and_any_budgets(name: str, slots: int, draft_tokens: int, which: Any, budgets: Any) -> None:
    check(name, slots, draft_tokens, which[: len(budgets)], budgets)


def test_every_architecture_of_the_promise_sees_every_batch_size_and_draft_length() -> None:
    promised = {"Llama", "Qwen2", "Qwen3", "Mistral", "Gemma2", "Gemma3", "Phi", "GPTNeoX", "GPT2", "Olmo", "Mixtral"}
    assert set(FAMILIES) == promised
    for number in range(len(FAMILIES)):
        assert {slots for slots, _ in points(number)} == set(SIZES)
        assert {draft_tokens for _, draft_tokens in points(number)} == set(DRAFTS)
    assert len({pair for number in range(len(FAMILIES)) for pair in points(number)}) == len(SIZES) * len(DRAFTS)
