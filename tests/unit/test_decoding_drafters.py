"""Every drafter on a real pair: the text stays the target's own, and what is proposed is what the drafter says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from pytest_specgate.decoding.drafters.base import Draft, Drafter, NoDraft, padded
from pytest_specgate.decoding.drafters.composed import Composed
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.early_exit import EarlyExit
from pytest_specgate.decoding.drafters.prompt_lookup import NgramIndex, PromptLookup
from pytest_specgate.decoding.drafters.synthetic import Filler, ForcedVerifier
from pytest_specgate.decoding.job import Generation, Job, Row
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import MinP, RepetitionPenalty, Temperature
from pytest_specgate.decoding.refusal import Refusal
from tests.unit.decoding import LENGTHS, OUTPUT, VOCABULARY, Family, build, family, own_words

DRAFTERS: dict[str, Callable[[Network, Family], Drafter]] = {
    "draft model": lambda target, made: DraftModel(Network(made.draft)),
    "prompt lookup": lambda target, made: PromptLookup(3),
    "early exit": lambda target, made: EarlyExit(target, 1),
    "composed": lambda target, made: Composed(PromptLookup(2), DraftModel(Network(made.draft))),
    "composed, long copies": lambda target, made: Composed(
        PromptLookup(8, per_match=2, least=2), DraftModel(Network(made.draft), 0.1)
    ),
    "nothing": lambda target, made: NoDraft(),
    "filler": lambda target, made: Filler(5),
}


def generate(drafter: str, jobs: list[Job], slots: int = 5, draft_tokens: int = 4) -> tuple[list[Generation], Decoder]:
    made = family("Llama")
    target = Network(made.target)
    decoder = Decoder(target, DRAFTERS[drafter](target, made), draft_tokens)
    return decoder.run(jobs, slots), decoder


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_text_is_the_targets_own_whoever_drafts(drafter: str) -> None:
    made = family("Llama")
    copying = tuple(p * 3 for p in made.prompts)
    budgets = [OUTPUT - n % 3 for n in range(len(LENGTHS))]
    texts, decoder = generate(drafter, [Job(p, b) for p, b in zip(copying, budgets)])

    assert [t.tokens for t in texts] == [own_words(made.target, p, b) for p, b in zip(copying, budgets)]
    if drafter in {"draft model", "composed", "composed, long copies", "prompt lookup"}:
        assert 0 < sum(decoder.meter.accepted_at) < sum(decoder.meter.drafted_at)
    if drafter == "nothing":
        assert all(r.drafted == 0 for t in texts for r in t.rounds)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drawn_text_depends_on_the_seed_alone_not_on_who_shares_the_batch(drafter: str) -> None:
    made = family("Llama")
    shaping = (RepetitionPenalty(1.2), Temperature(0.8), MinP(0.01))
    jobs = [Job(p, OUTPUT, greedy=n == 3, seed=n, processors=shaping) for n, p in enumerate(made.prompts[:7])]

    together, _ = generate(drafter, jobs, slots=4)
    alone = [generate(drafter, [job], slots=1)[0][0] for job in jobs]

    assert [t.tokens for t in together] == [t.tokens for t in alone]
    assert [[r.accepted for r in t.rounds] for t in together] == [[r.accepted for r in t.rounds] for t in alone]
    again, _ = generate(drafter, [Job(j.prompt, OUTPUT, greedy=False, seed=99, processors=shaping) for j in jobs])
    assert [t.tokens for t in again] != [t.tokens for t in together]


def test_a_draft_equal_to_the_target_is_always_kept_in_drawing_too() -> None:
    made = family("Llama")
    decoder = Decoder(Network(made.target), DraftModel(Network(made.target)), 4)
    jobs = [Job(p, OUTPUT, greedy=False, seed=n, processors=(Temperature(0.9),)) for n, p in enumerate(made.prompts)]

    texts = decoder.run(jobs, 5)

    assert all(r.accepted == r.tested == r.drafted for t in texts for r in t.rounds)


# --- prompt lookup ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limit", "found"),
    [
        ([1, 2, 3, 9, 1, 2, 3], 3, [9, 1, 2]),  # what followed
        ([5, 1, 2, 7, 6, 2, 8, 1, 2], 1, [7]),  # the longer match, though it is older
        ([1, 7, 1, 8, 1], 1, [8]),  # the later of two
        ([4, 4, 4], 5, [4, 4, 4, 4, 4]),  # a repetition goes on
        ([1, 2, 1, 2, 1], 4, [2, 1, 2, 1]),
        ([1, 2, 3], 4, []),
        ([1], 4, []),
        ([1, 2, 1], 0, []),
    ],
)
def test_a_lookup_copies_what_followed(text: list[int], limit: int, found: list[int]) -> None:
    assert NgramIndex(3).continuation(text, limit) == found


def test_an_index_that_grows_finds_what_a_new_one_finds() -> None:
    source = torch.Generator().manual_seed(2)
    text = torch.randint(4, (60,), generator=source).tolist()
    growing = NgramIndex(3)
    for length in (1, 2, 7, 8, 9, 30, 31, 60):
        assert growing.continuation(text[:length], 6) == NgramIndex(3).continuation(text[:length], 6)


# --- early exit -------------------------------------------------------------------------------------------------------


def test_an_exit_drafts_what_the_first_layers_say() -> None:
    made = family("Llama")
    target = Network(made.target)
    shallow = build("Llama", num_hidden_layers=1)
    shallow.load_state_dict(made.target.state_dict(), strict=False)
    with torch.inference_mode():
        target.reserve(1, 64)
        target.prefill(made.prompts[1], 0)
        text = [*made.prompts[1], 7]
        draft = EarlyExit(target, 1).propose([Row(0, Job(made.prompts[1], 9), text)], [3])

    assert tuple(draft.tokens[0].tolist()) == own_words(shallow, text, 3)
    assert made.target.config.num_hidden_layers == 2


@pytest.mark.parametrize(
    ("name", "layers", "text"),
    [
        ("Llama", 2, "exit_layer 2 is not below the target's 2 layers — choose 1 to 1"),
        ("GPT2", 1, "GPT2LMHeadModel runs all its layers, so none can be left early — choose another method"),
    ],
)
def test_an_exit_that_cannot_be_is_refused(name: str, layers: int, text: str) -> None:
    with pytest.raises(Refusal) as raised:
        EarlyExit(Network(family(name).target), layers)
    assert str(raised.value) == text


# --- composed, synthetic ----------------------------------------------------------------------------------------------


class Fixed(NoDraft):
    """Proposes given tokens and remembers what it is told."""

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft, self.limits, self.settled = draft, [], []

    def propose(self, rows: Any, limits: Any) -> Draft:
        self.limits = list(limits)
        return self._draft

    def settle(self, accepted: Any) -> None:
        self.settled = list(accepted)


def test_the_second_drafter_serves_whom_the_first_left() -> None:
    odds = torch.full((3, 1, 9), 1 / 9)
    first = Fixed(Draft(torch.tensor([[1, 2], [0, 0], [3, 0]]), (2, 0, 1)))
    second = Fixed(Draft(torch.tensor([[8], [7], [6]]), (0, 1, 0), odds))
    both = Composed(first, second)

    draft = both.propose([Row(n, Job((0,), 9), [0]) for n in range(3)], [2, 1, 2])
    both.settle([2, 1, 0])

    assert second.limits == [0, 1, 0]
    assert draft.counts == (2, 1, 1)
    assert [draft.tokens[row, :count].tolist() for row, count in enumerate(draft.counts)] == [[1, 2], [7], [3]]
    assert draft.odds is not None
    assert draft.odds[0].argmax(-1).tolist() == [1, 2]
    assert torch.equal(draft.odds[1, 0], odds[1, 0])
    assert (first.settled, second.settled) == ([2, 0, 0], [0, 1, 0])


@pytest.mark.parametrize("rate", [0.0, 0.6, 1.0])
def test_forced_acceptance_is_near_its_rate(rate: float) -> None:
    made = family("Llama")
    decoder = Decoder(Network(made.target), Filler(), 4, verifier=ForcedVerifier(rate))
    texts = decoder.run([Job(p, 60, seed=n) for n, p in enumerate(made.prompts)], 8)
    tested = sum(r.tested for t in texts for r in t.rounds[:-1])
    kept = sum(r.accepted for t in texts for r in t.rounds[:-1])

    assert kept / tested == pytest.approx(rate, abs=0.08)


def test_a_rate_beyond_one_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"not at 1\.2"):
        ForcedVerifier(1.2)


class Knows(NoDraft):
    """Proposes a row's true continuation for the first row, and nothing of use for the others, a number of times."""

    def __init__(self, outputs: tuple[tuple[int, ...], ...], rounds: int) -> None:
        super().__init__()
        self._outputs, self._left = outputs, rounds

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        self._left -= 1
        if self._left < 0:
            return super().propose(rows, limits)
        ahead = [self._outputs[row.number][len(row.output) :][:limit] for row, limit in zip(rows, limits)]
        wrong = [tuple((token + 1) % VOCABULARY for token in tokens) for tokens in ahead]
        return drafted([mine if row.number == 0 else other for row, mine, other in zip(rows, ahead, wrong)])


def drafted(rows: Sequence[Sequence[int]]) -> Draft:
    return Draft(padded(rows, "cpu"), tuple(map(len, rows)))


def test_a_row_that_lags_far_behind_catches_up_beside_one_that_fills_its_slot() -> None:
    """The first row gains three tokens a round, unread by the draft; the second ends at the last place of its slot."""
    made = family("Llama")
    prompts, budgets = (made.prompts[0][:2], (made.prompts[3] * 4)[:45]), (50, 16)
    outputs = tuple(own_words(made.target, prompt, budget) for prompt, budget in zip(prompts, budgets))
    drafter = Composed(Knows(outputs, 12), DraftModel(Network(made.draft)))
    texts = Decoder(Network(made.target), drafter, 2).run([Job(p, b) for p, b in zip(prompts, budgets)], 2)

    assert tuple(text.tokens for text in texts) == outputs
