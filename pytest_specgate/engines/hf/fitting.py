"""Chances along drawn texts, target and draft teacher-forced, with bounded memory.

Full rows exist for :data:`scoring.MOST_BYTES` of logits of each model at a time, and for :data:`WORK_BYTES` while they
are processed and reduced; a handful of numbers per token leaves the device. The draft is asked what it would propose at
every position, whether or not a round began there: any proposal that depends on earlier tokens alone makes a fair
score, and the nearer to the real one, the sharper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.chances import Chances, DraftChances
from pytest_specgate.decoding.drafters.early_exit import shallow
from pytest_specgate.decoding.drafters.prompt_lookup import NgramIndex
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.processors import Processor
from pytest_specgate.engines.hf import scoring
from pytest_specgate.engines.hf.shaping import Speaker, processors
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Request
from pytest_specgate.suite.model import Candidate, Method

#: Bytes of float32 in one array of rows that are being processed; a dozen such arrays exist at once.
WORK_BYTES = 1 << 24
#: How far, relative to the largest score, rounding may move any score: in units of the dtype's own precision. SmolLM2
#: in bfloat16 moves margins by five of these between forwards of different widths.
DOUBT_EPS = 8.0
#: Nor is a token called forbidden that so small a move of scores would let in.
LEAST_DOUBT = 0.01


@dataclass(frozen=True, slots=True)
class Text:
    """A text that answers a prompt, and what the request does to scores."""

    name: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    processors: tuple[Processor, ...]

    @property
    def plain(self) -> scoring.Text:
        """As the scorer of logits takes it."""
        return scoring.Text(self.name, self.prompt, self.output)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked: the target, and at most one kind of draft.

    That is a ``draft`` model of the same vocabulary, the target's own first ``exit_layer`` layers, or copying what
    followed the last ``longest_ngram`` tokens or fewer.
    """

    target: Any
    draft: Any = None
    exit_layer: int | None = None
    longest_ngram: int | None = None

    def drafting(self) -> tuple[Any, AbstractContextManager[None]]:
        """The model whose logits are the draft's, None without one, and what to hold open while it is asked."""
        if self.exit_layer is not None:
            return self.target, shallow(self.target, self.exit_layer)
        return self.draft, nullcontext()


def drawn(
    asked: Sequence[tuple[Request, tuple[int, ...]]], outputs: Sequence[tuple[int, ...]], speaker: Speaker
) -> list[Text]:
    """Each output as answer to the request, with its prompt's ids, at the same place. Raises EngineError."""
    return [
        Text(request.prompt, prompt, output, processors(request, speaker))
        for (request, prompt), output in zip(asked, outputs)
    ]


def whom(target: Any, draft: Any, candidate: Candidate | None) -> Asked:
    """Whom to ask for a candidate of the suite; of methods that draft otherwise, the target alone."""
    if candidate is None or candidate.method not in _DRAFTS:
        return Asked(target)
    return _DRAFTS[candidate.method](target, draft, candidate)


_DRAFTS: Mapping[Method, Callable[[Any, Any, Candidate], Asked]] = {
    Method.DRAFT_MODEL: lambda target, draft, _: Asked(target, draft=draft),
    Method.EARLY_EXIT: lambda target, _, candidate: Asked(target, exit_layer=candidate.exit_layer),
    Method.PROMPT_LOOKUP: lambda target, _, candidate: Asked(target, longest_ngram=candidate.max_ngram),
}


def chances(asked: Asked, texts: Sequence[Text], engine: str) -> list[Chances]:
    """Chances in the order of the texts (none is empty). Raises EngineError for foreign ids and bad logits."""
    plain = [text.plain for text in texts]
    scoring.refuse_foreign(asked.target, plain, engine)
    most = scoring.rows_at_once(asked.target)
    found: dict[int, Chances] = {}
    with torch.inference_mode():
        for group in scoring.groups(plain, most):
            chosen = [texts[i] for i in group]
            for i, text, blocks in zip(group, chosen, _logits(asked, chosen, most)):
                found[i] = _joined(asked, text, blocks, engine)
    return [found[i] for i in range(len(texts))]


# --- logits -----------------------------------------------------------------------------------------------------

#: The target's logits ``[rows, vocabulary]`` and the draft's, None without one.
_Block = tuple[Tensor, Tensor | None]


def _logits(asked: Asked, texts: Sequence[Text], most: int) -> list[Iterator[_Block]]:
    """For each text its blocks of logits, in order."""
    if len(texts[0].output) > most:
        return [_long(asked, texts[0], most)]
    plain = [text.plain for text in texts]
    model, held = asked.drafting()
    own = scoring.whole(asked.target, plain)
    with held:
        drafts = scoring.whole(model, plain) if model is not None else [None] * len(texts)
    return [iter([block]) for block in zip(own, drafts)]


def _long(asked: Asked, text: Text, width: int) -> Iterator[_Block]:
    model, held = asked.drafting()
    own = scoring.blockwise(asked.target, text.plain, width)
    drafts = scoring.blockwise(model, text.plain, width) if model is not None else None
    while (rows := next(own, None)) is not None:
        if drafts is None:
            yield rows, None
            continue
        with held:
            yield rows, next(drafts)
        _, held = asked.drafting()


# --- one text ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Columns:
    """What has been reduced so far, a list of numbers per quantity."""

    chance: list[float]
    above: list[float]
    highest: list[float]
    kept: list[float]
    overlap: list[float]
    square: list[float]
    outside: list[int]


def _joined(asked: Asked, text: Text, blocks: Iterator[_Block], engine: str) -> Chances:
    columns = _Columns([], [], [], [], [], [], [])
    proposed = _copies(text, asked.longest_ngram) if asked.longest_ngram else None
    done = 0
    for own, drafts in blocks:
        rows = max(1, WORK_BYTES // (4 * own.shape[-1]))
        for at in range(0, len(own), rows):
            part = None if drafts is None else drafts[at : at + rows]
            _reduce(columns, _Part(text, done + at, own[at : at + rows], part, engine), proposed)
        done += len(own)
    draft = DraftChances(tuple(columns.kept), tuple(columns.overlap), tuple(columns.square)) if columns.kept else None
    return Chances(tuple(columns.chance), tuple(columns.above), tuple(columns.highest), draft, tuple(columns.outside))


def _copies(text: Text, longest: int) -> list[int]:
    """What copying proposes before each output token; -1 where it proposes nothing."""
    index, tokens, found = NgramIndex(longest), list(text.prompt), list[int]()
    for token in text.output:
        found.append(next(iter(index.continuation(tokens, 1)), -1))
        tokens.append(token)
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows of a text: the logits before its output tokens from ``begin`` on."""

    text: Text
    begin: int
    own: Tensor
    drafts: Tensor | None
    engine: str

    @property
    def tokens(self) -> Tensor:
        """The text's own tokens there, ``[rows]``."""
        return torch.tensor(self.text.output[self.begin : self.begin + len(self.own)], device=self.own.device)

    def odds(self, logits: Tensor, whose: str) -> Tensor:
        """Processed probabilities ``[rows, vocabulary]``."""
        _refuse_bad(logits, self, whose)
        return torch.softmax(self.shaped(_wide(logits)), dim=-1)

    def shaped(self, scores: Tensor) -> Tensor:
        """Scores as the request reshapes them."""
        for processor in self.text.processors:
            scores = self.by(processor, scores, 0)
        return scores

    def by(self, processor: Processor, scores: Tensor, skipped: int) -> Tensor:
        """Scores of the rows after ``skipped`` ones as one processor leaves them."""
        row = Row(0, Job(self.text.prompt, len(self.text.output)), list(self.text.prompt))
        return processor(scores, row, torch.tensor(self.text.output, device=scores.device), self.begin + skipped)


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype.itemsize < 4 else logits


def _refuse_bad(logits: Tensor, part: _Part, whose: str) -> None:
    bad = ~torch.isfinite(logits.amax(dim=-1))  # a token that the model itself rules out scores minus infinity
    if bad.any():
        position = part.begin + int(bad.long().argmax()) + 1
        what = f"{part.text.name}: the {whose}'s logits at output token {position} are not finite numbers"
        raise EngineError(part.engine, what, f"look at the {whose}'s weights and dtype: float16 overflows at 65504")


def _reduce(columns: _Columns, part: _Part, proposed: Sequence[int] | None) -> None:
    tokens = part.tokens
    odds = part.odds(part.own, "target")
    chance = odds.gather(-1, tokens[:, None])
    ids = torch.arange(odds.shape[-1], device=odds.device)
    before = (odds > chance) | ((odds == chance) & (ids < tokens[:, None]))
    columns.chance += chance[:, 0].double().tolist()
    columns.above += (odds * before).sum(dim=-1, dtype=torch.float64).clamp(max=1).tolist()
    columns.highest += odds.amax(dim=-1).double().tolist()
    columns.outside += [part.begin + row for row in _outside(part, chance[:, 0])]
    if part.drafts is not None:
        _against(columns, odds, _padded(part.odds(part.drafts, "draft"), odds.shape[-1]), tokens)
    elif proposed is not None:
        _against_copies(columns, odds, proposed[part.begin : part.begin + len(odds)], tokens)


def _padded(odds: Tensor, size: int) -> Tensor:
    """The draft's probabilities on the target's ids: rows that pad a vocabulary are no tokens."""
    missing = size - odds.shape[-1]
    return torch.nn.functional.pad(odds, (0, missing)) if missing > 0 else odds[..., :size]


def _against(columns: _Columns, odds: Tensor, draft: Tensor, tokens: Tensor) -> None:
    common = torch.minimum(odds, draft)
    kept = torch.where(odds > 0, common / odds.clamp(min=torch.finfo(odds.dtype).tiny), 0)
    columns.kept += kept.gather(-1, tokens[:, None])[:, 0].double().tolist()
    columns.overlap += common.sum(dim=-1, dtype=torch.float64).clamp(max=1).tolist()
    columns.square += (common * kept).sum(dim=-1, dtype=torch.float64).tolist()


def _against_copies(columns: _Columns, odds: Tensor, proposed: Sequence[int], tokens: Tensor) -> None:
    """A draft that was certain of one token; without one nothing can be kept."""
    copies = torch.tensor(proposed, device=odds.device)
    wanted = odds.gather(-1, copies.clamp(min=0)[:, None])[:, 0].double() * (copies >= 0)
    columns.kept += ((copies == tokens) & (wanted > 0)).double().tolist()
    columns.overlap += wanted.tolist()
    columns.square += wanted.tolist()


# --- what a request forbids ---------------------------------------------------------------------------------------


def _outside(part: _Part, chance: Tensor) -> Iterator[int]:
    """Rows whose token the request, or the target itself, rules out whatever rounding did."""
    for row in torch.nonzero(chance == 0)[:, 0].tolist():
        if _removed(part, row, part.text.output[part.begin + row]):
            yield row


def _removed(part: _Part, row: int, token: int) -> bool:
    scores = _wide(part.own[row : row + 1])
    if scores[0, token] == -math.inf:
        return True
    for processor in part.text.processors:
        after = part.by(processor, scores, row)
        if after[0, token] == -math.inf:
            return _surely(part, processor, scores, (row, token))
        scores = after
    return False  # so improbable that its chance is too small for a number


def _surely(part: _Part, processor: Processor, scores: Tensor, place: tuple[int, int]) -> bool:
    """Whether the processor removes the token whatever rounding did.

    Under every filter the move that favours a token most is itself, and all that rank below it, up against the rest.
    """
    row, token = place
    finite = scores[torch.isfinite(scores)]
    doubt = max(LEAST_DOUBT, DOUBT_EPS * torch.finfo(part.own.dtype).eps * float(finite.abs().max()))
    moved = torch.where(scores <= scores[0, token], scores + doubt, scores)
    return float(part.by(processor, moved, row)[0, token]) == -math.inf
