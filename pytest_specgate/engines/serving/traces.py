"""Answers → traces: counted, timed, and with what the server told of its speculation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from pytest_specgate.engines.serving.accounting import Counted, Uncounted, count
from pytest_specgate.engines.serving.client import Exchange
from pytest_specgate.engines.serving.counters import Seen
from pytest_specgate.engines.serving.dialects import Acceptance, Dialect
from pytest_specgate.engines.serving.failures import Failure, broken_off, cut_short
from pytest_specgate.engines.serving.sse import events
from pytest_specgate.engines.serving.stream import Answer, BadStream, quoted, read
from pytest_specgate.records import Arm, Counts, Request, Told, Trace
from pytest_specgate.units import many

WAITED = "the server was busy (429 or 503) and asked to wait before it answered: fewer ran side by side than asked for"
FULL = "the server's context window was full before max_tokens: lower max_tokens, or give the server a larger window"
_EOS_REASONS = frozenset({"stop", "eos", "eos_token", "end_turn"})


@dataclass(frozen=True, slots=True)
class Heard:
    """One request with its answer, counted, and its exchange: how often it waited, how late it was sent."""

    request: Request
    answer: Answer
    counted: Counted
    waits: int
    late_ns: int | None = None


def hear(request: Request, exchange: Exchange, tokens_of: Callable[[str], int] | None) -> list[Heard]:
    """Read and count the answers. Raises Failure for one that broke off, or that nobody can count."""
    try:
        answers = [read(exchange.submit_ns, events(exchange.reads), index) for index in range(request.n)]
    except BadStream as error:
        raise broken_off(error.what, error.code) from None
    for answer in answers:
        _refuse_beyond(request.n * request.max_tokens, answer)
    if (after := request.cancel_after) is not None:
        answers = [_until(answer, after) for answer in answers]
    return [
        _counted(request, answer, exchange, tokens_of) for answer in _each_with_its_usage(answers, request.max_tokens)
    ]


def _refuse_beyond(budget: int, answer: Answer) -> None:
    """A count beyond the budget is no count, unless the tokens are there one by one. Raises Failure."""
    totals = (answer.completion_tokens, *(delta.total for delta in answer.deltas))
    told = max((total for total in totals if total is not None), default=0)
    if told > budget and not answer.ids:
        what = f"counts {quoted(str(told))} tokens in an answer to a budget of {budget}, and shows no ids of them"
        raise Failure(what, "look whether it, or a proxy before it, keeps 'max_tokens' and counts right")


def _until(answer: Answer, chunks: int) -> Answer:
    """What reached a caller that left after so many chunks, whatever came in the same read behind them."""
    seen = accumulate(delta.real for delta in answer.deltas)
    kept = next((place for place, count in enumerate(seen, start=1) if count >= chunks), len(answer.deltas))
    if kept == len(answer.deltas):
        return answer
    return replace(answer, deltas=answer.deltas[:kept], finish="", completion_tokens=None, said={}, whole=False)


def _each_with_its_usage(answers: Sequence[Answer], budget: int) -> list[Answer]:
    """Of several answers each with what is told of it alone; a usage of all together is shared out among them."""
    if len(answers) == 1:
        return list(answers)
    together = answers[0].completion_tokens
    own = [[delta.total for delta in answer.deltas if delta.total is not None] for answer in answers]
    if all(own) or together is None:
        each = [totals[-1] if totals else None for totals in own]
        return [replace(answer, completion_tokens=tokens, said={}) for answer, tokens in zip(answers, each)]
    found = list[Answer]()
    for answer, share in zip(answers, _shares(answers, together, budget)):
        # What came with the end of one of them alone is the usage of all.
        deltas = tuple(delta._replace(total=None) for delta in answer.deltas)
        found.append(replace(answer, deltas=deltas, completion_tokens=share, said={}))
    return found


def _shares(answers: Sequence[Answer], together: int, budget: int) -> list[int]:
    """Tokens of each: its chunks if they add up, else the budget where that ended it, and the rest by the texts."""
    chunks = [sum(delta.real for delta in answer.deltas) for answer in answers]
    if sum(chunks) == together:
        return chunks
    full = [answer.finish == "length" for answer in answers]
    if budget * sum(full) > together:  # they cannot all have ended there
        full = [False] * len(answers)
    found, left = list[int](), together - budget * sum(full)
    letters = [0 if whole else len(answer.text) or 1 for whole, answer in zip(full, answers)]
    for place, (whole, own) in enumerate(zip(full, letters)):
        if not whole:
            others = letters[place + 1 :]
            share = round(left * own / (own + sum(others)))
            # No more than its budget, and no less than leaves the others theirs.
            share = max(min(share, budget), left - budget * sum(map(bool, others)))
            left -= share
        found.append(budget if whole else share)
    return found


def _counted(request: Request, answer: Answer, exchange: Exchange, tokens_of: Callable[[str], int] | None) -> Heard:
    left = request.cancel_after is not None and not answer.whole
    if not answer.whole and not left:
        raise cut_short(any(delta.real for delta in answer.deltas))
    if request.n > 1 and not answer.deltas:
        raise Failure(f"gives fewer answers than the {request.n} that were asked for", "look at what it does with 'n'")
    if left and not any(delta.total is not None or delta.ids for delta in answer.deltas):
        # Nothing told yet how many tokens there are, and a chunk has one at least.
        answer = replace(answer, completion_tokens=sum(delta.real for delta in answer.deltas))
    try:
        counted = count(answer, tokens_of)
    except Uncounted:
        raise Failure(
            "does not tell how many tokens it sent (no usage, no token ids)",
            "name a 'tokenizer' in the suite to have them estimated, or use a server that tells 'usage'",
        ) from None
    except BadStream as error:
        raise Failure(error.what, "look at the server's log, and check 'dialect' and the scenario's 'body'") from None
    if not counted.chunks or not counted.tokens:
        raise Failure("sent no token at all", "look at the server's log, and at the prompt")
    return Heard(request, answer, counted, exchange.waits, exchange.late_ns)


def traces(heard: Sequence[Heard], arm: Arm, dialect: Dialect, seen: Seen) -> list[Trace]:
    """One trace for each; the counters' totals stand in the first of those that ran together."""
    own = [dialect.acceptance(one.answer, one.counted) for one in heard]
    shared = seen.counts if arm is Arm.CANDIDATE and _counters_tell_more(own, seen.counts) else None
    found = []
    silent = arm is Arm.CANDIDATE and shared is None and not any(own) and seen.counts is None and not seen.note
    cached = _cached(heard, dialect, seen)
    for number, (one, acceptance) in enumerate(zip(heard, own)):
        told = replace(_told(one, seen, first=number == 0), cached=cached[number])
        if silent and not seen.foreign and dialect.metrics:
            note = f"acceptance is unmeasured, the server tells of no speculation: {dialect.hint}"
            told = replace(told, notes=(*told.notes, note))
        if shared is not None:
            told = replace(told, counts=shared if number == 0 else _none_of(shared), together=len(heard))
        elif arm is Arm.CANDIDATE and acceptance is not None:
            told = replace(told, counts=acceptance.counts)
        rounds = acceptance.rounds if shared is None and acceptance and arm is Arm.CANDIDATE else None
        trace = _trace(one, arm, told)
        found.append(trace if rounds is None else replace(trace, rounds=rounds, prefill_tokens=1))
    return found


def windowed(trace: Trace, window: int | None) -> Trace:
    """The same with the window that the server declares, where its text ended for length before its budget."""
    if window is None or trace.finish != "length" or trace.output_tokens >= trace.max_tokens:
        return trace
    found = replace(trace, told=replace(trace.told or Told(), window=window))
    return noted(found, FULL) if trace.prompt_tokens + trace.output_tokens == window else found


def noted(trace: Trace, note: str) -> Trace:
    """The same with one more warning."""
    told = trace.told or Told()
    return replace(trace, told=replace(told, notes=(*told.notes, note)))


def speculated(heard: Sequence[Heard], dialect: Dialect, seen: Seen) -> str:
    """How many draft tokens a server told of, in answers or counters; empty for none, as of an arm without speculation.

    Some software tells only how many of them were accepted.
    """
    own = [acceptance for one in heard if (acceptance := dialect.acceptance(one.answer, one.counted))]
    totals = [one.counts for one in own if one.counts] + ([seen.counts] if seen.counts else [])
    rounds = [one for acceptance in own for one in acceptance.rounds or ()]
    if count := sum(one.drafted for one in rounds) or sum(one.drafted or 0 for one in totals):
        return f"{many(count, 'token')} drafted"
    accepted = sum(one.accepted for one in totals)
    return f"{many(accepted, 'draft token')} accepted" if accepted else ""


def _counters_tell_more(own: Sequence[Acceptance | None], counted: Counts | None) -> bool:
    """Whether the counters know what the answers do not: each answer for itself is better where it is as complete."""
    if counted is None:
        return False
    if any(one is None for one in own):
        return True
    complete = all(one and (one.rounds is not None or (one.counts and one.counts.tested is not None)) for one in own)
    return counted.tested is not None and not complete


def _cached(heard: Sequence[Heard], dialect: Dialect, seen: Seen) -> Sequence[int | None]:
    """Prompt tokens from the prefix cache: each answer's own, else the counters' sum in the first."""
    own = [dialect.cached(one.answer) for one in heard]
    if None in own and seen.cached is not None:
        return [seen.cached, *(0,) * (len(heard) - 1)]
    return own


def _none_of(counts: Counts) -> Counts:
    """Zero of everything that is told with the first request."""
    rounds, drafts, drafted, tested = (
        None if value is None else 0 for value in (counts.rounds, counts.drafts, counts.drafted, counts.tested)
    )
    return Counts(rounds, drafts, drafted, tested, 0)


def _told(one: Heard, seen: Seen, *, first: bool) -> Told:
    """What was told beside acceptance; what counters tell of all that ran together stands in the first of them."""
    notes = (*one.counted.notes, *((WAITED,) if one.waits else ()), *((seen.note,) if seen.note else ()))
    foreign, preempted = (total if first or total is None else 0 for total in (seen.foreign, seen.preempted))
    tokens = None if one.counted.ids else one.counted.tokens
    late = None if one.late_ns is None else one.late_ns / 1e9
    return Told(tokens, foreign=foreign, notes=notes, preempted=preempted, late=late)


def _trace(one: Heard, arm: Arm, told: Told) -> Trace:
    return Trace(
        prompt=one.request.prompt,
        arm=arm,
        token_ids=one.counted.ids,
        text=one.answer.text,
        prompt_tokens=one.answer.prompt_tokens or 0,
        submit_ns=one.answer.submit_ns,
        chunks=one.counted.chunks,
        finish=_finish(one),
        usage_tokens=one.answer.completion_tokens,
        max_tokens=one.request.max_tokens,
        told=told,
        logprobs=one.answer.logs if one.request.logprobs and one.answer.logs else None,
    )


def _finish(one: Heard) -> str:
    """``eos``, ``stop`` or ``length``, as the records have it; servers write ``stop`` for two of them."""
    if one.request.cancel_after is not None and not one.answer.whole:
        return "cancelled"
    if one.answer.finish == "length":
        return "length"
    if one.answer.stop is not None or one.answer.finish == "stop_sequence":
        return "stop"
    if not one.answer.finish:
        return "length" if one.counted.tokens >= one.request.max_tokens else "eos"
    return "eos" if one.answer.finish in _EOS_REASONS and not one.request.stop else "stop"
