"""What is scored from outside: the texts of servers, by another engine or by what a server tells of its prompts.

Forwards of a chosen width cannot be run there, so the control of greedy exactness is the reference arm itself: its
tokens were chosen without speculation, and where the scorer would have chosen others, the two arithmetics differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.engines.base import Engine, FromOutside, Tokenized
from pytest_specgate.errors import SpecgateError
from pytest_specgate.logits import Between, Control, Scores
from pytest_specgate.measure.dialogue import in_round
from pytest_specgate.measure.texts import requests_of
from pytest_specgate.records import Arm, Capability, Measurement, Request, Trace
from pytest_specgate.samples.blocks import trace_of
from pytest_specgate.stats.choosing import upper_scale
from pytest_specgate.suite.cases import Case

#: Margins up to here, in logits, tell how many tokens there are to each logit of margin.
SMALL = 2.0


def outsider(engine: Engine) -> FromOutside | None:
    """The engine, if it scores and its scorer is not the decoder itself."""
    scores = Capability.LOGITS in engine.capabilities
    return engine if scores and isinstance(engine, FromOutside) else None


def identified(engine: Engine, case: Case, measurement: Measurement) -> Measurement:
    """The measurement with the token ids of all texts. Raises EngineError where what was emitted cannot be known."""
    scorer = outsider(engine)
    if scorer is None:
        return measurement
    asked = requests_of(case, measurement)
    # What is drawn comes again by the seed of its own round.
    requests = [_of_round(asked[pair.prompt], pair.round) for pair in measurement.pairs]
    reference, candidate = (
        scorer.identify(requests, [trace_of(pair, arm) for pair in measurement.pairs])
        for arm in (Arm.REFERENCE, Arm.CANDIDATE)
    )
    both = zip(measurement.pairs, reference, candidate)
    return replace(measurement, pairs=tuple(replace(p, reference=one, candidate=other) for p, one, other in both))


def _of_round(request: Request, number: int) -> Request:
    return replace(request, sampling=in_round(request.sampling, number))


def known(engine: Engine, request: Request, trace: Trace) -> Trace:
    """The trace with its token ids, or as it was where they cannot be known."""
    scorer = outsider(engine)
    if scorer is None or trace.token_ids:
        return trace
    try:
        return scorer.identify([request], [trace])[0]
    except SpecgateError:
        return trace


def scorable(engine: Engine, request: Request) -> bool:
    """Whether scores of an answer are those by which this request had it chosen."""
    scorer, sampling = outsider(engine), request.sampling
    if scorer is None or scorer.shapes:
        return True
    if request.token_ids is not None and isinstance(engine, Tokenized):
        window = engine.bounds().window  # a server scores no text that leaves it no room for a token
        if window is not None and len(request.token_ids) + request.max_tokens >= window:
            return False
    shaped = (sampling.frequency_penalty, sampling.presence_penalty, sampling.logit_bias, sampling.bad_words)
    return not any(shaped) and sampling.min_tokens == 0 and sampling.repetition_penalty in (None, 1.0)


def control_from(reference: Sequence[Scores], width: int) -> Control:
    """The control that the scores of the reference arm's texts (each once) are."""
    margins = [margin for scores in reference for margin in scores.margins]
    gaps = [best - second for scores in reference for best, second in zip(scores.best, scores.runner_up)]
    regrets = [regret for scores in reference for regret in scores.regrets if regret > 0]
    scale = upper_scale([margin for margin in margins if margin > 0], regrets)
    small = sum(gap < SMALL for gap in gaps) / (SMALL * max(len(gaps), 1))
    law = Between(scale, small, max(regrets, default=0.0))
    return Control(
        tokens=len(gaps),
        width=width,
        wide_change=0.0,
        scoring_change=0.0,
        self_change=0.0,
        wide_ties=0,
        agree=False,
        median_best=0.0,
        seconds=0.0,
        between=law,
    )
