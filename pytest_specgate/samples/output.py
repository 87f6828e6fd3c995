"""What the two arms said: identical ids, lengths, bookkeeping, and closeness of the texts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from pytest_specgate.records import Measurement, Pair, Trace
from pytest_specgate.samples import text
from pytest_specgate.samples.semantic import Unscored, similarity

#: Characters of a long token.
_LONG_TOKEN = 32


def series(
    pairs: Sequence[Pair], wanted: frozenset[str], *, greedy: bool, stops: Sequence[str] | None = None
) -> dict[str, tuple[float, ...]]:
    """One value per round. Text scores of a greedy run that repeats itself are those of its first round.

    ``stops`` are the stop strings that were asked for, None where nobody knows.
    """
    found = {
        "exact_match": tuple(float(same_output(p.reference, p.candidate)) for p in pairs),
        "length_ratio": tuple(p.candidate.output_tokens / p.reference.output_tokens for p in pairs),
        "token_accounting": tuple(float(not accounting_problems(p.candidate, stops)) for p in pairs),
    }
    repeats = greedy and len({(p.candidate.text, p.reference.text) for p in pairs}) == 1
    for name, score in text.SCORES.items():
        if name in wanted:
            scored = pairs[:1] if repeats else pairs
            found[name] = tuple(score(p.candidate.text, p.reference.text) for p in scored)
    return found


def similarities(pairs: Sequence[Pair], model: str, *, greedy: bool) -> tuple[dict[str, tuple[float, ...]], str]:
    """By prompt, one similarity per round, or why there is none: ``what — what to do``."""
    found: dict[str, tuple[float, ...]] = {}
    try:
        for prompt in dict.fromkeys(pair.prompt for pair in pairs):
            own = [pair for pair in pairs if pair.prompt == prompt]
            repeats = greedy and len({(p.candidate.text, p.reference.text) for p in own}) == 1
            scored = own[:1] if repeats else own
            found[prompt] = tuple(similarity(p.candidate.text, p.reference.text, model) for p in scored)
    except Unscored as error:
        return {}, str(error)
    return found, ""


def same_output(one: Trace, other: Trace) -> bool:
    """Whether the token ids are identical, or the texts where a server tells no ids."""
    if one.token_ids and other.token_ids:
        return one.token_ids == other.token_ids
    return one.text == other.text


def accounting_problems(trace: Trace, stops: Sequence[str] | None = None) -> tuple[str, ...]:
    """What does not add up between the ids returned, the usage reported, the budget and the stop that was claimed.

    ``stops`` are the stop strings that were asked for; None where nobody knows, and no stop can be wrong then.
    Chunks that do not add up to the ids make a trace invalid before this is asked.
    """
    return (*_budget_problems(trace), *_end_problems(trace), *stop_problems(trace, stops))


def accounting_notes(pairs: Sequence[Pair], stops: Sequence[str]) -> tuple[str, ...]:
    """What does not add up in the candidate's answers, in a sentence: the first such answer, and how many are."""
    wrong = [(p.prompt, found) for p in pairs if (found := accounting_problems(p.candidate, stops))]
    if not wrong:
        return ()
    prompt, found = wrong[0]
    return (f"token accounting: {prompt}: {'; '.join(found)} ({len(wrong)} of {len(pairs)} answers do not add up)",)


def asked_stops(measurement: Measurement) -> tuple[str, ...] | None:
    """The stop strings that a case asks for, as its workload lists them; None where it does not."""
    said = measurement.workload.get("stop")
    return None if said is None else tuple(ast.literal_eval(said))


def stop_problems(trace: Trace, stops: Sequence[str] | None) -> Iterator[str]:
    """A stop that nothing explains, or a stop string that the text goes on after.

    A server cuts its stop string off, may have stops of its own, and is believed.
    """
    if stops is None or trace.told is not None or not trace.token_ids:
        return
    count, standing = len(trace.token_ids), next((string for string in stops if string in trace.text), "")
    # An engine may put another name to an end that a stop string and something else bring about together.
    if standing and trace.finish in {"eos", "length"} and _beyond_one_token(trace.text.partition(standing)[2]):
        yield f"goes on after the stop string {standing!r}"
    if standing or trace.finish != "stop" or trace.token_ids[-1] in trace.eos_ids:
        return
    yield (
        f"stops after {count} tokens, and none of the stop strings stands there"
        if stops
        else f"stops after {count} tokens, and no stop was asked for"
    )


def _beyond_one_token(text: str) -> bool:
    """Whether text is more than the rest of the token that completed what stands before it; what ends it may be one."""
    rest = text.strip()
    return len(rest) > _LONG_TOKEN or any(map(str.isspace, rest))


def _budget_problems(trace: Trace) -> Iterator[str]:
    count = trace.output_tokens
    if trace.usage_tokens is not None and trace.usage_tokens != count:
        yield f"usage says {trace.usage_tokens} tokens, {count} were returned"
    if trace.max_tokens and count > trace.max_tokens:
        yield f"{count} tokens for a budget of {trace.max_tokens}"
    if trace.max_tokens and trace.finish == "length" and count < trace.max_tokens:
        yield from _early(trace, count)


def _early(trace: Trace, count: int) -> Iterator[str]:
    """An end for length before the budget, unless prompt and text fill the window that the server declares."""
    said = f"finished for length after {count} of {trace.max_tokens} tokens"
    window = trace.told.window if trace.told is not None else None
    if window is None:
        yield said
    elif (filled := trace.prompt_tokens + count) != window:
        yield f"{said}, {filled} tokens into the server's window of {window}"


def _end_problems(trace: Trace) -> Iterator[str]:
    ends = frozenset(trace.eos_ids)
    if not trace.token_ids:
        return
    if any(token in ends for token in trace.token_ids[:-1]):
        yield "text goes on after the end-of-text token"
    # An engine that knows no end-of-text ids cannot be held to them.
    if trace.finish == "eos" and ends and trace.token_ids[-1] not in ends:
        yield "finished for end of text without an end-of-text token"
    if trace.finish == "length" and trace.token_ids[-1] in ends:
        yield "finished for length though the last token ends the text"
