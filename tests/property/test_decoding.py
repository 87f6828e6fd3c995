"""The decoder against the target's own ``generate``: every architecture, batch size and draft length, ragged rows."""

from __future__ import annotations

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
TURNS = range(4)


def point(number: int, turn: int) -> tuple[int, int]:
    """Batch size and draft length that architecture ``number`` is tried with."""
    return 1 + (5 * number + 4 * turn + 2) % 16, 1 + (3 * number + 2 * turn) % 8


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
    """Together the architectures see every batch size and every draft length, each of them four of both."""
    name, meter = list(FAMILIES)[number], Meter()
    for turn in TURNS:
        slots, draft_tokens = point(number, turn)
        check(name, slots, draft_tokens, EVERYTHING[: max(slots, 6)], [OUTPUT] * 16, meter)
    check(name, 5, 0, EVERYTHING[:6], [OUTPUT] * 6)
    assert meter.ragged >= meter.shared / 2
    assert 0 < sum(meter.accepted_at) < sum(meter.drafted_at)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["Llama", "Mistral", "Gemma3", "GPT2"]),
    st.integers(1, 16),
    st.integers(0, 8),
    st.permutations(EVERYTHING),
    st.lists(st.integers(1, OUTPUT), min_size=1, max_size=16),
)
def test_any_order_and_any_budgets(name: str, slots: int, draft_tokens: int, which: Any, budgets: Any) -> None:
    check(name, slots, draft_tokens, which[: len(budgets)], budgets)


def test_the_sweep_sees_every_batch_size_and_draft_length() -> None:
    seen = [point(number, turn) for number in range(len(FAMILIES)) for turn in TURNS]
    assert {slots for slots, _ in seen} == set(range(1, 17))
    assert {draft_tokens for _, draft_tokens in seen} == set(range(1, 9))
