"""Chances along drawn texts, target and draft teacher-forced, with bounded memory.

Full rows exist for :data:`scoring.MOST_BYTES` of logits of each model at a time, and for :data:`WORK_BYTES` while they
are processed and reduced; a handful of numbers per token leaves the device. The draft is asked what it would propose at
every position, whether or not a round began there: any proposal that depends on earlier tokens alone makes a fair
score, and the nearer to the real one, the sharper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.chances import Chances, DraftChances
from pytest_specgate.decoding.drafters.early_exit import shallow
from pytest_specgate.decoding.drafters.prompt_lookup import NgramIndex
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.processors import Filter, MinP, Processor
from pytest_specgate.engines.hf import scoring
from pytest_specgate.engines.hf.methods import LOOKUP_FIRST
from pytest_specgate.engines.hf.odds import Odds
from pytest_specgate.engines.hf.reading import Readers, Voice, pieces
from pytest_specgate.engines.hf.shaping import Speaker, processors, refuse_unwritable
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Request
from pytest_specgate.suite.model import Candidate, Method

#: Bytes of float32 in one array of rows that are being processed: a processor's cache holds a few such arrays.
WORK_BYTES = 1 << 21
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
    followed the last ``longest_ngram`` tokens or fewer where ``least_match`` agree.
    """

    target: Any
    draft: Any = None
    exit_layer: int | None = None
    longest_ngram: int | None = None
    least_match: int = 1
    readers: Readers = field(default_factory=Readers)

    def voices(self) -> list[Voice]:
        """The target, and the draft where it is a model."""
        if self.exit_layer is not None:
            return [Voice(self.target), Voice(self.target, partial(shallow, self.target, self.exit_layer))]
        return [Voice(model) for model in (self.target, self.draft) if model is not None]


def drawn(
    asked: Sequence[tuple[Request, tuple[int, ...]]], outputs: Sequence[tuple[int, ...]], speaker: Speaker
) -> list[Text]:
    """Each output as answer to the request, with its prompt's ids, at the same place. Raises EngineError."""
    for (request, _), output in zip(asked, outputs):
        refuse_unwritable(request, output, speaker)
    return [
        Text(request.prompt, prompt, output, processors(request, speaker))
        for (request, prompt), output in zip(asked, outputs)
    ]


def whom(target: Any, draft: Any, candidate: Candidate | None, readers: Readers) -> Asked:
    """Whom to ask for a candidate of the suite; of methods that draft otherwise, the target alone."""
    if candidate is None or candidate.method not in _DRAFTS:
        return Asked(target, readers=readers)
    return replace(_DRAFTS[candidate.method](target, draft, candidate), readers=readers)


_DRAFTS: Mapping[Method, Callable[[Any, Any, Candidate], Asked]] = {
    # Where copies come first, only the engine knows which tokens were copied.
    Method.DRAFT_MODEL: lambda target, draft, candidate: Asked(
        target, draft=None if candidate.options.get(LOOKUP_FIRST) else draft
    ),
    Method.EARLY_EXIT: lambda target, _, candidate: Asked(target, exit_layer=candidate.exit_layer),
    Method.PROMPT_LOOKUP: lambda target, _, candidate: Asked(
        target, longest_ngram=candidate.max_ngram, least_match=candidate.min_match or 1
    ),
}


def chances(asked: Asked, texts: Sequence[Text], engine: str) -> list[Chances]:
    """Chances in the order of the texts (none is empty). Raises EngineError for foreign ids and bad logits."""
    plain = [text.plain for text in texts]
    scoring.refuse_foreign(asked.target, plain, engine)
    found = [_Columns(_copies(text, asked) if asked.longest_ngram else None) for text in texts]
    with torch.inference_mode():
        for piece in pieces(asked.readers, asked.voices(), plain, scoring.rows_at_once(asked.target)):
            own, *drafts = piece.logits
            rows = max(1, WORK_BYTES // (4 * own.shape[-1]))
            for at in range(0, len(own), rows):
                of_draft = drafts[0][at : at + rows] if drafts else None
                part = _Part(texts[piece.text], piece.at + at, own[at : at + rows], of_draft, engine)
                _reduce(found[piece.text], part)
    return [columns.chances() for columns in found]


# --- one text ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Columns:
    """What has been reduced of a text so far; ``proposed`` is what copying offers before each token, if it drafts."""

    proposed: list[int] | None
    chance: list[float] = field(default_factory=list)
    above: list[float] = field(default_factory=list)
    highest: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    overlap: list[float] = field(default_factory=list)
    square: list[float] = field(default_factory=list)
    its_chance: list[float] = field(default_factory=list)
    usual: list[float] = field(default_factory=list)
    usual_square: list[float] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)

    def chances(self) -> Chances:
        """The text's."""
        drafts = (self.kept, self.overlap, self.square, self.its_chance, self.usual, self.usual_square)
        draft = DraftChances(*map(tuple, drafts)) if self.kept else None
        return Chances(tuple(self.chance), tuple(self.above), tuple(self.highest), draft, tuple(self.outside))


def _copies(text: Text, asked: Asked) -> list[int]:
    """What copying proposes before each output token; -1 where it proposes nothing."""
    index = NgramIndex(asked.longest_ngram or 0, asked.least_match)
    tokens, found = list(text.prompt), list[int]()
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

    def odds(self, logits: Tensor, whose: str) -> Odds:
        """Chances as the request reshapes them: once a filter has left few tokens, of those alone."""
        _refuse_bad(logits, self, whose)
        scores, ids = _wide(logits), None
        for processor in self.text.processors:
            if ids is None and isinstance(processor, Filter) and (left := processor.few(scores)) is not None:
                scores, ids = left
            elif ids is not None and not isinstance(processor, (Filter, MinP)):
                return Odds.of_scores(self.shaped(_wide(logits)))  # one that looks at ids comes after a filter
            else:
                scores = self.by(processor, scores, 0)
        return Odds.of_scores(scores, ids)

    def shaped(self, scores: Tensor) -> Tensor:
        """Scores as the request reshapes them, of all tokens."""
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


def _reduce(columns: _Columns, part: _Part) -> None:
    tokens = part.tokens
    own = part.odds(part.own, "target")
    chance = own.of(tokens)
    columns.chance += chance.tolist()
    columns.above += own.before(tokens).tolist()
    columns.highest += own.odds.amax(dim=-1).double().tolist()
    columns.outside += [part.begin + row for row in _outside(part, chance)]
    if part.drafts is not None:
        _against(columns, own, part.odds(part.drafts, "draft"), part)
    elif columns.proposed is not None:
        _against_copies(columns, own, columns.proposed[part.begin : part.begin + len(tokens)], tokens)


def _against(columns: _Columns, own: Odds, draft: Odds, part: _Part) -> None:
    # Rows that pad a vocabulary are no tokens, and a draft of a smaller one proposes none beyond it.
    common = torch.minimum(own.odds, own.taken(draft, part.own.shape[-1]))
    kept = torch.where(own.odds > 0, common / own.odds.clamp(min=torch.finfo(own.odds.dtype).tiny), 0)
    columns.kept += own.at(kept, part.tokens).tolist()
    columns.overlap += common.sum(dim=-1, dtype=torch.float64).clamp(max=1).tolist()
    columns.square += (common * kept).sum(dim=-1, dtype=torch.float64).tolist()
    squares = draft.odds * draft.odds
    columns.its_chance += draft.of(part.tokens).tolist()
    columns.usual += squares.sum(dim=-1, dtype=torch.float64).tolist()
    columns.usual_square += (squares * draft.odds).sum(dim=-1, dtype=torch.float64).tolist()


def _against_copies(columns: _Columns, own: Odds, proposed: Sequence[int], tokens: Tensor) -> None:
    """A draft that was certain of one token; without one nothing can be kept."""
    copies = torch.tensor(proposed, device=tokens.device)
    wanted = own.of(copies) * (copies >= 0)
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
