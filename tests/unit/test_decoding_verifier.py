"""The verifier on drafts that are always, never and sometimes what the target would say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from pytest_specgate.decoding.choice import drawn
from pytest_specgate.decoding.drafters.base import Draft, nothing
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.processors import Temperature
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement

VOCABULARY = 6
#: What the target says after the last token and after every draft, per row.
SAID = [[1, 2, 3, 4], [5, 4, 3, 2], [2, 2, 2, 2]]


def rows(*, greedy: bool = True, count: int = len(SAID)) -> list[Row]:
    processors = () if greedy else (Temperature(1.0),)
    return [Row(n, Job((0,), 99, greedy=greedy, seed=n, processors=processors), [0]) for n in range(count)]


def scores(said: Sequence[Sequence[int]], certain: float = 50.0) -> torch.Tensor:
    best = torch.nn.functional.one_hot(torch.tensor(said), VOCABULARY)
    return certain * best.double()


def judge(draft: Draft, *, greedy: bool) -> tuple[list[int], list[list[int]]]:
    said = scores(SAID)
    heard = ExactVerifier().judge(said, draft, rows(greedy=greedy)).on_host(said, draft)
    assert heard.finite == [[1] * len(block) for block in heard.blocks]
    assert heard.sound == [[]] * len(SAID)
    return heard.accepted, heard.blocks


@pytest.mark.parametrize("greedy", [True, False])
def test_a_draft_that_is_right_is_kept_whole_and_followed_by_one_more(greedy: bool) -> None:
    right = Draft(torch.tensor([said[:3] for said in SAID]), (3, 3, 3))

    assert judge(right, greedy=greedy) == ([3, 3, 3], SAID)


@pytest.mark.parametrize("greedy", [True, False])
def test_a_draft_that_is_wrong_is_replaced_by_the_targets_own_token(greedy: bool) -> None:
    wrong = Draft(torch.zeros((3, 3), dtype=torch.long), (3, 3, 3))

    assert judge(wrong, greedy=greedy) == ([0, 0, 0], [[said[0]] for said in SAID])


@pytest.mark.parametrize("greedy", [True, False])
def test_rows_keep_what_each_of_them_had_right(greedy: bool) -> None:
    mixed = Draft(torch.tensor([[1, 2, 0], [0, 4, 3], [2, 0, 2]]), (3, 3, 3))

    assert judge(mixed, greedy=greedy) == ([2, 0, 1], [[1, 2, 3], [5], [2, 2]])


@pytest.mark.parametrize("greedy", [True, False])
def test_what_was_not_proposed_is_not_kept_though_it_is_right(greedy: bool) -> None:
    short = Draft(torch.tensor([said[:3] for said in SAID]), (0, 1, 3))

    assert judge(short, greedy=greedy) == ([0, 1, 3], [[1], [5, 4], [2, 2, 2, 2]])


@pytest.mark.parametrize("greedy", [True, False])
def test_an_empty_draft_is_plain_decoding(greedy: bool) -> None:
    said = scores(SAID)[:, :1]
    empty = nothing(3, "cpu")
    verdict = ExactVerifier().judge(said, empty, rows(greedy=greedy))

    assert verdict.on_host(said, empty) == ([0, 0, 0], [[1], [5], [2]], [[1], [1], [1]], [[], [], []])


def test_greedy_rows_and_drawing_ones_share_a_batch() -> None:
    mixed = [rows(count=1)[0], rows(greedy=False, count=1)[0]]
    draft = Draft(torch.tensor([[1, 2], [1, 0]]), (2, 2))

    said = scores([SAID[0][:3]] * 2)
    verdict = ExactVerifier().judge(said, draft, mixed)

    assert verdict.on_host(said, draft)[:3] == ([2, 1], [[1, 2, 3], [1, 2]], [[1, 1, 1], [1, 1]])


def test_a_verdict_is_read_row_by_row() -> None:
    verdict = Judgement(torch.tensor([[4, 5, 6], [7, 8, 9]]), torch.tensor([0, 2]))

    peaks = torch.tensor([[1.0, torch.nan], [torch.inf, -3.0]])
    draft = Draft(torch.zeros(2, 2, dtype=torch.long), (1, 2), peaks=peaks)
    heard = verdict.on_host(torch.zeros(2, 3, 10), draft)
    assert heard == ([0, 2], [[4], [7, 8, 9]], [[1], [1, 1, 1]], [[1, 0], [0, 1]])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_scores_that_are_no_numbers_are_told_with_the_token_chosen_among_them(dtype: torch.dtype) -> None:
    said = torch.zeros(2, 4, 4999, dtype=dtype)
    said[0, 1, 3000], said[0, 2, 7], said[1, 0, 0], said[1, 3] = torch.nan, torch.inf, -torch.inf, -torch.inf
    verdict = Judgement(torch.zeros(2, 4, dtype=torch.long), torch.tensor([2, 3]))

    assert verdict.on_host(said, nothing(2, "cpu")).finite == [[1, 0, 0], [1, 1, 1, 0]]


def test_a_draw_among_weights_that_are_no_numbers_is_a_token_still() -> None:
    weights = torch.full((2, VOCABULARY), torch.nan)

    assert drawn(weights, torch.tensor([0.0, 0.9], dtype=torch.float64)).max() < VOCABULARY
