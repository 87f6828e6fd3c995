"""Make the builds of a study, one after the other, each kept as soon as it is judged.

A build that was stopped half way leaves nothing behind; the same call goes on where the last one ended, with the same
builds. Outcomes are those of the gates themselves: waivers and ``on_fail: warn`` soften nothing here.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_specgate.engines.plants import Plant
from pytest_specgate.errors import SpecgateError, StoreError
from pytest_specgate.measure.requirements import requirements_unmet
from pytest_specgate.runner import Judged, judge_all
from pytest_specgate.session import CaseResult, SuiteSession
from pytest_specgate.study import ledger, naive
from pytest_specgate.study.ledger import Begun, Build, CaseRun, GateOutcome
from pytest_specgate.study.plan import Plan, cases_by_engine, question, sequence, suite_of
from pytest_specgate.study.record import record, settings_of

Tell = Callable[[str], None]


def run(plan: Plan, tell: Tell) -> list[Build]:
    """Every build of the plan, those of earlier runs in this folder included, by number. Raises SpecgateError."""
    cases_by_engine(plan, plan.suite)
    if reason := requirements_unmet(plan.suite.spec.requires, plan.device):
        raise SpecgateError(f"{plan.suite.path.name}: {reason} — run it on a machine that has it")
    with _alone(plan.out):
        begun = ledger.begin(plan.out, plan.suite.name, question(plan))
        builds = ledger.read(plan.out)
        if begun.recorded is None:
            begun = replace(begun, recorded=record(plan, tell))
            ledger.keep(plan.out, begun)
        done = {build.number for build in builds}
        for number, plant in sequence(plan):
            if number not in done:
                builds.append(_build(plan, begun, (number, plant), _heading(plan, builds, number, plant, tell)))
                ledger.append(plan.out, builds[-1])
        return ledger.read(plan.out)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two studies of one folder would make every build twice."""
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(f"{folder}: another study is at work here — wait for it, or choose another --out") from None
    except OSError as error:
        raise StoreError(f"{folder}: cannot be used ({error.strerror}) — choose a writable --out") from error
    try:
        yield
    finally:
        lock.release()


def _heading(plan: Plan, builds: Sequence[Build], number: int, plant: Plant | None, tell: Tell) -> Tell:
    """Say before each word of a measurement where the study stands."""
    planted = plant.text if plant else "unchanged"
    left = "time left unknown"
    if builds:
        each = sum(build.seconds for build in builds) / len(builds)
        left = f"{shown_time(each * (plan.total - len(builds)))} left"
    return lambda text: tell(f"build {number} of {plan.total} ({planted}), {left}: {text}")


def shown_time(seconds: float) -> str:
    """``0.25 s``, ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _build(plan: Plan, begun: Begun, which: tuple[int, Plant | None], tell: Tell) -> Build:
    number, plant = which
    suite = suite_of(plan, number, plant)
    started, begin = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
    judged: list[Judged] = []
    measured: list[CaseResult] = []
    for engine, cases in cases_by_engine(plan, suite).items():
        session = SuiteSession(suite, engine, settings_of(plan, tell), plan.checks)
        try:
            judged += judge_all(session, cases)
        finally:
            session.close()
        measured += session.results()
    seconds = time.monotonic() - begin
    for result in measured:
        _refuse_elsewhere(plan, result)
    return Build(
        number=number,
        planted=plant.text if plant else "",
        started=started.isoformat(timespec="seconds"),
        seconds=round(seconds, 3),
        gates=tuple(map(_gate_outcome, judged)),
        cases=tuple(_case_run(result, (begun.recorded or {})[result.case.id]) for result in measured),
    )


def _refuse_elsewhere(plan: Plan, result: CaseResult) -> None:
    if result.found is not None and result.found.elsewhere:
        there, here = result.found.stored.place.slug, result.measurement.place.slug
        what = f"{plan.out}: was begun on {there}, and this is {here}"
        raise StoreError(f"{what} — go on there, or choose another --out here")


def _gate_outcome(judged: Judged) -> GateOutcome:
    verdict = judged.verdict
    return GateOutcome(verdict.case, verdict.gate, verdict.metric, verdict.outcome, verdict.reason)


def _case_run(result: CaseResult, stored_mean: float) -> CaseRun:
    pairs = result.measurement.pairs
    mean = naive.mean_time(pairs)
    prompts = result.samples.prompts
    return CaseRun(
        case=result.case.id,
        rounds=1 + max(pair.round for pair in pairs),
        seconds=round(result.measurement.seconds, 3),
        time_per_token=mean,
        naive=naive.judge(mean, stored_mean),
        broken=tuple(finding.rule for finding in result.measurement.findings if not finding.held),
        log_ratios={one.prompt: tuple(round(y, 5) for y in one.series["speedup"]) for one in prompts},
    )
