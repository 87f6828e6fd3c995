"""Two reports → what the second one lost against the first, judged as a gate judges against a baseline.

Where the prompts of a case are the same, pairs are compared prompt by prompt by the shipped gates; where they are not,
each run's own limits are set against the other's, which asks for larger differences. Each statistical check has its
part of the error budget. The two runs are one session each: what a restart alone changes is not known here.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_specgate import baseline, gates
from pytest_specgate.errors import InvalidTrace, Location, StoreError
from pytest_specgate.gates.acceptance import RATIOS
from pytest_specgate.gates.decision import gather, plain
from pytest_specgate.gates.parts import broken_environment, from_elsewhere
from pytest_specgate.gates.shift import difference
from pytest_specgate.gates.wording import Amount, drift_checks
from pytest_specgate.labels import in_order, metric_of, split
from pytest_specgate.metrics import Better, Family, Unit
from pytest_specgate.records import Check, Interval, Measurement, Outcome, Samples, Stored, Verdict
from pytest_specgate.report.document import Report
from pytest_specgate.report.outline import WORST_FIRST
from pytest_specgate.report.since import subject_changes
from pytest_specgate.samples import reduce
from pytest_specgate.samples.values import values
from pytest_specgate.stats import paired, rates
from pytest_specgate.stats.budget import share
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.checks import statistical
from pytest_specgate.suite.model import GateSpec

#: What is allowed where nobody says otherwise; a slope is near zero, so that shares of it mean nothing.
ALLOWED, ALLOWED_SLOPE = "5%", "0.02"
#: All or nothing: these judge a run by itself, and compare with no other.
WHOLE = frozenset({Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS})


@dataclass(frozen=True, slots=True)
class Question:
    """What to compare: metrics (those that gates of either run judged where empty) and the loss that is allowed.

    ``allowed`` maps a metric, or ``""`` for all others, to an allowed change as suites write it.
    """

    metrics: tuple[str, ...] = ()
    allowed: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one case: both values, the change in the metric's unit, and what it comes to."""

    label: str
    before: float | None
    after: float | None
    change: Interval | None
    outcome: Outcome
    reason: str

    @property
    def better(self) -> bool:
        """Whether the change is an improvement beyond chance."""
        kind = metric_of(self.label).better
        if self.change is None or self.outcome is not Outcome.PASS:
            return False
        return self.change.low > 0 if kind is Better.HIGHER else self.change.high < 0 and kind is Better.LOWER


@dataclass(frozen=True, slots=True)
class CaseRows:
    """A case that both reports hold. ``paired`` says that the prompts are the same; ``notes`` what else differs."""

    suite: str
    case: str
    paired: bool
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cases that both reports hold, and those that one of them alone holds."""

    cases: tuple[CaseRows, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of all rows; a case that is gone leaves the answer open."""
        found = {row.outcome for case in self.cases for row in case.rows}
        if self.gone:
            found.add(Outcome.INCONCLUSIVE)
        return next((outcome for outcome in WORST_FIRST if outcome in found), Outcome.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class _Both:
    """One case as both runs measured it."""

    suite: str
    first: Measurement
    second: Measurement

    @property
    def same_prompts(self) -> bool:
        return self.first.workload.get("prompts") == self.second.workload.get("prompts")


def compare(first: Report, second: Report, question: Question = Question()) -> Comparison:
    """The second report against the first. Raises StoreError where they share no case."""
    taken = [_by_case(report) for report in (first, second)]
    shared = [key for key in taken[0] if key in taken[1]]
    if not shared:
        known = "; ".join(f"{name}: {', '.join(case for _, case in one) or 'none'}" for name, one in zip("AB", taken))
        raise StoreError(f"the two reports share no case ({known}) — compare runs of one suite")
    labels = {key: _labels(question, (first, second), key[1]) for key in shared}
    wanted = {key: [_gate(label, question) for label in labels[key]] for key in shared}
    checks = sum(statistical(gate, greedy=taken[1][key].greedy) for key in shared for gate in wanted[key])
    alpha = share(checks)
    return Comparison(
        tuple(_case(_Both(key[0], taken[0][key], taken[1][key]), wanted[key], alpha, first.created) for key in shared),
        tuple(f"{case} ({suite})" for suite, case in taken[0] if (suite, case) not in taken[1]),
        tuple(f"{case} ({suite})" for suite, case in taken[1] if (suite, case) not in taken[0]),
    )


def _by_case(report: Report) -> dict[tuple[str, str], Measurement]:
    return {(suite, one.case): one for suite, taken in report.measurements.items() for one in taken}


def _labels(question: Question, reports: Iterable[Report], case: str) -> list[str]:
    """Metrics, with their statistic, in the order of the table."""
    if question.metrics:
        return list(question.metrics)
    return in_order(verdict.gate for report in reports for verdict in report.verdicts if verdict.case == case)


def _gate(label: str, question: Question) -> Gate:
    """The gate that asks whether a metric got worse by more than is allowed."""
    (name, statistic), metric, given = split(label), metric_of(label), question.allowed or {}
    asked: dict[str, object] = {"metric": name, **({"statistic": statistic} if statistic else {})}
    if metric.family in WHOLE:
        asked["limit"] = "==100%"
    elif metric.family is Family.TASK:  # the candidate arm against the reference arm of the same run
        asked["max_drop"] = given.get(label, given.get("", ALLOWED))
    else:
        usual = ALLOWED_SLOPE if metric.unit is Unit.SLOPE else given.get("", ALLOWED)
        allowed = given.get(label, given.get(name, usual))
        asked |= {"max_drop": allowed} if metric.better is not Better.LOWER else {}
        asked |= {"max_rise": allowed} if metric.better is not Better.HIGHER else {}
    return Gate(GateSpec.model_validate(asked), Location(Path("compare")))


def _case(both: _Both, wanted: Sequence[Gate], alpha: float, recorded: str) -> CaseRows:
    names = [gate.spec.metric for gate in wanted]
    try:
        before, after = (reduce(one, names) for one in (both.first, both.second))
    except InvalidTrace as error:
        rows = [Row(gate.spec.label, None, None, None, Outcome.ERROR, str(error)) for gate in wanted]
        return CaseRows(both.suite, both.first.case, both.same_prompts, tuple(rows))
    context = gates.JudgeContext(
        suite=both.suite,
        case=both.second.case,
        engine=both.second.engine_kind,
        alpha=alpha,
        place=both.second.place,
        today=datetime.date.today(),
        findings=(*both.first.findings, *both.second.findings),
    )
    first = both.first
    stored = Stored(first.place, first.workload, first.subject, recorded[:10], before)
    judge = _paired if both.same_prompts else _unpaired
    rows = [judge(gate, after, stored, context) for gate in wanted]
    return CaseRows(both.suite, first.case, both.same_prompts, tuple(rows), tuple(_notes(both)))


def _notes(both: _Both) -> Iterator[str]:
    asked = baseline.mismatch(
        Stored(both.first.place, both.first.workload, {}, "", Samples("", greedy=True, prompts=())),
        both.second.workload,
    )
    if asked:
        yield f"not asked the same: {', '.join(asked)}"
    if both.first.place != both.second.place:
        yield f"from {both.first.place.slug} to {both.second.place.slug}: times and memory do not compare"
    yield from (f"{name}: {was} → {now}" for name, was, now in subject_changes(both.first.subject, both.second.subject))


# --- the same prompts: what gates do ---


def _paired(gate: Gate, after: Samples, stored: Stored, context: gates.JudgeContext) -> Row:
    verdict = gates.judge_once(gate, after, stored, context)
    check = _deciding(verdict.checks)
    change = None if check is None or check.kind == "limit" else check.interval
    before, now = _values(gate, verdict, stored, after)
    return Row(gate.spec.label, before, now, change, verdict.outcome, _reason(verdict))


def _reason(verdict: Verdict) -> str:
    said = verdict.reason.replace(" the stored ", " the first report's ")
    return f"{said} — {verdict.advice}" if verdict.outcome is Outcome.ERROR else said


def _deciding(checks: Sequence[Check]) -> Check | None:
    return min(checks, key=lambda check: WORST_FIRST.index(check.outcome), default=None)


def _values(gate: Gate, verdict: Verdict, stored: Stored, after: Samples) -> tuple[float | None, float | None]:
    """Both values as the gate saw them, else as tables draw them."""
    name = gate.spec.metric
    before = verdict.baseline.value if verdict.baseline else values(stored.samples).get(name)
    now = verdict.measured.value if verdict.measured else values(after).get(name)
    return before, now


# --- other prompts: limits against limits ---


def _unpaired(gate: Gate, after: Samples, stored: Stored, context: gates.JudgeContext) -> Row:
    name, family = gate.spec.metric, gate.spec.info.family
    if family in WHOLE or family in (Family.MEMORY, Family.SERVING, Family.TASK):
        return _paired(gate, after, stored, context)
    before, now = values(stored.samples).get(name), values(after).get(name)
    if before is None or now is None:
        missing = "either run" if before == now else "the first run" if before is None else "the second run"
        return Row(gate.spec.label, before, now, None, Outcome.ERROR, f"{name}: not measured in {missing}")
    if gate.spec.statistic not in ("median", "mean"):
        reason = f"{gate.spec.label} of other prompts is another tail; compare the same prompts"
        return Row(gate.spec.label, before, now, None, Outcome.INCONCLUSIVE, reason)
    checks = _elsewhere(gate, stored, context)
    if not checks:
        evidence = gather(_question(gate, stored.samples, after), context, _shape(gate, before))
        checks = drift_checks(gate, evidence, before, Amount(len(after.prompts), "prompts"))
    worst = _deciding(checks)
    assert worst is not None  # noqa: S101 - a gate of this module demands something
    return Row(gate.spec.label, before, now, worst.interval, worst.outcome, worst.reason)


def _elsewhere(gate: Gate, stored: Stored, context: gates.JudgeContext) -> tuple[Check, ...]:
    """Why times do not compare, if they do not."""
    if gate.spec.info.family not in (Family.SPEEDUP, Family.LATENCY):
        return ()
    broken = broken_environment(gate, context)
    return broken or (from_elsewhere(gate, stored) if stored.place != context.place else ())


def _question(gate: Gate, before: Samples, after: Samples) -> Callable[[float], Limits | CannotTell]:
    """Limits of the difference, from each run's own limits at half of the error rate."""

    def asked(alpha: float) -> Limits | CannotTell:
        old, new = (_own(gate, samples, alpha / 2) for samples in (before, after))
        if isinstance(old, CannotTell):
            return old
        if isinstance(new, CannotTell):
            return new
        return Limits(new.estimate - old.estimate, new.low - old.high, new.high - old.low)

    return asked


def _own(gate: Gate, samples: Samples, alpha: float) -> Limits | CannotTell:
    """Limits of one run for "prompts like these", on the scale on which noise is even."""
    name = gate.spec.metric
    if name in RATIOS:
        totals = list(RATIOS[name].totals(samples.prompts).values())
        return rates.pooled_rate([hits for hits, _ in totals], [trials for _, trials in totals], alpha, alpha)
    logged = gate.spec.info.family is Family.LATENCY
    groups: dict[str, list[float]] = {}
    for prompt in samples.prompts:
        own = prompt.series.get(name, ())
        if logged and own and min(own) <= 0:
            return CannotTell("a time is not positive", "a clock that resolves it")
        groups.setdefault(prompt.cluster, []).extend(map(math.log, own) if logged else own)
    return paired.over_prompts(list(groups.values()), alpha, alpha)


def _shape(gate: Gate, level: float) -> Callable[[Limits], Interval]:
    if gate.spec.info.family in (Family.SPEEDUP, Family.LATENCY):
        return lambda limits: difference(level, limits)
    return plain
