"""The sweep's measuring pass: every probe by both arms, and what the target says of the answers that it decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pytest_specgate.engines.base import ChanceScorer, Engine, FromOutside, Scorer, Tokenized
from pytest_specgate.errors import SpecgateError
from pytest_specgate.logits import Control
from pytest_specgate.measure.fitting import log_chances
from pytest_specgate.measure.outside import known, outsider, scorable
from pytest_specgate.measure.probes import Ground, Said, first, not_asked, then
from pytest_specgate.measure.probes.ground import COMPANY, TEXT
from pytest_specgate.measure.probing import Asking, sent
from pytest_specgate.measure.run import unmeasured
from pytest_specgate.measure.scoring import Asked, control_for, scores_of
from pytest_specgate.records import (
    Arm,
    Bounds,
    Capability,
    Measurement,
    Pair,
    Probe,
    Reply,
    Request,
    Sweep,
)
from pytest_specgate.suite.cases import Case

#: The longest prompt of a sweep, in tokens: reading more takes a CPU too long.
LONGEST, LONGEST_ON_GPU = 1024, 8192
#: With fewer different ids in a text, prompts would all look alike.
LEAST_WORDS = 24
#: At this temperature a draw turns ties alone, and the noise covers those.
COLD = 1e-5


def sweep_case(engine: Engine, case: Case, progress: Callable[[str], None]) -> Measurement:
    """All probes by both arms. The engine must be started. Raises EngineError where it cannot be asked, OutOfMemory."""
    started = time.monotonic()
    ground = _ground(engine)
    asking = Asking(engine, case.id, progress)
    asking.ask(_allowed(engine, first(ground), asking))
    if ground.served and not asking.probes:  # a protocol without a word for it
        ground = replace(ground, past_end=False)
        asking.ask(_allowed(engine, first(ground), asking))
    if not asking.gone:
        asking.ask(_allowed(engine, then(ground, _said(engine, ground, asking)), asking))
    blank = unmeasured(engine, case)
    measured = replace(blank, pairs=tuple(_pairs(asking)))
    replies, control = _judgeable(engine, case, asking, measured)
    left_out = (*not_asked(ground), *dict.fromkeys(asking.left_out))
    seconds = time.monotonic() - started
    sweep = Sweep(tuple(asking.probes), tuple(replies), control, left_out, seconds)
    # No pairs: requests at the edge say nothing of speed or acceptance, and nobody shall average over them.
    return replace(blank, sweep=sweep, seconds=seconds)


def _judgeable(engine: Engine, case: Case, asking: Asking, measured: Measurement) -> tuple[list[Reply], Control | None]:
    """The replies with what the target says of them, and its control. Raises EngineError, OutOfMemory."""
    if Capability.LOGITS not in engine.capabilities or not isinstance(engine, Scorer) or not measured.pairs:
        return asking.replies, None
    asking.progress(f"{case.id}: scoring the answers")
    asking.replies = _identified(engine, asking)
    try:
        replies = _with_logs(engine, case.engine, asking, _scored(engine, case.engine, asking))
        return replies, control_for(engine, case, _plain(asking), measured, asking.progress)
    except SpecgateError as error:
        if outsider(engine) is None:
            raise
        # Another engine's trouble, or a page that a server has not after all: requests are judged by the answers alone.
        asking.left_out.append(f"what the target thinks of the answers: {str(error).partition(' — ')[0]}")
        return asking.replies, None


def decided(request: Request) -> bool:
    """Whether only the most likely token can be said: greedy or as good as, or drawn from what filters leave of one."""
    sampling = request.sampling
    return sampling.temperature <= COLD or sampling.top_k == 1 or sampling.min_p == 1 or sampling.top_p < 1e-3


def _ground(engine: Engine) -> Ground:
    bounds, words = None, tuple[int, ...]()
    served = isinstance(engine, FromOutside)
    if Capability.TOKENS in engine.capabilities and isinstance(engine, Tokenized):
        try:
            bounds = engine.bounds()
            words = _words(engine, bounds)
        except SpecgateError:  # a server whose tokenizer cannot be asked after all
            if not served:
                raise
            bounds = None
    facts = engine.subject()
    said = facts.get("k", "")
    k = bounds.draft_tokens if bounds else int(said) if said.isdigit() else 4
    longest = LONGEST_ON_GPU if facts.get("device", "").startswith("cuda") else LONGEST
    return Ground(engine.capabilities, k or 4, longest, bounds, words, served)


def _words(engine: Tokenized, bounds: Bounds) -> tuple[int, ...]:
    """Ids of ordinary text; of a vocabulary that has no words for it, its own words in turn."""
    words = engine.encode(TEXT)
    if len(set(words)) >= LEAST_WORDS:
        return words
    own = [i for i in range(bounds.vocabulary) if i not in bounds.eos and engine.decode((i,)).strip()]
    return tuple(own[7 * place % len(own)] for place in range(len(own))) if own else words


def _allowed(engine: Engine, probes: Sequence[Probe], asking: Asking) -> list[Probe]:
    """Without what the engine refuses to run at all: sampling, or several requests at once."""
    refused: dict[tuple[int, bool], str] = {}
    for size, greedy in ((1, True), (1, False), (COMPANY, False)):
        if reason := _refusal(engine, size, greedy=greedy):
            refused[size, greedy] = reason
    companies = [(name, list(group)) for name, group in groupby(probes, key=lambda probe: probe.company)]
    # Several answers to one request are asked for in one call, and need no neighbours.
    side_by_side = {name for name, group in companies if name and len(list(sent(group))) > 1}
    kept = []
    for probe in probes:
        needs = (COMPANY, False) if probe.company in side_by_side else (1, probe.request.sampling.greedy)
        if needs in refused:
            asking.left_out.append(refused[needs])
        else:
            kept.append(probe)
    return kept


def _refusal(engine: Engine, size: int, *, greedy: bool) -> str:
    try:
        engine.check(size, greedy)
    except SpecgateError as error:
        return str(error).partition(" — ")[0]
    return ""


def _said(engine: Engine, ground: Ground, asking: Asking) -> Said:
    reference, candidate = (asking.traces(arm) for arm in (Arm.REFERENCE, Arm.CANDIDATE))
    if isinstance(engine, Tokenized) and ground.bounds is not None:
        return Said(reference, candidate, engine.decode, engine.encode)
    return Said(reference, candidate)


def _pairs(asking: Asking) -> Iterator[Pair]:
    """Both arms' answers to the same greedy request, for the width of the control."""
    reference, candidate = (asking.traces(arm) for arm in (Arm.REFERENCE, Arm.CANDIDATE))
    for probe in asking.probes:
        if probe.request.sampling.greedy and not probe.company and probe.name in reference and probe.name in candidate:
            one, other = (replace(arm[probe.name], prompt=probe.name) for arm in (reference, candidate))
            yield Pair(probe.name, probe.name, 0, "AB", one, other)


def _plain(asking: Asking) -> list[Asked]:
    """Greedy answers to requests without parameters: what the target's noise is measured on."""
    traces, areas = asking.traces(Arm.REFERENCE), {"plain", "length"}
    known_of = [(p.request, traces[p.name].token_ids) for p in asking.probes if p.area in areas and p.name in traces]
    return [asked for asked in known_of if asked[1]]


def _identified(engine: Engine, asking: Asking) -> list[Reply]:
    """Replies with token ids where a server told texts alone, as far as they can be known."""
    requests = {probe.name: probe.request for probe in asking.probes}
    return [
        reply if reply.trace is None else replace(reply, trace=known(engine, requests[reply.probe], reply.trace))
        for reply in asking.replies
    ]


def _scored(engine: Engine, name: str, asking: Asking) -> list[Reply]:
    """Replies with the target's regrets, where the request leaves one choice alone."""
    by_name = {probe.name: probe for probe in asking.probes}
    chosen = [
        number
        for number, reply in enumerate(asking.replies)
        if _ids(reply) and decided(by_name[reply.probe].request) and scorable(engine, by_name[reply.probe].request)
    ]
    asked = {number: (by_name[asking.replies[number].probe].request, _ids(asking.replies[number])) for number in chosen}
    distinct = list(dict.fromkeys(asked.values()))
    assert isinstance(engine, Scorer)  # noqa: S101 - asked of those alone
    regrets = dict(zip(distinct, (scores.regrets for scores in scores_of(engine, name, distinct))))
    return [
        replace(reply, regrets=regrets[asked[number]]) if number in asked else reply
        for number, reply in enumerate(asking.replies)
    ]


def _with_logs(engine: Engine, name: str, asking: Asking, replies: Sequence[Reply]) -> list[Reply]:
    """Replies with the target's log-probabilities, where the engine was asked for them and can be checked.

    A scorer outside of the engine may know the best tokens alone, and a rare one for no more than the rest of them.
    """
    if not isinstance(engine, ChanceScorer) or outsider(engine) is not None:
        return list(replies)
    requests = {probe.name: _as_drawn(probe.request) for probe in asking.probes if probe.request.logprobs}
    chosen = [number for number, reply in enumerate(replies) if reply.probe in requests and _ids(reply)]
    asked = [(requests[replies[number].probe], _ids(replies[number])) for number in chosen]
    logs = dict(zip(chosen, log_chances(engine, name, asked)))
    return [replace(reply, logs=logs.get(number)) for number, reply in enumerate(replies)]


def _as_drawn(request: Request) -> Request:
    """The request at temperature 1 where it is greedy: what its log-probabilities are those of."""
    sampling = request.sampling
    return replace(request, sampling=replace(sampling, temperature=1.0)) if sampling.greedy else request


def _ids(reply: Reply) -> tuple[int, ...]:
    return reply.trace.token_ids if reply.trace is not None else ()
