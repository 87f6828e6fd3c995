"""How many tokens each chunk carried: what is known, what is estimated, and that it always adds up."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.engines.serving.accounting import (
    ESTIMATED_CHUNKS,
    ESTIMATED_TOTAL,
    Uncounted,
    count,
)
from pytest_specgate.engines.serving.stream import BadStream
from tests.serving.answers import answered, chunk, chunks, counted, role, usage


def test_ids_count_first() -> None:
    found = counted(chunk(1, "a", token_ids=[4], total=9), chunk(2, "bc", token_ids=[5, 6], total=9), usage(3, 9))

    assert (found.chunks, found.ids, found.tokens, found.notes) == (chunks((1, 1), (2, 2)), (4, 5, 6), 3, ())


def test_growing_usage_counts_next() -> None:
    found = counted(role(0, total=0), chunk(1, "a", total=1), chunk(2, "bcd", total=4), usage(3, 4))

    assert (found.chunks, found.tokens, found.notes) == (chunks((1, 1), (2, 3)), 4, ())


def test_as_many_chunks_as_tokens_leave_one_for_each() -> None:
    found = counted(role(), chunk(1, "a"), chunk(2, "long word"), usage(3, 2))

    assert (found.chunks, found.notes) == (chunks((1, 1), (2, 1)), ())


def test_one_token_more_than_chunks_is_the_end_of_the_text() -> None:
    found = counted(role(), chunk(1, "a"), chunk(2, "b"), chunk(3, finish="stop"), usage(3, 3))

    assert (found.chunks, found.notes) == (chunks((1, 1), (2, 1), (3, 1)), ())


def test_a_total_alone_is_shared_out_and_said_to_be_estimated() -> None:
    found = counted(role(), chunk(1, "ab"), chunk(2, "abcdef"), chunk(3, "abcd"), usage(4, 12))

    assert (found.chunks, found.notes) == (chunks((1, 3), (2, 5), (3, 4)), (ESTIMATED_CHUNKS,))


def test_without_usage_the_suites_tokenizer_counts_and_says_so() -> None:
    found = count(answered(chunk(1, "a b"), chunk(2, " c")), lambda text: len(text.split()))

    assert (found.tokens, found.chunks, found.notes) == (3, chunks((1, 2), (2, 1)), (ESTIMATED_TOTAL,))


def test_without_usage_and_tokenizer_nothing_is_counted() -> None:
    with pytest.raises(Uncounted):
        counted(chunk(1, "a"), chunk(2, "b"))


def test_a_usage_without_any_choice_is_no_answer() -> None:
    with pytest.raises(BadStream, match="tells a usage of 5 tokens and no choice that has them"):
        counted(usage(3, 5))


def test_what_came_before_the_first_text_is_delivered_with_it() -> None:
    found = counted(role(0, total=0), chunk(1, total=1), chunk(2, total=2), chunk(5, "a", total=3), usage(6, 3))

    assert found.chunks == chunks((5, 3))


def test_tokens_without_a_text_count_when_they_come() -> None:
    found = counted(chunk(1, "a", total=1), chunk(2, total=3), chunk(4, "b", total=4), usage(5, 4))

    assert found.chunks == chunks((1, 1), (2, 2), (4, 1))


def test_the_end_token_that_only_the_last_usage_tells_is_of_the_last_chunk() -> None:
    found = counted(chunk(1, "a", total=1), chunk(2, "b", total=2, finish="stop"), usage(3, 3))

    assert found.chunks == chunks((1, 1), (2, 2))


def test_tokens_at_one_instant_are_one_delivery() -> None:
    found = counted(chunk(1, "a"), chunk(2, "b"), chunk(2.05, "c"), chunk(2.1, "d"), chunk(9, "e"), usage(10, 5))

    assert found.chunks == chunks((1, 1), (2, 3), (9, 1))


def test_an_answer_of_special_tokens_alone_still_counts() -> None:
    found = counted(role(0, total=0), chunk(2, total=1, finish="stop"), usage(3, 1))

    assert (found.chunks, found.tokens) == (chunks((2, 1)), 1)


def test_usage_that_shrinks_is_not_believed_chunk_by_chunk() -> None:
    found = counted(chunk(1, "aa", total=5), chunk(2, "aa", total=2), usage(3, 6))

    assert (found.tokens, found.notes) == (6, (ESTIMATED_CHUNKS,))


def test_a_usage_that_is_filled_in_until_the_end_is_no_growing_one() -> None:
    said = (chunk(1, "aa", total=0), chunk(2, "aaaa", total=0), chunk(3, "aa", total=0), usage(4, 12))
    found = counted(*said)

    assert (found.chunks, found.notes) == (chunks((1, 3), (2, 6), (3, 3)), (ESTIMATED_CHUNKS,))
    assert counted(*said[:-1], usage(4, 3)).chunks == chunks((1, 1), (2, 1), (3, 1))


def test_a_usage_of_no_tokens_beside_a_text_tells_nothing() -> None:
    said = (chunk(1, "a b", total=0), chunk(2, " c"), usage(3, 0))

    assert count(answered(*said), lambda text: len(text.split())).tokens == 3
    with pytest.raises(Uncounted):
        counted(*said)


@pytest.mark.parametrize("told", [-1, 12.0, 1e30, "12", True, [12]])
def test_a_usage_that_is_no_number_of_tokens_is_no_answer(told: object) -> None:
    with pytest.raises(BadStream, match=re.escape(f"a usage of {told!r} tokens is no number of tokens")):
        counted(chunk(1, "a"), usage(2, told))  # type: ignore[arg-type]


def test_a_usage_that_is_left_out_is_none() -> None:
    assert answered(chunk(1, "a"), usage(2, None)).completion_tokens is None  # type: ignore[arg-type]


def test_more_tokens_than_the_text_has_room_for_are_told() -> None:
    found = counted(role(), chunk(1, "ab"), chunk(2, "cde"), usage(3, 14))

    assert found.notes[1:] == (
        "the server counts 14 tokens where at most 13 can be in what it sent: the rest was never seen",
    )
    assert counted(role(), chunk(1, "ab"), chunk(2, "cde"), usage(3, 13)).notes == (ESTIMATED_CHUNKS,)
    assert counted(chunk(1, "a", total=1), chunk(2, total=30), chunk(3, "b", total=31), usage(3, 31)).notes == ()


def test_fewer_tokens_than_chunks_are_told() -> None:
    found = counted(role(), chunk(1, "a"), chunk(2, "b"), chunk(3, "c"), usage(4, 1))

    assert found.tokens == 1
    assert found.notes == (
        ESTIMATED_CHUNKS,
        "the server counts 1 tokens in 3 chunks with a text, and none of these holds less than one",
    )


def test_a_tokenizer_that_disagrees_is_told() -> None:
    said = (chunk(1, "a b c d e", token_ids=[1, 2, 3, 4, 5]), usage(2, 5))

    assert count(answered(*said), lambda _: 6).notes == ()
    assert count(answered(*said), lambda _: 9).notes == (
        "the server counts 5 tokens, the suite's tokenizer 9 in the same text",
    )


@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.integers(1, 200))
def test_shares_add_up_to_the_total_and_are_never_negative(lengths: list[int], total: int) -> None:
    found = counted(*(chunk(10.0 * i, "x" * length) for i, length in enumerate(lengths)), usage(1000, total))

    assert sum(one.tokens for one in found.chunks) == found.tokens == total
    assert all(one.tokens >= 0 for one in found.chunks)
