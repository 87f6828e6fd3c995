"""Processors against those of transformers, at every position of a block."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.processors import (
    BadWords,
    CountPenalty,
    LogitBias,
    MinP,
    MinTokens,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)

VOCABULARY = 12
PROMPT, OUTPUT, DRAFTED = (3, 1, 4, 1), [5, 9], [2, 6, 5]
PAIRS: dict[str, tuple[Any, Any]] = {
    "temperature": (Temperature(0.7), TemperatureLogitsWarper(0.7)),
    "top_k": (TopK(3), TopKLogitsWarper(3)),
    "top_k of more than there are": (TopK(50), TopKLogitsWarper(50)),
    "top_p": (TopP(0.6), TopPLogitsWarper(0.6)),
    "top_p of next to nothing": (TopP(1e-9), TopPLogitsWarper(1e-9)),
    "min_p": (MinP(0.2), MinPLogitsWarper(0.2)),
    "bias": (LogitBias({2: 1.5, 7: -3.0}), SequenceBiasLogitsProcessor([[[2], 1.5], [[7], -3.0]])),
    "penalty": (RepetitionPenalty(1.4), RepetitionPenaltyLogitsProcessor(1.4)),
    "min_tokens": (MinTokens(4, (0, 8)), MinNewTokensLengthLogitsProcessor(len(PROMPT), 4, [0, 8])),
    "bad words": (BadWords(((7,), (6, 3), (9, 2, 11))), NoBadWordsLogitsProcessor([[7], [6, 3], [9, 2, 11]])),
}


def row(*processors: Any) -> Row:
    return Row(0, Job(PROMPT, 20, processors=processors), [*PROMPT, *OUTPUT])


def scores(width: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(8)
    return 2 * torch.randn((1, width, VOCABULARY), generator=source, dtype=torch.float64)


@pytest.mark.parametrize("name", PAIRS)
def test_every_position_of_a_block_is_processed_as_if_it_were_the_next_token(name: str) -> None:
    ours, theirs = PAIRS[name]
    block, drafted = scores(len(DRAFTED) + 1), torch.tensor([DRAFTED])

    shaped = Chooser([row(ours)], "cpu").shaped(block, drafted)

    for place in range(block.shape[1]):
        before = torch.tensor([[*PROMPT, *OUTPUT, *DRAFTED[:place]]])
        torch.testing.assert_close(shaped[:, place], theirs(before, block[:, place].clone()), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("spread", "p"), [(3.0, 0.9), (0.01, 0.9), (3.0, 0.999999), (3.0, 1e-9)])
def test_the_nucleus_of_a_large_vocabulary_is_that_of_a_sort(spread: float, p: float) -> None:
    """Of equal scores as many are kept, be they others."""
    source = torch.Generator().manual_seed(4)
    block = (spread * torch.randn((6, 5000), generator=source)).bfloat16().float()
    block[3, 100:] = float("-inf")
    block[4] = 0.0

    shaped = TopP(p)(block, row(), torch.tensor(DRAFTED), 0)

    theirs = TopPLogitsWarper(p)(torch.tensor([[1]]), block.clone())
    kept = [values[values.isfinite()].sort().values for values in shaped]
    for mine, others in zip(kept, theirs):
        others = others[others.isfinite()].sort().values
        assert abs(len(mine) - len(others)) <= 1  # sums in another order
        torch.testing.assert_close(mine[-len(others) :], others[-len(mine) :])


def test_scores_of_16_bits_are_shaped_in_32() -> None:
    source = torch.Generator().manual_seed(4)
    block = torch.randn((1, 1, 5000), generator=source).bfloat16()

    shaped = Chooser([row(Temperature(0.7), TopP(0.9))], "cpu").shaped(block, torch.empty((1, 0), dtype=torch.long))

    assert shaped.dtype == torch.float32
    held = (block.float() / 0.7).softmax(-1)[shaped.isfinite()].sum()
    assert 0.9 <= float(held) < 0.901


@pytest.mark.parametrize("name", PAIRS)
def test_a_drafter_that_asks_token_by_token_gets_the_same(name: str) -> None:
    chooser, block = Chooser([row(PAIRS[name][0])], "cpu"), scores(len(DRAFTED) + 1)
    whole = chooser.shaped(block, torch.tensor([DRAFTED]))

    for place in range(block.shape[1]):
        alone = chooser.shaped(block[:, place : place + 1], torch.tensor([DRAFTED[:place]], dtype=torch.long))
        torch.testing.assert_close(alone[:, 0], whole[:, place])


def test_rows_keep_their_own_processors() -> None:
    rows = [row(), row(TopK(1)), row(Temperature(2.0), MinTokens(9, (0,)))]
    block = scores(2).expand(3, -1, -1)
    before = block.clone()

    shaped = Chooser(rows, "cpu").shaped(block, torch.tensor([[1], [1], [1]]))

    assert torch.equal(block, before)
    assert torch.equal(shaped[0], block[0])
    assert shaped[1].isfinite().sum() == 2
    assert shaped[2, 0, 0] == float("-inf")
    assert torch.equal(shaped[2, :, 1:], block[2, :, 1:] / 2)


def test_penalties_of_the_output_count_it_and_the_drafts_before_each_position() -> None:
    block, drafted = scores(len(DRAFTED) + 1), torch.tensor([DRAFTED])

    shaped = Chooser([row(CountPenalty(frequency=0.5, presence=0.25))], "cpu").shaped(block, drafted)

    for place in range(block.shape[1]):
        said = [*OUTPUT, *DRAFTED[:place]]  # the prompt does not count
        wanted = [
            float(block[0, place, token]) - 0.5 * said.count(token) - 0.25 * (token in said)
            for token in range(VOCABULARY)
        ]
        assert shaped[0, place].tolist() == pytest.approx(wanted)
