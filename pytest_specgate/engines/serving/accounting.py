"""How many tokens each chunk of an answer carried, and how sure that is.

Under speculation one chunk holds several tokens, so chunks are never taken for tokens. In order of trust: token ids;
the usage that grows from event to event; as many real chunks as tokens, which leaves one for each; else the usage at
the end, shared out by the length of the texts, which is an *estimate* and is said to be one. Totals stay exact in all
of these. Without any usage a tokenizer named by the suite counts, and its count is an estimate too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.engines.serving.stream import Answer, BadStream, Delta
from pytest_specgate.records import Chunk

#: Deltas that arrive within this time of each other are one delivery: no model decodes that fast, and some servers send
#: the tokens of one round one by one.
TOGETHER_NS = 200_000
#: A tokenizer cuts a text anew, and not always as it was generated: below this share the two counts agree.
LARGEST_DISAGREEMENT = 0.02
#: Tokens without a text of their own that an answer may have: what ends it, and opens and closes its parts.
SPECIAL = 8

ESTIMATED_CHUNKS = "estimated: the server does not tell how many tokens each chunk holds (itl and tpot are approximate)"
ESTIMATED_TOTAL = "estimated: the server tells no usage, so the suite's tokenizer counted the output"


class Uncounted(Exception):
    """Nothing tells how many tokens there are."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Chunks that add up to ``tokens``; ``notes`` say what of it is estimated, or contradicts itself."""

    chunks: tuple[Chunk, ...]
    tokens: int
    ids: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def count(answer: Answer, tokens_of: Callable[[str], int] | None = None) -> Counted:
    """Count an answer; ``tokens_of`` is the suite's tokenizer.

    Raises Uncounted where nothing tells, and BadStream where tokens are told of that came nowhere.
    """
    growth, total, notes = _growth(answer, tokens_of)
    if total and not answer.deltas:
        raise BadStream(f"tells a usage of {total} tokens and no choice that has them")
    notes += (*_disagreement(answer, total, tokens_of), *_unlikely(answer, total))
    return Counted(tuple(_deliveries(answer.deltas, growth, total)), total, answer.ids, notes)


def _growth(answer: Answer, tokens_of: Callable[[str], int] | None) -> tuple[list[int], int, tuple[str, ...]]:
    """Tokens of each delta, of all together, and what is estimated."""
    deltas = answer.deltas
    if answer.ids:
        growth = [len(delta.ids) for delta in deltas]
        return growth, sum(growth), ()
    real = [int(delta.real) for delta in deltas]
    # None at all beside a text is a gap filled in.
    usage = None if any(real) and not answer.completion_tokens else answer.completion_tokens
    if _keeps_telling(answer):
        growth = list(_differences(deltas))
        return growth, max(sum(growth), usage or 0), ()
    if usage is not None and sum(real) == usage:
        return real, usage, ()
    if usage is not None and sum(real) == usage - 1 and answer.finish == "stop" and not deltas[-1].real:
        return [*real[:-1], 1], usage, ()  # the token that ends the text has none, and comes with the finish reason
    if usage is not None:
        return _shared_out(deltas, usage), usage, (ESTIMATED_CHUNKS,)
    if tokens_of is None:
        raise Uncounted
    told = tokens_of(answer.text)
    return _shared_out(deltas, told), told, (ESTIMATED_TOTAL,)


def _keeps_telling(answer: Answer) -> bool:
    """Whether usage comes with every real delta, never shrinks, and grows to most of what the end tells.

    Some gateways fill in a usage of 0 until then.
    """
    totals = [delta.total for delta in answer.deltas if delta.real or delta.total is not None]
    known = [total for total in totals if total is not None]
    if not known or len(known) < len(totals) or known != sorted(known):
        return False
    return known[-1] > 0 and 2 * known[-1] >= (answer.completion_tokens or 0)


def _differences(deltas: Sequence[Delta]) -> Iterator[int]:
    before = 0
    for delta in deltas:
        now = before if delta.total is None else delta.total
        yield now - before
        before = now


def _shared_out(deltas: Sequence[Delta], total: int) -> list[int]:
    """One token for each real delta as far as they go, the rest by the length of the texts."""
    lengths = [len(delta.text) if delta.real else 0 for delta in deltas]
    real = sum(1 for length in lengths if length)
    if not real:
        return [0] * len(deltas)
    spare, all_characters = max(total - real, 0), sum(lengths)
    growth, given, seen, tokens = [], 0, 0, 0
    for length in lengths:
        seen += length
        due = (2 * spare * seen + all_characters) // (2 * all_characters) if length else given
        own = int(bool(length)) if tokens < total else 0
        growth.append(own + due - given)
        tokens, given = tokens + growth[-1], due
    return growth


def _deliveries(deltas: Sequence[Delta], growth: Sequence[int], total: int) -> Iterator[Chunk]:
    """Chunks from the first real delta on: what came before it without a text is delivered with it.

    Tokens without a text count when they come, for they were decoded then; those that only the final usage tells belong
    to the last chunk.
    """
    chunks: list[Chunk] = []
    early = 0
    for delta, tokens in zip(deltas, growth):
        if not chunks and not delta.real:
            early += tokens
        elif chunks and delta.t_ns - chunks[-1].t_ns < TOGETHER_NS:
            chunks[-1] = Chunk(chunks[-1].t_ns, chunks[-1].tokens + tokens)
        elif tokens or delta.real:
            chunks.append(Chunk(delta.t_ns, tokens + early))
            early = 0
    if not chunks and total:  # all of it was special tokens, without a text
        chunks.append(Chunk(deltas[-1].t_ns, early))
    if left := total - sum(chunk.tokens for chunk in chunks):
        chunks[-1] = Chunk(chunks[-1].t_ns, chunks[-1].tokens + left)
    yield from chunks


def _unlikely(answer: Answer, total: int) -> Iterator[str]:
    """Where a usage counts fewer tokens than there are chunks, or more than a text has room for: its bytes."""
    if answer.ids or answer.completion_tokens is None:
        return
    if total < (real := sum(delta.real for delta in answer.deltas)):
        yield f"the server counts {total} tokens in {real} chunks with a text, and none of these holds less than one"
    if _keeps_telling(answer):
        return
    room = len(answer.text.encode()) + SPECIAL
    if total > room:
        yield f"the server counts {total} tokens where at most {room} can be in what it sent: the rest was never seen"


def _disagreement(answer: Answer, total: int, tokens_of: Callable[[str], int] | None) -> Iterator[str]:
    """Where the suite's tokenizer counts otherwise than the server, beyond what cutting anew explains."""
    if tokens_of is None or answer.completion_tokens is None:
        return
    told = tokens_of(answer.text)
    if abs(told - total) > max(2, LARGEST_DISAGREEMENT * total):
        yield f"the server counts {total} tokens, the suite's tokenizer {told} in the same text"
