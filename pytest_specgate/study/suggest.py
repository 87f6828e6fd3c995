"""Limits that hold: from runs of unchanged code, the tightest demands that a build without change breaks rarely enough.

A run differs from another by its own noise, which each verdict's interval knows, and by what a start decides, which
only several runs tell. A proposal leaves room for both: a t quantile of the scatter of runs at the check's part of the
wanted rate (a prediction limit for a further run), and the interval's half-width beyond it, so that an unchanged build
is cleared and not just undecided. Engines are started anew for each run, in one process.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from pytest_specgate import gates
from pytest_specgate.errors import SpecgateError
from pytest_specgate.labels import in_order, metric_of, split
from pytest_specgate.metrics import Better, Family
from pytest_specgate.records import Interval, Outcome, Stored
from pytest_specgate.session import CaseResult, SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.stats.laws import t_above
from pytest_specgate.stats.looks import doubling
from pytest_specgate.study.plan import reseeded
from pytest_specgate.suite.cases import Case, Gate, Suite
from pytest_specgate.suite.checks import statistical
from pytest_specgate.suite.model import GateSpec
from pytest_specgate.units import Allowance, Limit

#: Proposed even where no gate of the suite asks for them, as far as they are measured.
ALWAYS = ("speedup", "conditional_acceptance")
LEAST_RUNS = 3
#: These judge a run by itself, so that runs say nothing of their limits.
_BY_THEMSELVES = frozenset({Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS, Family.TASK})
_ANY = Limit(None, None, "any")
_WIDE = Allowance(0.9, 0.0, "90%")


@dataclass(frozen=True, slots=True)
class Proposal:
    """One metric of one case. ``level`` and ``bound`` are in the metric's unit; ``bound`` is its worst unchanged value.

    ``change`` is the largest change of an unchanged build, as a share, or in the metric's unit where that is a share,
    a slope or a score. ``scatter`` is what runs differ by, alike. ``exact`` says that all runs gave the same number.
    """

    engine: str
    scenario: str
    label: str
    level: float
    bound: float
    change: float
    scatter: float
    exact: bool

    @property
    def by_points(self) -> bool:
        """Whether changes are told in the metric's own unit."""
        return metric_of(self.label).by_points


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What ``runs`` runs propose for a false-alarm ``rate`` over ``checks`` checks; ``notes`` say what they do not."""

    runs: int
    rate: float
    checks: int
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...] = ()


def measured(
    selected: Sequence[tuple[Suite, Case]], settings: Settings, runs: int, tell: Callable[[str], None]
) -> dict[tuple[str, str], list[CaseResult]]:
    """Every case ``runs`` times, by suite and case, engines started anew for each. Raises SpecgateError."""
    found: dict[tuple[str, str], list[CaseResult]] = {}
    for number in range(1, runs + 1):
        recording = replace(settings, update=True, update_only=None, progress=_heading(tell, number, runs))
        for suite, engine in dict.fromkeys((suite.shown, case.engine) for suite, case in selected):
            mine = [(one, case) for one, case in selected if (one.shown, case.engine) == (suite, engine)]
            session = SuiteSession(reseeded(mine[0][0], number), engine, recording)
            try:
                for _, case in mine:
                    found.setdefault((suite, case.id), []).append(session.case(case))
            finally:
                session.close()
    return found


def _heading(tell: Callable[[str], None], number: int, runs: int) -> Callable[[str], None]:
    return lambda text: tell(f"run {number} of {runs}: {text}")


def suggest(
    selected: Sequence[tuple[Suite, Case]], results: Mapping[tuple[str, str], Sequence[CaseResult]], rate: float
) -> Suggestion:
    """Proposals for every metric of every case, those of one engine and scenario joined to the loosest."""
    asked = [(suite, case, label) for suite, case in selected for label in _labels(case)]
    checks = sum(statistical(_gate(label), greedy=case.sampling.greedy) for _, case, label in asked)
    notes: list[str] = []
    proposals: dict[tuple[str, str, str], Proposal] = {}
    for suite, case, label in asked:
        runs = results[suite.shown, case.id]
        try:
            one = _proposal(case, label, runs, _Rate(rate / max(checks, 1), doubling(suite.spec.measure.rounds).count))
        except SpecgateError as problem:
            notes.append(str(problem))
            continue
        key = (one.engine, one.scenario, one.label)
        proposals[key] = _looser(proposals[key], one) if key in proposals else one
    notes += _broken(results)
    count = max(map(len, results.values()), default=0)
    order = in_order(label for *_, label in proposals)
    ordered = sorted(proposals.values(), key=lambda one: (one.engine, one.scenario, order.index(one.label)))
    return Suggestion(count, rate, checks, tuple(ordered), tuple(dict.fromkeys(notes)))


def _labels(case: Case) -> list[str]:
    """What the suite's gates ask for and what every suite should; in the order of the table."""
    named = (gate.spec.label for gate in case.gates if gate.spec.info.family not in _BY_THEMSELVES)
    return in_order([*named, *ALWAYS])


def _broken(results: Mapping[tuple[str, str], Sequence[CaseResult]]) -> Iterator[str]:
    for (_, case), runs in results.items():
        rules = {finding.rule for run in runs for finding in run.measurement.findings if not finding.held}
        if rules:
            broken = ", ".join(sorted(rules))
            yield f"{case}: environment rules did not hold in some run: {broken}; run again when it is quiet"


@dataclass(frozen=True, slots=True)
class _Rate:
    """A check's part of the wanted rate, and the looks that share it."""

    alpha: float
    looks: int


def _gate(label: str) -> Gate:
    """A gate that asks everything of a metric and demands nothing."""
    from pathlib import Path

    from pytest_specgate.errors import Location

    name, statistic = split(label)
    asked: dict[str, object] = {"metric": name, "limit": _ANY, "max_drop": _WIDE}
    return Gate(GateSpec.model_validate(asked | ({"statistic": statistic} if statistic else {})), Location(Path()))


def _proposal(case: Case, label: str, runs: Sequence[CaseResult], rate: _Rate) -> Proposal:
    """Raises SpecgateError where the metric was not measured, or has no limits."""
    gate, by_points = _gate(label), metric_of(label).by_points
    levels = [_limits(gate, run, None, rate) for run in runs]
    changes = [_limits(gate, run, runs[0], rate) for run in runs[1:]]
    level = fmean(one.value for one in levels)
    logged = not by_points and all(one.value > 0 for one in levels)
    values = [math.log(one.value) if logged else one.value for one in levels]
    scale = level if logged else 1.0
    own = max(_half(one) for one in levels) / scale
    room, change = rooms(values, rate.alpha)
    room, change = room + own, change + max(_half(one) for one in changes) / scale
    lower = metric_of(label).better is not Better.LOWER
    bound = level * math.exp(-room if lower else room) if logged else level - room if lower else level + room
    return Proposal(
        engine=case.engine,
        scenario=case.scenario.name,
        label=label,
        level=level,
        bound=bound,
        change=1 - math.exp(-change) if logged and lower else math.expm1(change) if logged else change,
        scatter=stdev(values),
        exact=stdev(values) <= 1e-12 and own <= 1e-12,
    )


def rooms(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """How far from these runs' mean a further run of the same code lies, and how far from any single one of it.

    Each is exceeded on one side with a chance of ``alpha``, whatever the scatter is (t prediction limits for normal
    runs). One that serves as the baseline is a single run.
    """
    quantile = t_above(alpha, len(values) - 1)
    return quantile * math.sqrt(1 + 1 / len(values)) * stdev(values), quantile * math.sqrt(2) * stdev(values)


def _half(found: Interval) -> float:
    return max(found.value - found.low, found.high - found.value)


def _limits(gate: Gate, run: CaseResult, against: CaseResult | None, rate: _Rate) -> Interval:
    """The failing interval of the level, or of the change against another run. Raises SpecgateError."""
    m = run.measurement
    context = gates.JudgeContext(
        suite="",
        case=m.case,
        engine=m.engine_kind,
        alpha=rate.alpha,
        place=m.place,
        today=datetime.date.today(),
        updating=True,
        looks=rate.looks,
    )
    stored = None
    if against is not None:
        first = against.measurement
        stored = Stored(first.place, first.workload, first.subject, "", against.samples)
    verdict = gates.judge_once(gate, run.samples, stored, context)
    wanted = "limit" if against is None else "max_drop"
    check = next((check for check in verdict.checks if check.kind == wanted), None)
    if verdict.outcome is Outcome.ERROR or check is None or check.interval is None:
        told = check is None or check.outcome is Outcome.INCONCLUSIVE
        reason = verdict.reason if told else "so few requests bound it on one side only"
        raise SpecgateError(f"{m.case}: nothing is proposed for {gate.spec.label}: {reason}")
    return check.interval


def _looser(one: Proposal, other: Proposal) -> Proposal:
    """A gate on both cases must hold for both."""
    lower = metric_of(one.label).better is not Better.LOWER
    bound = (min if lower else max)(one.bound, other.bound)
    widest = one if one.change >= other.change else other
    return replace(widest, bound=bound, exact=one.exact and other.exact)


def finer(selected: Iterable[tuple[Suite, Case]], found: Suggestion) -> Iterator[str]:
    """Gates of the suite whose allowed change is smaller than what unchanged builds may show."""
    by_key = {(one.engine, one.scenario, one.label): one for one in found.proposals}
    for _, case in selected:
        for gate in case.gates:
            one = by_key.get((case.engine, case.scenario.name, gate.spec.label))
            for kind, allowance in (("drop", gate.spec.max_drop), ("rise", gate.spec.max_rise)):
                if one is None or allowance is None or not one.level:
                    continue
                allowed = allowance.of(one.level) / (1.0 if one.by_points else abs(one.level))
                if allowed < one.change:
                    text = f"{gate.spec.label} allows a {kind} of {allowance.text}, which is less than is proposed"
                    yield f"{gate.location}: {text}"
