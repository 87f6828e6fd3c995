"""Drafts of changing length: the text stays the target's own, and a length depends on the past alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.early_exit import EarlyExit
from pytest_specgate.decoding.drafters.prompt_lookup import NgramIndex, PromptLookup
from pytest_specgate.decoding.drafters.stepwise import Begun, continued
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.length import Constant, Paying
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import Temperature
from pytest_specgate.records import Round
from tests.unit.decoding import OUTPUT, family

# --- by what was kept -------------------------------------------------------------------------------------------------


def row(*rounds: tuple[int, int]) -> Row:
    """A row whose rounds drafted and kept so many tokens."""
    told = [Round(drafted, min(kept + 1, drafted), kept, kept + 1, 0) for drafted, kept in rounds]
    return Row(0, Job((1,), 99), [1], rounds=told)


BAD, GOOD, SILENT = (4, 0), (4, 4), (0, 0)


@pytest.mark.parametrize(
    ("rounds", "limit"),
    [
        ((), 4),
        ((BAD,) * 7, 4),  # too few to tell
        ((BAD,) * 8, 0),
        ((GOOD,) * 8, 4),
        ((*(BAD,) * 8, *(GOOD,) * 1), 4),  # 4 of 8 of late
        ((*(GOOD,) * 8, *(BAD,) * 8), 0),  # the past is forgotten
        ((*(BAD,) * 8, *(SILENT,) * 4), 0),
        ((*(BAD,) * 8, *(SILENT,) * 5), 4),  # and tries again
        ((*(BAD,) * 8, *(SILENT,) * 5, BAD), 0),
        ((*(BAD,) * 8, *(SILENT,) * 5, GOOD, GOOD), 4),
    ],
)
def test_a_row_drafts_while_it_pays(rounds: tuple[tuple[int, int], ...], limit: int) -> None:
    assert Paying(4, 0.4, window=8, pause=5).limit(row(*rounds)) == limit
    assert Constant(4).limit(row(*rounds)) == 4


@pytest.mark.parametrize("greedy", [True, False])
def test_rows_that_stop_drafting_and_begin_again_say_what_they_would_have_said(greedy: bool) -> None:
    made = family("Llama")
    warm = () if greedy else (Temperature(0.9),)
    jobs = [Job(p, 40, greedy=greedy, seed=n, processors=warm) for n, p in enumerate(made.prompts[:6])]
    decoder = Decoder(Network(made.target), DraftModel(Network(made.draft)), 3, length=Paying(3, 0.9, 6, 3))
    texts = decoder.run(jobs, 4)
    silent = [r.drafted == 0 for t in texts for r in t.rounds[:-1]]
    assert 0 < sum(silent) < len(silent)
    if greedy:
        plain = Decoder(Network(made.target)).run(jobs, 4)
        assert [t.tokens for t in texts] == [t.tokens for t in plain]
    # Whoever shares the batch, the rounds of a request are its own.
    alone = [decoder.run([job], 1)[0] for job in jobs]
    assert [[(r.drafted, r.accepted) for r in t.rounds] for t in texts] == [
        [(r.drafted, r.accepted) for r in t.rounds] for t in alone
    ]


# --- by how sure the draft is -----------------------------------------------------------------------------------------


class Scripted:
    """A network that scores by the last token: that of token t is sure of t + 1 with a chance that is told."""

    device = torch.device("cpu")

    def __init__(self, sure: dict[int, float]) -> None:
        self._sure, self.read = sure, 0

    def scores(self, tokens: Tensor) -> Tensor:
        found = torch.empty((len(tokens), 8), dtype=torch.float64)
        for place, token in enumerate(tokens.tolist()):
            chance = self._sure.get(token, 0.95)
            found[place] = torch.log(torch.tensor((1 - chance) / 7))
            found[place, (token + 1) % 8] = torch.log(torch.tensor(chance))
        return found

    def forward(self, tokens: Tensor, span: Span) -> Tensor:
        self.read += 1
        return self.scores(tokens[:, 0])[:, None]


def drafted(network: Any, last: Sequence[int], limits: Sequence[int], least: float) -> list[list[int]]:
    rows = [Row(n, Job((token,), 9), [token]) for n, token in enumerate(last)]
    begun = Begun(network.scores(torch.tensor(last)), [1] * len(last), limits, least)
    made = continued(network, Chooser(rows, "cpu"), begun)
    return [tokens[:count] for tokens, count in zip(made.tokens.tolist(), made.counts)]


def test_a_draft_ends_where_it_is_no_longer_likely_to_be_kept_whole() -> None:
    network = Scripted({3: 0.5, 5: 0.2})
    # .95 × .95 × .5 × .95 is above .4, and times .2 it is not
    assert drafted(network, [1], [6], 0.4) == [[2, 3, 4, 5]]
    assert network.read == 4
    assert drafted(network, [1], [2], 0.4) == [[2, 3]]
    assert drafted(network, [5], [6], 0.4) == [[]]
    assert drafted(network, [1], [6], 0.0) == [[2, 3, 4, 5, 6, 7]]


def test_each_row_of_a_batch_ends_by_itself() -> None:
    network = Scripted({3: 0.5, 5: 0.2})
    assert drafted(network, [1, 3, 5, 6], [6, 6, 6, 1], 0.6) == [[2, 3], [], [], [7]]


@pytest.mark.parametrize("least", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("exit_early", [False, True])
def test_greedy_text_is_the_targets_own_however_sure_a_draft_must_be(least: float, exit_early: bool) -> None:
    made = family("Llama")
    target = Network(made.target)
    drafter = EarlyExit(target, 1, least) if exit_early else DraftModel(Network(made.draft), least)
    decoder = Decoder(target, drafter, 6)
    texts = decoder.run([Job(p, OUTPUT) for p in made.prompts], 5)
    assert [t.tokens for t in texts] == list(made.outputs)
    lengths = {r.drafted for t in texts for r in t.rounds}
    assert len(lengths) > 1
    if not exit_early:
        assert sum(decoder.meter.accepted_at) > 0


def test_drawn_text_with_an_unsure_draft_is_that_of_the_request_alone() -> None:
    made = family("Llama")
    decoder = Decoder(Network(made.target), DraftModel(Network(made.draft), 0.3), 5)
    jobs = [Job(p, OUTPUT, greedy=False, seed=n, processors=(Temperature(0.8),)) for n, p in enumerate(made.prompts)]
    together = decoder.run(jobs, 6)
    alone = [decoder.run([job], 1)[0] for job in jobs]
    assert [t.tokens for t in together] == [t.tokens for t in alone]
    assert len({r.drafted for t in together for r in t.rounds}) > 2


# --- by how much agrees -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "per_match", "length"),
    [
        ([1, 2, 3, 4, 5, 9, 8, 5], 2, 2),  # 5 alone agrees
        ([1, 2, 3, 4, 5, 9, 8, 4, 5], 2, 4),
        ([1, 2, 3, 4, 5, 9, 8, 1, 2, 3, 4, 5], 2, 8),  # more agrees than is looked up
        ([1, 2, 3, 4, 5, 9, 8, 1, 2, 3, 4, 5], 1, 5),
        ([4, 4, 4], 3, 6),
        ([1, 2, 3], 3, 0),
        ([1, 2, 3, 4, 5, 9, 8, 5], None, 8),
    ],
)
def test_a_copy_is_as_long_as_what_agrees_allows(text: list[int], per_match: int | None, length: int) -> None:
    found = NgramIndex(2).continuation(text, 8, per_match)
    assert len(found) == length
    assert found == NgramIndex(2).continuation(text, 8)[:length]


@pytest.mark.parametrize(
    ("text", "least", "per_match", "length"),
    [
        ([1, 2, 3, 4, 5, 9, 8, 5], 1, None, 8),
        ([1, 2, 3, 4, 5, 9, 8, 5], 2, None, 0),  # 5 alone agrees
        ([1, 2, 3, 4, 5, 9, 8, 4, 5], 2, None, 8),
        ([1, 2, 3, 4, 5, 9, 8, 3, 4, 5], 4, None, 0),
        ([1, 2, 3, 4, 5, 9, 8, 2, 3, 4, 5], 4, None, 8),  # more must agree than are looked up
        ([1, 2, 3, 4, 5, 9, 8, 2, 3, 4, 5], 4, 1, 4),
        ([5, 9, 5], 2, None, 0),  # nothing stands before the first
        ([1, 2, 3], 2, 1, 0),
    ],
)
def test_nothing_is_copied_where_too_few_agree(text: list[int], least: int, per_match: int | None, length: int) -> None:
    found = NgramIndex(2, least).continuation(text, 8, per_match)
    assert len(found) == length
    assert found == NgramIndex(2).continuation(text, 8)[:length]


def test_greedy_text_is_the_targets_own_however_long_copies_are() -> None:
    made = family("Llama")
    prompts = [p * 3 for p in made.prompts[:6]]
    decoder = Decoder(Network(made.target), PromptLookup(2, per_match=1), 6)
    texts = decoder.run([Job(p, OUTPUT) for p in prompts], 3)
    plain = Decoder(Network(made.target)).run([Job(p, OUTPUT) for p in prompts], 3)
    assert [t.tokens for t in texts] == [t.tokens for t in plain]
    assert len({r.drafted for t in texts for r in t.rounds}) > 1
