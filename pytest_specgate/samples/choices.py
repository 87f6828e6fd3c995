"""What greedy exactness is judged by: regrets of both arms' texts, wrong ends, and where the texts part.

Every distinct text of a prompt counts once: a greedy decoder that repeats itself tells nothing new in its second round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_specgate.errors import InvalidTrace
from pytest_specgate.logits import Choices, Divergence, Scores, TextRegrets
from pytest_specgate.records import Arm, Measurement, Trace
from pytest_specgate.samples.blocks import trace_of

_Scored = Mapping[tuple[str, tuple[int, ...]], Scores]


def choices(measurement: Measurement) -> Choices | None:
    """None where no text was scored. Raises InvalidTrace where one of several was not."""
    exactness = measurement.exactness
    if exactness is None:
        return None
    scored = {(text.prompt, text.token_ids): text.scores for text in exactness.texts}
    candidate, reference = (tuple(_texts(measurement, arm, scored)) for arm in (Arm.CANDIDATE, Arm.REFERENCE))
    return Choices(
        candidate=candidate,
        reference=reference,
        divergences=tuple(_divergences(measurement, scored)),
        restless=len(reference) - len({text.prompt for text in reference}),
        control=exactness.control,
        control_fresh=exactness.control_fresh,
        max_tv=exactness.max_tv,
    )


def _texts(measurement: Measurement, arm: Arm, scored: _Scored) -> Iterator[TextRegrets]:
    distinct = {(p.prompt, trace_of(p, arm).token_ids): trace_of(p, arm) for p in reversed(measurement.pairs)}
    for (prompt, _), trace in reversed(distinct.items()):
        regrets = _scores(measurement, trace, scored).regrets
        yield TextRegrets(prompt, regrets[: until_end(trace)], _bad_end(trace))


def _scores(measurement: Measurement, trace: Trace, scored: _Scored) -> Scores:
    found = scored.get((trace.prompt, trace.token_ids))
    if found is None or len(found.best) != trace.output_tokens:
        what = f"{measurement.case}: {trace.prompt}: the {trace.arm.value} arm's text was not scored whole"
        raise InvalidTrace(f"{what} — measure again")
    return found


def until_end(trace: Trace) -> int:
    """Tokens up to the end of text, itself included: beyond it the target has no choice to make."""
    return next((i + 1 for i, token in enumerate(trace.token_ids) if token in trace.eos_ids), trace.output_tokens)


def _bad_end(trace: Trace) -> str:
    if until_end(trace) < trace.output_tokens:
        return "goes on after the end-of-text token"
    if trace.finish == "length" and trace.output_tokens < trace.max_tokens:
        return f"ends after {trace.output_tokens} of {trace.max_tokens} tokens"
    return ""


def _divergences(measurement: Measurement, scored: _Scored) -> Iterator[Divergence]:
    told: set[tuple[str, tuple[int, ...], tuple[int, ...]]] = set()
    for pair in measurement.pairs:
        one, other = pair.reference, pair.candidate
        key = (pair.prompt, one.token_ids, other.token_ids)
        if one.token_ids == other.token_ids or key in told:
            continue
        told.add(key)
        here = next(
            (i for i, (a, b) in enumerate(zip(one.token_ids, other.token_ids)) if a != b),
            min(one.output_tokens, other.output_tokens),
        )
        (one_id, one_logit), (other_id, other_logit) = (
            (t.token_ids[here], _scores(measurement, t, scored).emitted[here])
            if here < t.output_tokens
            else (None, None)
            for t in (one, other)
        )
        yield Divergence(pair.prompt, here, one_id, other_id, one_logit, other_logit)
