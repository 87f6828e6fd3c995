"""Where a text ends, at every place of a block."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_specgate.decoding.stop import StopRule

WORDS = ["a", "b", "c", "d", ".", "en", "d!"]


def decode(ids: Sequence[int]) -> str:
    return "".join(WORDS[i] for i in ids)


@pytest.mark.parametrize("place", range(4))
def test_an_end_of_text_ends_it_wherever_it_stands(place: int) -> None:
    block = [0, 1, 2, 3]
    block[place] = 9

    assert StopRule(frozenset({9})).cut([], block, 10) == (place + 1, "eos")


@pytest.mark.parametrize("budget", range(1, 5))
def test_the_budget_ends_it_after_its_last_token(budget: int) -> None:
    assert StopRule().cut([7], [0, 1, 2, 3], budget) == (budget, "length")


def test_an_end_beyond_the_budget_does_not_count() -> None:
    assert StopRule(frozenset({3})).cut([], [0, 1, 2, 3], 3) == (3, "length")
    assert StopRule(frozenset({3})).cut([], [0, 1, 2, 3], 4) == (4, "eos")


def test_a_text_without_an_end_goes_on() -> None:
    assert StopRule(frozenset({9}), ("zz",), decode).cut([], [0, 1], 3) == (2, "")


def test_a_stop_string_may_span_rounds_and_tokens() -> None:
    rule = StopRule(strings=("end!",), decode=decode)

    assert rule.cut([0, 5], [6, 1], 9) == (1, "stop")
    assert rule.cut([0], [4, 5, 6, 1], 9) == (3, "stop")
    assert rule.cut([0], [5, 1, 6], 9) == (3, "")


def test_the_first_ending_counts() -> None:
    assert StopRule(frozenset({9}), ("bc",), decode).cut([], [1, 2, 9], 9) == (2, "stop")


def test_stop_strings_need_a_decoder() -> None:
    with pytest.raises(ValueError, match="stop strings need a way to decode"):
        StopRule(strings=("x",))
