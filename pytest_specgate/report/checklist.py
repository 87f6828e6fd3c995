"""The check list by which speculative decoding is usually accepted, filled in from what was measured.

One row a question: throughput, output quality, resources. What is expected is what the suite's gates demand; where no
gate asks, what the advice's thresholds do. A question that nothing answers says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.report import prediction
from pytest_specgate.report.advised import Checked, Wanted
from pytest_specgate.report.evidence import Evidence
from pytest_specgate.report.numbers import UNMEASURED
from pytest_specgate.samples.values import values
from pytest_specgate.units import format_value

Value = Callable[[Evidence], "float | None"]


@dataclass(frozen=True, slots=True)
class Question:
    """A row: what is asked, how it is measured, and what each case answers.

    ``expected`` is demanded where no gate of the metric says it; ``good`` tells whether an answer meets it, and is None
    where the number only describes.
    """

    part: str
    metric: str
    method: str
    unit: Unit
    value: Value
    expected: Callable[[Wanted], str] = lambda _: "told, not demanded"
    good: Callable[[float, Wanted], bool] | None = None


def _metric(name: str) -> Value:
    def found(one: Evidence) -> float | None:
        return values(one.view.samples).get(name) if one.view.samples else None

    return found


def _ratio(label: str) -> Value:
    return lambda one: one.ratios.get(label)


def _kept(one: Evidence) -> float | None:
    taken, samples = one.view.measurement, one.view.samples
    if taken is None or samples is None or taken.costs is None:
        return None
    predicted, decode = prediction.predicted_speedup(samples, taken.costs), prediction.decode_times(samples)
    return None if predicted is None or len(decode) < 2 else decode["reference_tpot"] / decode["tpot"] / predicted


def _draft_weights(one: Evidence) -> float | None:
    readings = one.view.measurement.memory.values() if one.view.measurement else ()
    return next((float(r.weights_draft) for r in readings if r.weights_draft), None)


def _most(rise: Callable[[Wanted], float]) -> tuple[Callable[[Wanted], str], Callable[[float, Wanted], bool]]:
    """A ratio that may lie above 1 by a threshold of the advice."""
    return lambda wanted: f"<={1 + rise(wanted):g}x", lambda value, wanted: value <= 1 + rise(wanted)


_FAST = (lambda wanted: f">={wanted.min_speedup:g}x", lambda value, wanted: value >= wanted.min_speedup)
_SOON, _SMALL = _most(lambda wanted: wanted.max_ttft_rise), _most(lambda wanted: wanted.max_memory_rise)
_ROOM = (lambda wanted: f">={1 - wanted.max_batch_loss:g}x", lambda value, wanted: value >= 1 - wanted.max_batch_loss)
_LENGTH = (lambda _: "0.9x..1.1x", lambda value, _: 0.9 <= value <= 1.1)
_ALL = (lambda _: "==100%", lambda value, _: value == 1)
_SPEED, _TEXT, _COST = "throughput", "output quality", "resources"
_X, _SHARE = Unit.RATIO, Unit.FRACTION
_RATE, _FIRST = _ratio("tokens per second"), _ratio("ttft, median")
QUESTIONS = (
    Question(_SPEED, "speedup", "time per token by prompt, both arms interleaved", _X, _metric("speedup"), *_FAST),
    Question(_SPEED, "throughput", "output tokens per second, candidate ÷ reference", _X, _RATE),
    Question(_SPEED, "conditional_acceptance", "accepted ÷ tested", _SHARE, _metric("conditional_acceptance")),
    Question(_SPEED, "acceptance_length", "tokens per target forward", Unit.TOKENS, _metric("acceptance_length")),
    Question(_SPEED, "measured ÷ predicted", "speedup ÷ what acceptance and forwards' costs predict", _SHARE, _kept),
    Question(_SPEED, "ttft ÷ reference", "median time to the first token, both arms", _X, _FIRST, *_SOON),
    Question(_TEXT, "greedy_exactness", "the target's own logits on the candidate's text", _SHARE, lambda _: None),
    Question(_TEXT, "exact_match", "prompts with the same tokens in both arms", _SHARE, _metric("exact_match")),
    Question(_TEXT, "length_ratio", "output tokens, candidate ÷ reference", _X, _metric("length_ratio"), *_LENGTH),
    Question(_TEXT, "token_accounting", "ids, usage and stops agree", _SHARE, _metric("token_accounting"), *_ALL),
    Question(_COST, "vram_ratio", "device peak of each arm's own process", _X, _metric("vram_ratio"), *_SMALL),
    Question(_COST, "host_memory_ratio", "the same on the host", _X, _metric("host_memory_ratio"), *_SMALL),
    Question(_COST, "max_batch_ratio", "requests that fit at once, by trying", _X, _metric("max_batch_ratio"), *_ROOM),
    Question(_COST, "weights_draft", "the draft's weights in memory", Unit.BYTES, _draft_weights),
)


def checklist(cases: Sequence[Evidence], wanted: Wanted) -> tuple[Checked, ...]:
    """Every row for the cases of an engine."""
    return tuple(_row(question, cases, wanted) for question in QUESTIONS)


def _row(question: Question, cases: Sequence[Evidence], wanted: Wanted) -> Checked:
    found = [value for one in cases if (value := question.value(one)) is not None]
    verdicts = [v for one in cases for v in one.view.verdicts if v.metric == question.metric]
    demanded = dict.fromkeys(c.required for v in verdicts for c in v.checks if c.kind == "limit" and c.required)
    expected = ", ".join(demanded) or question.expected(wanted)
    reading = _judged(verdicts) or _read(question, found, wanted)
    measured = _measured(question, found, cases)
    return Checked(question.part, question.metric, question.method, expected, measured, reading)


def _measured(question: Question, found: Sequence[float], cases: Sequence[Evidence]) -> str:
    if not found:
        judged = [v for one in cases for v in one.view.verdicts if v.metric == question.metric and v.measured]
        found = [v.measured.value for v in judged if v.measured is not None]
    if not found:
        return UNMEASURED
    low, high = (format_value(end, question.unit) for end in (min(found), max(found)))
    span = low if low == high else f"{low} to {high}"
    return f"{span} in {len(found)} of {len(cases)} cases" if len(cases) > 1 else span


_SAID = {
    Outcome.FAIL: "broken",
    Outcome.ERROR: "not measurable",
    Outcome.INCONCLUSIVE: "undecided",
    Outcome.PASS: "kept",
}


def _judged(verdicts: Sequence[Verdict]) -> str:
    """What the gates said; empty where there was none."""
    outcomes = [verdict.outcome for verdict in verdicts]
    parts = [f"{outcomes.count(outcome)} {word}" for outcome, word in _SAID.items() if outcome in outcomes]
    return f"gates: {', '.join(parts)}" if parts else ""


def _read(question: Question, found: Sequence[float], wanted: Wanted) -> str:
    if not found:
        return UNMEASURED
    if question.good is None:
        return "no gate asks"
    bad = sum(not question.good(value, wanted) for value in found)
    return f"no gate asks; missed in {bad} of {len(found)}" if bad else "no gate asks; met"
