"""Parts A and B where tokens are drawn: accept rules, what drafts are said to be drawn from, seeds, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser, drawn
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import Processor, Temperature
from pytest_specgate.decoding.randomness import Purpose
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import DECLARED, DRAWN, DRAWN_COUNTED

FIT = ("distribution_fit",)


# --- verifying ---


class Unprocessed(ExactVerifier):
    """Takes the target's chances as they are, whatever the request asks for."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        plain = [replace(row, job=replace(row.job, processors=())) for row in rows]
        return super().judge(scores, draft, plain)


class Pieces(ExactVerifier):
    """Rejection sampling whose rule of keeping a draft is a method of its own."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        if not draft.width:
            return super().judge(scores, draft, rows)
        chooser = Chooser(rows, scores.device)
        odds = chooser.odds(chooser.shaped(scores, draft.tokens))
        proposed = torch.arange(draft.width) < torch.tensor(draft.counts)[:, None]
        kept = (self.keeps(chooser, odds[:, :-1], draft) & proposed).long().cumprod(dim=1).sum(dim=1)
        row = torch.arange(len(kept))
        follower = drawn(self.after(odds, draft, kept), chooser.uniforms(draft.width + 1, Purpose.TARGET)[row, kept])
        tokens = torch.cat((draft.tokens, follower[:, None]), dim=1)
        tokens[row, kept] = follower
        return Judgement(tokens, kept)

    def keeps(self, chooser: Chooser, odds: Tensor, draft: Draft) -> Tensor:
        """Which drafts pass by themselves, ``[rows, width]``: by the ratio of the chances."""
        assert draft.odds is not None
        wanted, offered = _at(odds, draft.tokens), _at(draft.odds, draft.tokens)
        return chooser.uniforms(draft.width, Purpose.ACCEPT) * offered < wanted

    def after(self, odds: Tensor, draft: Draft, kept: Tensor) -> Tensor:
        """What the token after the kept drafts is drawn from: less what a rejected draft had."""
        assert draft.odds is not None
        row, own = torch.arange(len(kept)), odds[torch.arange(len(kept)), kept]
        rest = (own - draft.odds[row, kept.clamp(max=draft.width - 1)]).clamp(min=0)
        usable = (kept < torch.tensor(draft.counts)) & (rest.sum(dim=-1) > 0)
        return torch.where(usable[:, None], rest, own)


def _at(odds: Tensor, tokens: Tensor) -> Tensor:
    return odds.gather(-1, tokens[..., None])[..., 0]


class OnlyBest(Pieces):
    """Keeps a draft where it is the target's first choice, and only there; only what follows is drawn."""

    def keeps(self, chooser: Chooser, odds: Tensor, draft: Draft) -> Tensor:
        return odds.argmax(dim=-1) == draft.tokens

    def after(self, odds: Tensor, draft: Draft, kept: Tensor) -> Tensor:
        return odds[torch.arange(len(kept)), kept]


class Typical(Pieces):
    """Keeps a draft also where the target gives it a chance of a tenth: lossy by design."""

    def keeps(self, chooser: Chooser, odds: Tensor, draft: Draft) -> Tensor:
        return super().keeps(chooser, odds, draft) | (_at(odds, draft.tokens) >= 0.1)


class OwnSample(Pieces):
    """Keeps a draft where it is what the target would have drawn there itself, and else emits that: lossless."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        chooser = Chooser(rows, scores.device)
        numbers = chooser.uniforms(draft.width + 1, Purpose.TARGET)
        own = drawn(chooser.odds(chooser.shaped(scores, draft.tokens)), numbers)
        same = (own[:, :-1] == draft.tokens) & (torch.arange(draft.width) < torch.tensor(draft.counts)[:, None])
        return Judgement(own, same.long().cumprod(dim=1).sum(dim=1))


# --- drafting ---


class _Best(Chooser):
    """Chooses the best token, and tells the chances that it would have been drawn with."""

    def draft(self, scores: Tensor, drafted: Tensor) -> tuple[Tensor, Tensor | None]:
        odds = self.odds(self.shaped(scores[:, None], drafted))
        return odds[:, 0].argmax(dim=-1), odds[:, 0]


class BestSaidToBeDrawn(DraftModel):
    """Drafts the best token each time, and declares the softmax as q."""

    def _chooser(self, rows: Sequence[Row]) -> Chooser:
        return _Best(rows, self._network.device)


class BestAndCertain(BestSaidToBeDrawn):
    """Drafts the best token each time, and says that it was certain to: lossless, and seldom kept."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        return replace(super().propose(rows, limits), odds=None)


class Hotter(DraftModel):
    """Draws its drafts at twice the temperature, and says so: lossless."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        return super().propose([replace(row, job=replace(row.job, processors=self._hot(row))) for row in rows], limits)

    @staticmethod
    def _hot(row: Row) -> tuple[Processor, ...]:
        return tuple(Temperature(2 * p.value) if isinstance(p, Temperature) else p for p in row.job.processors)


# --- ranks ---


class Ranks(Network):
    """Two ranks hold half of the head each, and a cache of their own; they read what the loop hands out."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.other = Network(model)

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, capacity)
        self.other.reserve(slots, capacity)

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        one = super().forward(tokens, span, keep)
        two = self.other.forward(self.seen(tokens, span), span, keep)
        half = one.shape[-1] // 2
        return torch.cat((one[..., :half], two[..., half:]), dim=-1)

    def seen(self, tokens: Tensor, span: Span) -> Tensor:
        """What the other rank reads."""
        return tokens

    def move(self, source: int, target: int) -> None:
        super().move(source, target)
        self.other.move(source, target)


class RanksDisagree(Ranks):
    """The other rank votes on acceptance with numbers of its own: every fourth block it goes on from another token."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._source = torch.Generator().manual_seed(1)

    def seen(self, tokens: Tensor, span: Span) -> Tensor:
        if not max(span.starts):
            return tokens
        wrong = torch.rand(len(tokens), generator=self._source) < 0.25
        other = torch.randint(self.anatomy.vocabulary, (len(tokens),), generator=self._source)
        tokens = tokens.clone()
        tokens[wrong, 0] = other[wrong]
        return tokens


_RANKS = Parts(target=Ranks)

ENTRIES = (
    Entry(
        "V02",
        "speculative sampling does not keep the target's distribution",
        "drafts are the best token each time, and the ratio takes them for drawn",
        FIT,
        Parts(drafter=lambda rig: BestSaidToBeDrawn(rig.own)),
        setting=DRAWN,
    ),
    Entry(
        "V03",
        "sampling parameters do not reach verification",
        "the target's chances are taken at temperature 1 and without filters",
        FIT,
        Parts(verifier=Unprocessed),
        setting=DRAWN,
    ),
    Entry(
        "V04",
        "argmax at every draft position though sampling was asked for",
        "a draft is kept where it is the first choice, and only the bonus token is drawn",
        FIT,
        Parts(verifier=OnlyBest),
        setting=DRAWN,
    ),
    Entry(
        "V16",
        "a request's seed is ignored",
        "every request gets one and the same seed, in every round",
        FIT,
        Parts(seed=lambda _: 7),
        setting=DRAWN,
    ),
    Entry(
        "V17",
        "ranks accept different tokens",
        "the rank that holds half of the head goes on from other tokens, for it votes with numbers of its own",
        FIT,
        Parts(target=RanksDisagree),
        setting=DRAWN,
        right=_RANKS,
        right_name="ranks-of-a-head",
        note="the ranks are two networks in one process, each with its cache.",
    ),
    Entry(
        "V28",
        "greedy drafting at temperature 1",
        "drafts are the best token each time and said to be certain: lossless and slow",
        ("conditional_acceptance", "acceptance_length", "acceptance_rate"),
        Parts(drafter=lambda rig: BestAndCertain(rig.own)),
        setting=DRAWN_COUNTED,
        green=FIT,
    ),
    Entry(
        "N5",
        "a draft hotter than the target, with the right q",
        "drafts are drawn at twice the temperature and declared so",
        (),
        Parts(drafter=lambda rig: Hotter(rig.own)),
        setting=DRAWN,
        note="N5 to N7 stay undecided: so few tokens do not exclude a shift of one point.",
    ),
    Entry(
        "N6",
        "a draft is kept where it is the target's own sample",
        "the sample that does not match is the one that is emitted",
        (),
        Parts(verifier=OwnSample),
        setting=DRAWN,
    ),
    Entry(
        "N7",
        "acceptance swings between two runs of the same software",
        "the same decoder draws with other seeds than when the baseline was recorded",
        (),
        Parts(seed=lambda seed: seed ^ 0x5EED),
        setting=DRAWN_COUNTED,
    ),
    Entry(
        "N9",
        "typical acceptance: lossy by design",
        "a draft is kept also where the target gives it a chance of a tenth",
        FIT,
        Parts(verifier=Typical),
        setting=DRAWN,
        pardon=DECLARED,
    ),
)
