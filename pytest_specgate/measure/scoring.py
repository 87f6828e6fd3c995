"""The scoring pass of a greedy case: what the target says of both arms' texts, and how far its own arithmetic moves.

The pass runs after the timed rounds, and its time is told apart. Its control (see :class:`~pytest_specgate.logits.
Control`) depends on the machine and the target alone, so it is measured once and kept in the user's cache under
everything that decides how the target computes. A cache that cannot be read or written costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from pytest_specgate import jsontext
from pytest_specgate.codec import CodecError, decode, encode
from pytest_specgate.engines.base import Engine, Scorer
from pytest_specgate.engines.content import cache_folder
from pytest_specgate.errors import EngineError, SpecgateError, StoreError
from pytest_specgate.files import write_atomically
from pytest_specgate.logits import Control, Exactness, ScoredText, Scores
from pytest_specgate.measure.margins import change, rescored
from pytest_specgate.measure.outside import control_from, identified, outsider
from pytest_specgate.measure.texts import arm_seconds, declared, requests_of
from pytest_specgate.metrics import Family
from pytest_specgate.records import Arm, Capability, Measurement, Request, ScoringCost, Trace
from pytest_specgate.suite.cases import Case

#: Raise when a control would come out differently.
CONTROL_VERSION = 4
#: Tokens of a control. In 16 bits a few tokens in a hundred nearly tie, so the noise must be known well; in 32 bits a
#: tie as narrow as the noise comes once in some hundred thousand tokens.
CONTROL_TOKENS: Mapping[str, int] = {"bfloat16": 2048, "float16": 2048}
FEWER_CONTROL_TOKENS = 256
#: Tokens whose one-token forwards are run again: a machine that repeats itself does so from the start.
REPEATED_TOKENS = 64
#: What decides how a target computes, beside its weights, the device and the dtype.
_FACTS = ("engine", "torch", "transformers", "cuda", "threads", "attention", "quantization", "forward")


#: A request and the ids of an answer to it.
Asked = tuple[Request, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts with the requests that they answer."""

    requests: list[Request]
    ids: list[tuple[int, ...]]

    def first(self, tokens: int) -> _Texts:
        """Whole texts from the beginning, the last one cut, with so many tokens in all."""
        kept = _Texts([], [])
        for request, ids in zip(self.requests, self.ids):
            if tokens <= 0:
                break
            kept.requests.append(request)
            kept.ids.append(ids[:tokens])
            tokens -= len(ids)
        return kept

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return sum(map(len, self.ids))


@dataclass(frozen=True, slots=True)
class _Target:
    """An engine that scores, under its name in the suite; what it returns is checked."""

    name: str
    engine: Engine
    scorer: Scorer

    def scores(self, texts: _Texts, width: int | None) -> list[Scores]:
        """Scores of all texts, ``width`` tokens a forward. Raises EngineError for what are no scores of these."""
        return _checked(self.name, self.scorer, texts, width)


def _checked(name: str, scorer: Scorer, texts: _Texts, width: int | None) -> list[Scores]:
    found = scorer.score(texts.requests, texts.ids, width)
    wrong = "" if len(found) == len(texts.ids) else f"{len(found)} texts scored of {len(texts.ids)}"
    for request, ids, scores in zip(texts.requests, texts.ids, found):
        wrong = wrong or (f"{request.prompt}: {said}" if (said := _misfit(len(ids), scores)) else "")
    if wrong:
        raise EngineError(name, wrong, "look at the target's weights and dtype, or at the engine's adapter")
    return found


def _misfit(tokens: int, scores: Scores) -> str:
    """What is wrong with the scores of so many tokens; empty if nothing."""
    columns = (scores.best, scores.best_ids, scores.runner_up, scores.emitted)
    if {len(column) for column in columns} != {tokens}:
        return f"{min(map(len, columns))} of {tokens} tokens scored"
    for i, (best, _, runner_up, emitted) in enumerate(zip(*columns)):
        if not all(map(math.isfinite, (best, runner_up, emitted))):
            return f"the target's logits at output token {i + 1} are not finite numbers"
        if emitted > best or runner_up > best:
            return f"a logit at output token {i + 1} lies above the highest one"
    return ""


def with_scores(
    engine: Engine,
    case: Case,
    measurement: Measurement,
    progress: Callable[[str], None],
    control_tokens: int | None = None,
) -> tuple[Measurement, SpecgateError | None]:
    """The measurement with scores, if a gate of the case asks for them; else, or where they failed, as it was.

    ``control_tokens`` is how many the suite has the control be of.
    """
    if not any(gate.spec.info.family is Family.EXACTNESS for gate in case.gates):
        return measurement, None
    try:
        if measurement.greedy:
            measurement = identified(engine, case, measurement)
        found = score_case(engine, case, measurement, progress, control_tokens)
    except SpecgateError as error:
        return measurement, error
    exactness, scoring = found or (None, None)
    return replace(measurement, exactness=exactness, scoring=scoring or measurement.scoring), None


def score_case(
    engine: Engine,
    case: Case,
    measurement: Measurement,
    progress: Callable[[str], None],
    control_tokens: int | None = None,
) -> tuple[Exactness, ScoringCost] | None:
    """Scores of every distinct text of a measured case; None where the engine cannot score or the case samples.

    Raises EngineError, OutOfMemory from the engine.
    """
    if Capability.LOGITS not in engine.capabilities or not isinstance(engine, Scorer) or not measurement.greedy:
        return None
    asked = requests_of(case, measurement)
    texts = _distinct(asked, [t for pair in measurement.pairs for t in (pair.reference, pair.candidate)])
    progress(f"{case.id}: scoring {len(texts.ids)} texts of {texts.tokens} tokens")
    started = time.monotonic()
    target = _Target(case.engine, engine, engine)
    scores = target.scores(texts, None)
    seconds = time.monotonic() - started
    scored = tuple(ScoredText(r.prompt, ids, s) for r, ids, s in zip(texts.requests, texts.ids, scores))
    own = _distinct(asked, [pair.reference for pair in measurement.pairs])
    if outsider(engine) is not None:
        plain = set(zip((request.prompt for request in own.requests), own.ids))
        reference = [text.scores for text in scored if (text.prompt, text.token_ids) in plain]
        made = _rescored(target, own, control_from(reference, _width(measurement)))
        return Exactness(scored, made, True, declared(case)), ScoringCost(seconds, 0.0, arm_seconds(measurement))
    control, fresh = _control(target, own, measurement, progress, control_tokens)
    cost = ScoringCost(seconds, control.seconds if fresh else 0.0, arm_seconds(measurement))
    return Exactness(scored, control, fresh, declared(case)), cost


def _rescored(target: _Target, own: _Texts, made: Control) -> Control:
    """The control of texts from outside, with what forwards of another length do to their scores."""
    few = own.first(REPEATED_TOKENS)
    if not few.ids:
        return made
    halves = _Texts(few.requests, [ids[: (len(ids) + 1) // 2] for ids in few.ids])
    whole, again, half = (target.scores(texts, None) for texts in (few, few, halves))
    return rescored(made, whole, again, half)


def scores_of(engine: Scorer, name: str, asked: Sequence[Asked]) -> list[Scores]:
    """Scores of each text as answer to its request, checked. ``name`` is the engine's. Raises EngineError."""
    if not asked:
        return []
    return _checked(name, engine, _texts(asked), None)


def control_for(
    engine: Engine, case: Case, asked: Sequence[Asked], measurement: Measurement, progress: Callable[[str], None]
) -> Control | None:
    """The control of an engine that scores, on plain answers of its reference arm; None where there are none."""
    if not isinstance(engine, Scorer) or not asked:
        return None
    if outsider(engine) is not None:
        return control_from(scores_of(engine, case.engine, asked), _width(measurement))
    return _control(_Target(case.engine, engine, engine), _texts(asked), measurement, progress)[0]


def _texts(asked: Sequence[Asked]) -> _Texts:
    return _Texts([request for request, _ in asked], [ids for _, ids in asked])


def _distinct(asked: Mapping[str, Request], traces: Sequence[Trace]) -> _Texts:
    found = dict.fromkeys((trace.prompt, trace.token_ids) for trace in traces if trace.token_ids)
    return _Texts([asked[prompt] for prompt, _ in found], [ids for _, ids in found])


# --- the control ------------------------------------------------------------------------------------------------


def _control(
    target: _Target,
    own: _Texts,
    measurement: Measurement,
    progress: Callable[[str], None],
    tokens: int | None = None,
) -> tuple[Control, bool]:
    """The control, and whether it was measured just now."""
    width = _width(measurement)
    note = cache_folder() / "controls" / f"{_key(measurement, width, tokens)}.json"
    known = bool(measurement.workload.get("target"))  # an engine that does not say which target has no cache
    if known and (kept := _read(note)) is not None:
        return kept, False
    least = tokens or CONTROL_TOKENS.get(measurement.place.dtype, FEWER_CONTROL_TOKENS)
    progress(f"{measurement.case}: control of {least} tokens, measured once for this target and machine")
    started = time.monotonic()
    control = _compared(target, _enough(target.engine, own, least), width)
    control = replace(control, seconds=time.monotonic() - started)
    # One that a few short prompts made too small would be found again when there are more.
    if known and control.tokens >= least:
        _write(note, control)
    return control, True


def _width(measurement: Measurement) -> int:
    """Tokens that one verification reads: the draft's and the one before."""
    drafted = [r.drafted for pair in measurement.pairs for r in pair.candidate.rounds or ()]
    said = measurement.subject.get("k", "")
    return 1 + (int(said) if said.isdigit() else max(drafted, default=4))


def _enough(engine: Engine, own: _Texts, least: int) -> _Texts:
    """The reference arm's texts, made anew past their end where they are too short."""
    if own.tokens >= least or not own.ids:
        return own.first(least)
    longest = max(map(len, own.ids))
    budget = max(longest, math.ceil(least / len(own.ids)))
    while budget:
        longer = [replace(request, max_tokens=budget, stop=(), ignore_eos=True) for request in own.requests]
        try:
            traces = [trace for request in longer for trace in engine.generate([request], Arm.REFERENCE)]
        except EngineError:  # the window is shorter
            budget = max(longest, budget // 2) if budget > longest else 0
            continue
        return _Texts(longer, [trace.token_ids for trace in traces]).first(least)
    return own


def _compared(target: _Target, texts: _Texts, width: int) -> Control:
    single, wide, whole = (target.scores(texts, one) for one in (1, width, None))
    again = target.scores(texts.first(REPEATED_TOKENS), 1)
    other_choice = [
        verified != best_id and best > runner_up
        for w, s in zip(wide, whole)
        for verified, best_id, best, runner_up in zip(w.best_ids, s.best_ids, s.best, s.runner_up)
    ]
    return Control(
        tokens=texts.tokens,
        width=width,
        wide_change=change(single, wide),
        scoring_change=change(single, whole),
        self_change=change(single, again),
        wide_ties=sum(other_choice),
        agree=all(s.margins == w.margins for s, w in zip(single, wide)),
        median_best=median([abs(logit) for s in single for logit in s.best]),
        seconds=0.0,
    )


def _key(measurement: Measurement, width: int, tokens: int | None) -> str:
    facts = {name: measurement.subject.get(name, "") for name in _FACTS}
    facts |= {"kind": measurement.engine_kind, "target": measurement.workload.get("target", ""), "width": str(width)}
    facts |= {"device": measurement.place.device, "dtype": measurement.place.dtype, "version": str(CONTROL_VERSION)}
    facts |= {"tokens": str(tokens)} if tokens else {}
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]


def _read(note: Path) -> Control | None:
    try:
        return decode(Control, jsontext.parse(note.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, jsontext.JsonError, CodecError):
        return None


def _write(note: Path, control: Control) -> None:
    try:
        write_atomically(note, jsontext.dump(encode(control), indent=1) + "\n")
    except StoreError:
        return
