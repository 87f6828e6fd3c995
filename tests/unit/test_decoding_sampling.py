"""Drawing is exact: against an enumerable toy target whose every text has a known probability."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from scipy import stats

from pytest_specgate.decoding import choice, verifier
from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser, drawn
from pytest_specgate.decoding.drafters.base import Draft, Drafter
from pytest_specgate.decoding.drafters.composed import Composed
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import RepetitionPenalty, Temperature, TopK
from pytest_specgate.decoding.randomness import Purpose, uniforms
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement

VOCABULARY, LENGTH, JOBS = 5, 4, 3_000
PROMPT = (0, 3, 1, 0, 3)
PLAIN = (Temperature(1.0),)
SHAPED = (RepetitionPenalty(1.3), Temperature(0.7), TopK(4))
CHANCE = 1e-4  # of a right decoder failing one of these tests; seeds are fixed, so it fails always or never


class Table:
    """A network whose scores depend on the last token alone; it stands in for a model, and its cache holds nothing."""

    def __init__(self, seed: int, blur: float = 0.0) -> None:
        source = torch.Generator().manual_seed(seed)
        self._scores = torch.randn((VOCABULARY, VOCABULARY), generator=source, dtype=torch.float64)
        self._scores += blur * torch.randn((VOCABULARY, VOCABULARY), generator=source, dtype=torch.float64)
        self.device = torch.device("cpu")
        self.anatomy = type("Anatomy", (), {"context": None})()

    def reserve(self, slots: int, capacity: int) -> None: ...

    def move(self, source: int, target: int) -> None: ...

    def forward(self, tokens: torch.Tensor, span: Span, keep: int = 0) -> torch.Tensor:
        return self._scores[tokens]

    def prefill(self, prompt: Sequence[int], slot: int) -> torch.Tensor:
        return self._scores[torch.tensor([[prompt[-1]]])]


def network(seed: int, blur: float = 0.0) -> Network:
    return cast("Network", Table(seed, blur))


def chances(processors: Any) -> dict[tuple[int, ...], float]:
    """The probability of every text of ``LENGTH`` tokens, by the chain rule."""
    target, found = Table(1), {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for text, chance in found.items():
            row = Row(0, Job(PROMPT, LENGTH, greedy=False, processors=processors), [*PROMPT, *text])
            chooser = Chooser([row], "cpu")
            scores = target.forward(torch.tensor([[row.tokens[-1]]]), Span((0,), 1))
            odds = chooser.odds(chooser.shaped(scores, torch.empty((1, 0), dtype=torch.long)))[0, 0]
            longer |= {(*text, token): chance * float(odds[token]) for token in range(VOCABULARY)}
        found = longer
    return found


def misfit(texts: Sequence[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """The p-value of a chi-square test over all texts; those expected less than five times count as one."""
    seen, often, rest = Counter(texts), [], [0.0, 0.0]
    for text, chance in expected.items():
        if chance * len(texts) >= 5:
            often.append((seen[text], chance * len(texts)))
        else:
            rest[0] += seen[text]
            rest[1] += chance * len(texts)
    assert all(seen[text] == 0 for text, chance in expected.items() if chance == 0), "a forbidden token was drawn"
    cells = [*often, *([tuple(rest)] if rest[1] else [])]
    return float(stats.chisquare([c[0] for c in cells], [c[1] for c in cells]).pvalue)


DRAFTERS: dict[str, Drafter | None] = {
    "none": None,
    "draft model": DraftModel(network(1, blur=0.7)),
    "prompt lookup": PromptLookup(2),
    "composed": Composed(PromptLookup(1), DraftModel(network(1, blur=0.7))),
    "composed, where two agree": Composed(PromptLookup(2, least=2), DraftModel(network(1, blur=0.7), 0.2)),
}


def texts(drafter: Drafter | None, processors: Any, judge: Any = None) -> list[tuple[int, ...]]:
    decoder = Decoder(network(1), drafter, 3, verifier=judge)
    jobs = [Job(PROMPT, LENGTH, greedy=False, processors=processors, seed=n) for n in range(JOBS)]
    return [made.tokens for made in decoder.run(jobs, JOBS)]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("processors", [PLAIN, SHAPED], ids=["plain", "shaped"])
def test_every_text_comes_as_often_as_the_target_alone_would_say_it(drafter: str, processors: Any) -> None:
    assert misfit(texts(DRAFTERS[drafter], processors), chances(processors)) > CHANCE


# --- the same test sees what is wrong ---------------------------------------------------------------------------------


class Told(ExactVerifier):
    """Judges a draft whose odds were tampered with."""

    def judge(self, scores: torch.Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        odds = draft.odds if draft.odds is None else self.tamper(draft.odds)
        return super().judge(scores, Draft(draft.tokens, draft.counts, odds), rows)

    @staticmethod
    def tamper(odds: torch.Tensor) -> torch.Tensor | None:
        raise NotImplementedError


class Certain(Told):
    """Takes a drawn draft for a certain one, which is exact too: it only keeps fewer."""

    @staticmethod
    def tamper(odds: torch.Tensor) -> None:
        return None


class Flatter(Told):
    """Is told other odds than those that were drawn from."""

    @staticmethod
    def tamper(odds: torch.Tensor) -> torch.Tensor:
        return odds.sqrt() / odds.sqrt().sum(dim=-1, keepdim=True)


def test_a_wrong_q_is_seen() -> None:
    assert misfit(texts(DRAFTERS["draft model"], PLAIN, Flatter()), chances(PLAIN)) < CHANCE


def test_a_drawn_draft_may_be_taken_for_a_certain_one() -> None:
    assert misfit(texts(DRAFTERS["draft model"], PLAIN, Certain()), chances(PLAIN)) > CHANCE


def test_drawing_from_p_after_a_rejection_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "_residual", lambda odds, draft, kept, row: odds[row, kept])
    assert misfit(texts(DRAFTERS["draft model"], PLAIN), chances(PLAIN)) < CHANCE


# --- one block, every outcome of chance -------------------------------------------------------------------------------

GRID = 16
P = (0.25, 0.25, 0.5, 0.0)
Q = (0.5, 0.25, 0.125, 0.125)


@pytest.mark.parametrize("certain", [False, True])
def test_one_block_emits_exactly_p_over_all_random_numbers(certain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every combination of the three numbers, on a grid whose points no threshold splits: no sampling error."""
    points = (torch.arange(GRID, dtype=torch.float64) + 0.5) / GRID
    grid = torch.cartesian_prod(points, points, points)
    column = {Purpose.DRAFT: 0, Purpose.ACCEPT: 1, Purpose.TARGET: 2}

    def on_grid(seeds: torch.Tensor, positions: torch.Tensor, purpose: Purpose) -> torch.Tensor:
        return grid[:, column[purpose], None].expand(positions.shape)

    monkeypatch.setattr(choice, "uniforms", on_grid)
    rows = [Row(n, Job((0,), 9, greedy=False, processors=PLAIN), [0]) for n in range(len(grid))]
    scores = torch.tensor(P, dtype=torch.float64).log().expand(len(grid), 2, -1)
    empty = torch.empty((len(grid), 0), dtype=torch.long)
    if certain:
        # A fixed proposal per row, drawn by nobody: the mixture over rows does not matter, p comes out for each.
        draft = Draft(torch.full((len(grid), 1), 2), (1,) * len(grid))
    else:
        tokens, odds = Chooser(rows, "cpu").draft(
            torch.tensor(Q, dtype=torch.float64).log().expand(len(grid), -1), empty
        )
        assert odds is not None
        draft = Draft(tokens[:, None], (1,) * len(grid), odds[:, None])

    kept, blocks, *_ = ExactVerifier().judge(scores, draft, rows).on_host(scores, draft)

    first = Counter(block[0] for block in blocks)
    assert [first[token] / len(grid) for token in range(len(P))] == pytest.approx(
        P, abs=0.5 / GRID if certain else 1e-12
    )
    overlap = P[2] if certain else sum(min(p, q) for p, q in zip(P, Q))
    assert sum(kept) / len(grid) == pytest.approx(overlap, abs=1e-12)


def test_a_token_without_weight_is_never_drawn() -> None:
    weights = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64).expand(3, -1)
    numbers = torch.tensor([0.0, 0.3, 1 - 2**-53], dtype=torch.float64)

    assert drawn(weights, numbers).tolist() == [1, 3, 3]


# --- random numbers ---------------------------------------------------------------------------------------------------


def numbers(seeds: range, positions: range, purpose: Purpose = Purpose.DRAFT) -> torch.Tensor:
    places = torch.tensor(positions).expand(len(seeds), -1)
    return uniforms(torch.tensor(seeds)[:, None], places, purpose)


@pytest.mark.parametrize("purpose", Purpose)
def test_numbers_are_uniform_along_seeds_and_along_positions(purpose: Purpose) -> None:
    for made in (numbers(range(20_000), range(7, 8), purpose), numbers(range(7, 8), range(20_000), purpose)):
        assert 0 <= made.min() < made.max() < 1
        assert stats.kstest(made.flatten().numpy(), "uniform").pvalue > CHANCE


def test_numbers_of_different_addresses_do_not_go_together() -> None:
    grid = numbers(range(300), range(300))
    pairs = [
        (grid[:, :-1], grid[:, 1:]),
        (grid[:-1], grid[1:]),
        *((numbers(range(300), range(300), a), numbers(range(300), range(300), b))
          for a, b in itertools.combinations(Purpose, 2)),
    ]  # fmt: skip
    for one, other in pairs:
        correlation = stats.pearsonr(one.flatten().numpy(), other.flatten().numpy())
        assert correlation.pvalue > CHANCE
    assert len(set(grid.flatten().tolist())) == 300 * 300


def test_a_number_is_the_same_wherever_it_is_asked_for() -> None:
    block = numbers(range(5), range(10))
    assert torch.equal(block[3:4, 4:6], numbers(range(3, 4), range(4, 6)))
