"""What greedy exactness is judged by: regrets of both arms' texts, wrong ends, and where the texts part.

Every distinct text of a prompt counts once: a greedy decoder that repeats itself tells nothing new in its second round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_specgate.errors import InvalidTrace
from pytest_specgate.logits import Choices, Divergence, Scores, TextRegrets
from pytest_specgate.records import Arm, Measurement, Trace
from pytest_specgate.samples.blocks import trace_of
from pytest_specgate.samples.output import asked_stops, stop_problems

#: A token that comes again after so many tokens that came before it, in the same text, is a repetition.
LOOP = 8

_Scored = Mapping[tuple[str, tuple[int, ...]], Scores]


def choices(measurement: Measurement) -> Choices | None:
    """None where no text was scored. Raises InvalidTrace where one of several was not."""
    exactness = measurement.exactness
    if exactness is None:
        return None
    scored = {(text.prompt, text.token_ids): text.scores for text in exactness.texts}
    outside = exactness.control.between is not None
    both = (Arm.CANDIDATE, Arm.REFERENCE)
    candidate, reference = (tuple(_texts(measurement, arm, scored, outside=outside)) for arm in both)
    return Choices(
        candidate=candidate,
        reference=reference,
        divergences=tuple(_divergences(measurement, scored)),
        restless=len(reference) - len({text.prompt for text in reference}),
        control=exactness.control,
        control_fresh=exactness.control_fresh,
        max_tv=exactness.max_tv,
    )


def _texts(measurement: Measurement, arm: Arm, scored: _Scored, *, outside: bool) -> Iterator[TextRegrets]:
    """Regrets of an arm's texts; where they were scored from ``outside``, with the tokens that are the arm's own."""
    distinct = {(p.prompt, trace_of(p, arm).token_ids): trace_of(p, arm) for p in reversed(measurement.pairs)}
    other = Arm.REFERENCE if arm is Arm.CANDIDATE else Arm.CANDIDATE
    for (prompt, ids), trace in reversed(distinct.items()):
        regrets, end = _scores(measurement, trace, scored).regrets, until_end(trace)
        theirs = [trace_of(p, other) for p in measurement.pairs if p.prompt == prompt]
        own = _own(ids[:end], {their.token_ids for their in theirs}) if outside else None
        bad_end = _bad_end(trace, asked_stops(measurement))
        if not bad_end and arm is Arm.CANDIDATE:
            bad_end = _beyond(trace, theirs)
        yield TextRegrets(prompt, regrets[:end], bad_end, own)


def _own(ids: tuple[int, ...], others: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Output tokens that tell of this text alone: what another text says alike, and what it repeats, left out."""
    common = max((_common(ids, theirs) for theirs in others), default=0)
    return tuple(at for at in _fresh(ids) if at >= common)


def _fresh(ids: tuple[int, ...]) -> Iterator[int]:
    """Tokens that repeat nothing: a text that goes round in circles meets the same near tie again and again."""
    seen: set[tuple[int, ...]] = set()
    for at in range(len(ids)):
        ending = ids[max(0, at + 1 - LOOP) : at + 1]
        if len(ending) < LOOP or ending not in seen:
            yield at
        seen.add(ending)


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _scores(measurement: Measurement, trace: Trace, scored: _Scored) -> Scores:
    found = scored.get((trace.prompt, trace.token_ids))
    if found is None or len(found.best) != trace.output_tokens:
        what = f"{measurement.case}: {trace.prompt}: the {trace.arm.value} arm's text was not scored whole"
        raise InvalidTrace(f"{what} — measure again")
    return found


def until_end(trace: Trace) -> int:
    """Tokens up to the end of text, itself included: beyond it the target has no choice to make."""
    return next((i + 1 for i, token in enumerate(trace.token_ids) if token in trace.eos_ids), trace.output_tokens)


def _bad_end(trace: Trace, stops: Sequence[str] | None) -> str:
    count = trace.output_tokens
    if until_end(trace) < count:
        return "goes on after the end-of-text token"
    if trace.finish == "length" and count < trace.max_tokens:
        return f"ends after {count} of {trace.max_tokens} tokens"
    # An engine that knows no end-of-text ids cannot be held to them.
    if trace.finish == "eos" and trace.eos_ids and trace.token_ids[-1] not in trace.eos_ids:
        return f"ends after {count} tokens without the end-of-text token that it claims"
    return next(stop_problems(trace, stops), "")


def _beyond(trace: Trace, theirs: Iterable[Trace]) -> str:
    """Where a text goes on after the stop string that ended the same text of the other arm: each token is the target's.

    A server cuts its stop strings off, and its texts tell nothing of this.
    """
    ids = trace.token_ids
    ended = [their.token_ids for their in theirs if their.finish == "stop" and their.told is None]
    past = max((len(ids) - len(text) for text in ended if ids[: len(text)] == text), default=0)
    return f"goes on for {past} tokens after the stop string that ended the reference's text" if past else ""


def _divergences(measurement: Measurement, scored: _Scored) -> Iterator[Divergence]:
    told: set[tuple[str, tuple[int, ...], tuple[int, ...]]] = set()
    for pair in measurement.pairs:
        one, other = pair.reference, pair.candidate
        key = (pair.prompt, one.token_ids, other.token_ids)
        if key in told or _same(one, other):
            continue
        told.add(key)
        here = _common(one.token_ids, other.token_ids)
        going = [(t, _scores(measurement, t, scored)) for t in (one, other) if here < t.output_tokens]
        (one_id, one_logit), (other_id, other_logit) = (
            (t.token_ids[here], _scores(measurement, t, scored).emitted[here])
            if here < t.output_tokens
            else (None, None)
            for t in (one, other)
        )
        regret: float | None = None
        if len(going) > 1:
            regret = max(scores.regrets[here] for _, scores in going)
        elif _unseen_end(one if one_id is None else other):
            regret = max(0.0, going[0][1].margins[here])
        yield Divergence(pair.prompt, here, one_id, other_id, one_logit, other_logit, regret)


def _same(one: Trace, other: Trace) -> bool:
    """Whether two answers are one: the same ids, or the same text up to the end that only one of them counts."""
    if one.token_ids == other.token_ids:
        return True
    served = one.told is not None and other.told is not None
    shorter, longer = sorted((one.token_ids, other.token_ids), key=len)
    begins = longer[: len(shorter)] == shorter
    return served and begins and one.finish == other.finish and one.finish != "length" and one.text == other.text


def _unseen_end(trace: Trace) -> bool:
    """Whether a text may have ended by an end-of-text token that its ids do not show."""
    if trace.told is not None:
        return trace.finish in {"eos", "stop"}
    return trace.finish == "eos" and not trace.eos_ids
