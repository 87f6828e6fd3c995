"""An engine over tables instead of models, and the parts of a sampling decoder that can be wrong.

Target and draft are tables of scores by the last token, of mixed entropy; decoder, verifier, processors and scorer are
the ordinary ones. ``options: {fault: NAME}`` exchanges one part; see :data:`FAULTS` and :data:`SOUND`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from pytest_specgate.chances import Chances
from pytest_specgate.decoding import verifier
from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser, drawn
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.job import Generation, Job, Row
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import Temperature
from pytest_specgate.decoding.randomness import Purpose
from pytest_specgate.decoding.verifier import ExactVerifier, Judgement
from pytest_specgate.engines.base import EngineContext, seed_of
from pytest_specgate.engines.hf import fitting
from pytest_specgate.engines.hf.shaping import drawing
from pytest_specgate.engines.native import NativeEngine
from pytest_specgate.records import Arm, Capability, MemoryReading, Place, Request, Trace

VOCABULARY = 200
TARGET, DRAFT = 1, 2
#: Standard deviation of what the draft's scores err by: it is accepted six times in ten at temperature 0.7.
BLUR = 1.1


@cache
def table(seed: int) -> Tensor:
    """Scores ``[VOCABULARY, VOCABULARY]`` after each token; the draft's are the target's with errors."""
    source = torch.Generator().manual_seed(5)
    scores = torch.randn((VOCABULARY, VOCABULARY), generator=source, dtype=torch.float64)
    scores *= 1 + 3 * torch.rand((VOCABULARY, 1), generator=source, dtype=torch.float64)
    if seed == DRAFT:
        scores += BLUR * torch.randn(scores.shape, generator=source, dtype=torch.float64)
    return scores


class Table:
    """What a network is to the decoder, and a model to the scorer; its cache holds nothing."""

    device = torch.device("cpu")

    def __init__(self, seed: int) -> None:
        self.scores = table(seed)
        self.anatomy = type("Anatomy", (), {"context": None})()
        self.config = self

    vocab_size = VOCABULARY

    def get_text_config(self) -> Table:
        return self

    def __call__(self, input_ids: Tensor, attention_mask: Tensor | None = None, use_cache: bool = False) -> Any:
        return type("Output", (), {"logits": self.scores[input_ids]})()

    def reserve(self, slots: int, capacity: int) -> None: ...

    def move(self, source: int, target: int) -> None: ...

    def cache_bytes(self) -> int:
        return 0

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        return self.scores[tokens]

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        return self.scores[torch.tensor([[prompt[-1]]])]


class TableEngine:
    """The engine protocol over the two tables."""

    capabilities = frozenset({Capability.ROUNDS, Capability.BATCH, Capability.SEEDS, Capability.LOGITS})

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        target = cast("Network", Table(TARGET))
        self._asked = fitting.Asked(Table(TARGET), draft=Table(DRAFT))
        fault = str(context.spec.options.get("fault", "none"))
        drafter, judge = {**FAULTS, **SOUND}[fault](cast("Network", Table(DRAFT)))
        if isinstance(drafter, PromptLookup):
            self._asked = fitting.Asked(Table(TARGET), longest_ngram=2)
        self._decoders = {Arm.REFERENCE: Decoder(target), Arm.CANDIDATE: Decoder(target, drafter, 4, verifier=judge)}

    def start(self) -> None: ...

    def check(self, concurrency: int, greedy: bool) -> None: ...

    def close(self) -> None: ...

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        jobs = [self._job(request) for request in requests]
        made = self._decoders[arm].run(jobs, len(jobs))
        return [_trace(*each, arm) for each in zip(requests, jobs, made)]

    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        jobs = [self._job(request) for request in requests]
        asked = [fitting.Text(r.prompt, j.prompt, t, j.processors) for r, j, t in zip(requests, jobs, texts)]
        return fitting.chances(self._asked, asked, self._context.name)

    def _job(self, request: Request) -> Job:
        prompt = tuple((zlib.crc32(f"{request.prompt}/{n}".encode())) % VOCABULARY for n in range(3))
        greedy, shaping = request.sampling.greedy, drawing(request.sampling)
        return Job(prompt, request.max_tokens, greedy=greedy, processors=shaping, seed=seed_of(request))

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        return MemoryReading()

    def place(self) -> Place:
        return Place("cpu", 1, "float64")

    def workload(self) -> Mapping[str, str]:
        return {}

    def subject(self) -> Mapping[str, str]:
        return {"k": "4"}


class Counting(TableEngine):
    """Tells which texts it was asked for, call by call."""

    asked: ClassVar[list[tuple[tuple[int, ...], ...]]] = []

    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        self.asked.append(tuple(texts))
        return super().chances(requests, texts)


def _trace(request: Request, job: Job, made: Generation, arm: Arm) -> Trace:
    return Trace(
        prompt=request.prompt,
        arm=arm,
        token_ids=made.tokens,
        text=" ".join(map(str, made.tokens)),
        prompt_tokens=len(job.prompt),
        submit_ns=made.submit_ns,
        chunks=made.chunks,
        finish=made.finish,
        rounds=made.rounds if arm is Arm.CANDIDATE else None,
        prefill_tokens=1,
        max_tokens=request.max_tokens,
    )


# --- parts that can be wrong -------------------------------------------------------------------------------------


class Parts(ExactVerifier):
    """Rejection sampling in pieces, each of which a fault replaces."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        chooser = Chooser(rows, scores.device)
        odds = chooser.odds(self.shaped(chooser, scores, draft))
        numbers = chooser.uniforms(draft.width + 1, Purpose.TARGET)
        if not draft.width:
            chosen = drawn(odds, numbers)
            return Judgement(chosen, torch.zeros_like(chosen[:, 0]))
        luck = chooser.uniforms(draft.width, Purpose.ACCEPT)
        kept = verifier._run_length(self.keeps(luck, odds[:, :-1], draft) & verifier._proposed(draft))
        row = torch.arange(len(kept))
        follower = drawn(self.rest(odds, draft, kept, row), numbers[row, kept])
        tokens = torch.cat((draft.tokens, follower[:, None]), dim=1)
        tokens[row, kept] = follower
        return Judgement(tokens, kept)

    def shaped(self, chooser: Chooser, scores: Tensor, draft: Draft) -> Tensor:
        return chooser.shaped(scores, draft.tokens)

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        """Which drafts pass by themselves, ``[rows, width]``."""
        return luck * self.offered(draft) < at(odds, draft.tokens)

    def offered(self, draft: Draft) -> Tensor:
        return torch.ones(draft.tokens.shape) if draft.odds is None else at(draft.odds, draft.tokens)

    def rest(self, odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
        return verifier._residual(odds, draft, kept, row)


def at(odds: Tensor, tokens: Tensor) -> Tensor:
    return odds.gather(-1, tokens[..., None])[..., 0]


class FromTarget(Parts):
    """What replaces a rejected draft is drawn from p, as if nothing had been rejected."""

    def rest(self, odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
        return odds[row, kept]


class ResidualArgmax(Parts):
    """What replaces a rejected draft is the best of the residual."""

    def rest(self, odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
        rest = super().rest(odds, draft, kept, row)
        best = torch.zeros_like(rest).scatter_(-1, rest.argmax(dim=-1, keepdim=True), 1.0)
        return torch.where((kept < draft.width)[:, None], best, rest)


class PlainRatio(Parts):
    """The ratio takes the draft's chances before its temperature."""

    def offered(self, draft: Draft) -> Tensor:
        return at(plain(draft), draft.tokens)


class PlainBoth(PlainRatio):
    """The residual takes them too."""

    def rest(self, odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
        return verifier._residual(odds, Draft(draft.tokens, draft.counts, plain(draft)), kept, row)


def plain(draft: Draft, temperature: float = 0.7) -> Tensor:
    assert draft.odds is not None
    powers = draft.odds**temperature
    return powers / powers.sum(dim=-1, keepdim=True)


class BestPasses(Parts):
    """A draft that is the target's first choice is always kept."""

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        return super().keeps(luck, odds, draft) | (odds.argmax(dim=-1) == draft.tokens)


class OnlyBestPasses(Parts):
    """Verified as if greedy: a draft is kept where it is the first choice, and only there."""

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        return odds.argmax(dim=-1) == draft.tokens

    def rest(self, odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
        return odds[row, kept]


class NoLuck(Parts):
    """A draft is kept where p ≥ q, without drawing."""

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        return super().keeps(torch.ones_like(luck), odds, draft)


class BonusFromDraft(Parts):
    """After a full block, the next token is the draft's."""

    def __init__(self, network: Table) -> None:
        self._network = network

    def rest(self, odds: Tensor, draft: Draft, kept: Tensor, row: Tensor) -> Tensor:
        rest = super().rest(odds, draft, kept, row)
        bonus = torch.softmax(self._network.scores[draft.tokens[:, -1]] / 0.7, dim=-1)
        return torch.where((kept == draft.width)[:, None], bonus, rest)


class Lenient(Parts):
    """Every draft has a tenth more chance than it should."""

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        return super().keeps(luck / 1.1, odds, draft)


class Typical(Parts):
    """A draft is also kept where p is a tenth or more."""

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        return super().keeps(luck, odds, draft) | (at(odds, draft.tokens) >= 0.1)


class PlainTarget(Parts):
    """Verified at temperature 1, whatever was asked for."""

    def shaped(self, chooser: Chooser, scores: Tensor, draft: Draft) -> Tensor:
        return scores


class TemperatureAlone(Parts):
    """Filters do not reach verification."""

    def shaped(self, chooser: Chooser, scores: Tensor, draft: Draft) -> Tensor:
        return scores / 0.7


class Late(Parts):
    """Drafts are judged by the row before theirs."""

    def keeps(self, luck: Tensor, odds: Tensor, draft: Draft) -> Tensor:
        late = torch.cat((odds[:, :1], odds[:, :-1]), dim=1)
        return super().keeps(luck, late, draft)


class OwnSample(Parts):
    """Keeps a draft where it is what the target would have drawn itself, and else emits that: lossless."""

    def judge(self, scores: Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        chooser = Chooser(rows, scores.device)
        numbers = chooser.uniforms(draft.width + 1, Purpose.TARGET)
        own = drawn(chooser.odds(self.shaped(chooser, scores, draft)), numbers)
        if not draft.width:
            return Judgement(own, torch.zeros_like(own[:, 0]))
        return Judgement(own, verifier._run_length((own[:, :-1] == draft.tokens) & verifier._proposed(draft)))


class BestDrafts(DraftModel):
    """Drafts the best token each time, and says that it was drawn."""

    declared = True

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        made = _redrafted(self._network, rows, limits, lambda odds, _: odds.argmax(dim=-1))
        self._steps, self._lengths = made.width, tuple(len(row.tokens) for row in rows)
        return made if self.declared else Draft(made.tokens, made.counts, None)


class CertainDrafts(BestDrafts):
    """Drafts the best token each time, and says that it was certain to: lossless."""

    declared = False


class Hot(DraftModel):
    """Drafts at twice the temperature and says so: lossless."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        hot = [Row(r.number, _at_temperature(r.job, 1.4), r.tokens) for r in rows]
        return super().propose(hot, limits)


class ColdUntold(DraftModel):
    """Drafts at half the temperature and declares the chances of the request's."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        return _redrafted(self._network, rows, limits, lambda odds, numbers: drawn(odds**2, numbers))


class DeclaredPlain(DraftModel):
    """Draws as the request asks, and declares the chances before temperature."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        made = super().propose(rows, limits)
        return made if made.odds is None else Draft(made.tokens, made.counts, plain(made))


def _at_temperature(job: Job, value: float) -> Job:
    return Job(job.prompt, job.max_tokens, greedy=False, processors=(Temperature(value),), seed=job.seed)


def _redrafted(
    network: Any, rows: Sequence[Row], limits: Sequence[int], choose: Callable[[Tensor, Tensor], Tensor]
) -> Draft:
    """A draft whose tokens are chosen by ``choose(odds, numbers)`` and whose declared odds are the request's."""
    chooser, last = Chooser(rows, "cpu"), torch.tensor([[row.tokens[-1]] for row in rows])
    tokens, odds = torch.empty((len(rows), 0), dtype=torch.long), []
    for step in range(max(limits)):
        odds.append(chooser.odds(chooser.shaped(network.scores[last], tokens)))
        last = choose(odds[-1], chooser.uniforms(1, Purpose.DRAFT, ahead=step))
        tokens = torch.cat((tokens, last), dim=1)
    return Draft(tokens, tuple(limits), torch.cat(odds, dim=1) if odds else None)


class Swapped(NativeEngine):
    """The native engine on real models, the verifier of its candidate arm exchanged; see :data:`JUDGES`."""

    def start(self) -> None:
        super().start()
        candidate, sound = self._context.spec.candidate, self._decoders[Arm.CANDIDATE]
        assert candidate is not None
        judge = JUDGES[str(self._context.spec.options["fault"])]()
        swapped = Decoder(sound.target, sound.drafter, candidate.num_draft_tokens, verifier=judge)
        self._decoders[Arm.CANDIDATE] = swapped


_Parts = Callable[[Network], tuple[Any, Any]]


def _judged(kind: Callable[[], Any]) -> _Parts:
    return lambda network: (DraftModel(network), kind())


#: Verifier by fault.
JUDGES: dict[str, Callable[[], Parts]] = {
    "resamples from p": FromTarget,
    "resamples the best": ResidualArgmax,
    "q without temperature": PlainRatio,
    "q without temperature in the residual too": PlainBoth,
    "accepts the best": BestPasses,
    "accepts the best alone": OnlyBestPasses,
    "accepts without luck": NoLuck,
    "lenient by a tenth": Lenient,
    "accepts a chance of 0.1": Typical,
    "target at temperature 1": PlainTarget,
    "filters on the draft alone": TemperatureAlone,
    "judges one row late": Late,
}
#: (drafter, verifier) by fault.
FAULTS: dict[str, _Parts] = {
    **{name: _judged(kind) for name, kind in JUDGES.items()},
    "bonus from q": lambda network: (DraftModel(network), BonusFromDraft(cast("Any", network))),
    "best drafts said to be drawn": lambda network: (BestDrafts(network), Parts()),
    "colder drafts than declared": lambda network: (ColdUntold(network), Parts()),
    "declared at temperature 1": lambda network: (DeclaredPlain(network), Parts()),
    "copies may be drawn again": lambda _: (PromptLookup(2), FromTarget()),
}
SOUND: dict[str, _Parts] = {
    "none": _judged(ExactVerifier),
    "in pieces": _judged(Parts),
    "hotter drafts": lambda network: (Hot(network), ExactVerifier()),
    "certain drafts": lambda network: (CertainDrafts(network), ExactVerifier()),
    "own samples": _judged(OwnSample),
    "copies": lambda _: (PromptLookup(2), ExactVerifier()),
}
