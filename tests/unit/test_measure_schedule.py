"""Who runs when: over two rounds every block runs in both orders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.measure.schedule import blocks, order
from pytest_specgate.suite.prompts import Conversation


def conversations(count: int) -> list[Conversation]:
    return [Conversation(f"c{n}", ("Say it.",)) for n in range(count)]


def test_the_order_is_abba_within_a_round_pair() -> None:
    assert [order(block, 0) for block in range(4)] == ["AB", "BA", "AB", "BA"]
    assert [order(block, 1) for block in range(4)] == ["BA", "AB", "BA", "AB"]


@given(block=st.integers(0, 500), number=st.integers(0, 63))
def test_two_rounds_in_a_row_run_a_block_in_both_orders(block: int, number: int) -> None:
    assert {order(block, number), order(block, number + 1)} == {"AB", "BA"}


@given(count=st.integers(0, 40), concurrency=st.integers(1, 9))
def test_blocks_hold_every_conversation_once_in_file_order(count: int, concurrency: int) -> None:
    asked = conversations(count)
    made = list(blocks(asked, concurrency))
    assert [conversation for block in made for conversation in block] == asked
    assert all(len(block) == concurrency for block in made[:-1])
    assert all(1 <= len(block) <= concurrency for block in made)
