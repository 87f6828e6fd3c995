"""The baseline of a study: recorded by the path that ``--specgate-update`` takes, into the study's own folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_specgate.errors import SpecgateError
from pytest_specgate.records import Measurement, Pair
from pytest_specgate.refresh import update_baselines
from pytest_specgate.session import CaseResult, Settings, SuiteSession
from pytest_specgate.study import naive
from pytest_specgate.study.plan import Plan, cases_by_engine, suite_of


def baselines_of(plan: Plan) -> Path:
    """Where the study keeps its baseline; the project's own is never touched."""
    return plan.out / "baselines"


def settings_of(plan: Plan, tell: Callable[[str], None], *, update: bool = False) -> Settings:
    """What a session of the study needs to know."""
    return Settings(
        baselines=baselines_of(plan),
        update=update,
        device=plan.device,
        allow_remote_code=plan.allow_remote_code,
        allow_pickle=plan.allow_pickle,
        progress=tell,
    )


def record(plan: Plan, tell: Callable[[str], None]) -> dict[str, float]:
    """Measure every case unchanged and store it; each case's mean time per token, for the naive rule.

    Raises SpecgateError where a case cannot be measured, or must not become a baseline.
    """
    means: dict[str, float] = {}
    for engine in cases_by_engine(plan, plan.suite):
        measured = [_session(plan, engine, -number, tell) for number in range(plan.sessions)]
        session = measured[0] if len(measured) == 1 else _together(plan, measured)
        for change in update_baselines(session, frozenset()):
            if change.refused:
                what = f"{change.case}: cannot be recorded as a baseline: {change.refused}"
                raise SpecgateError(f"{what} — quiet the machine, and start again")
        means |= {result.case.id: naive.mean_time(result.measurement.pairs) for result in session.results()}
    return means


def _session(plan: Plan, engine: str, number: int, tell: Callable[[str], None]) -> SuiteSession:
    suite = suite_of(plan, number, None)

    def told(text: str) -> None:
        tell(f"baseline: {text}")

    session = SuiteSession(suite, engine, settings_of(plan, told, update=True), plan.checks)
    try:
        for case in cases_by_engine(plan, suite)[engine]:
            if error := session.case(case).memory_error:
                raise error
    finally:
        session.close()
    return session


def _together(plan: Plan, sessions: Sequence[SuiteSession]) -> SuiteSession:
    """The measurements of several sessions as those of one."""
    first = sessions[0]
    session = SuiteSession(first.suite, first.engine, first.settings, plan.checks)
    for results in zip(*(one.results() for one in sessions)):
        session.take(results[0].case, _pooled(results))
    return session


def _pooled(results: Sequence[CaseResult]) -> Measurement:
    """All rounds in a row; the memory is that of the first session."""
    pairs: list[Pair] = []
    for result in results:
        done = 1 + max((pair.round for pair in pairs), default=-1)
        pairs += [replace(pair, round=done + pair.round) for pair in result.measurement.pairs]
    measurements = [result.measurement for result in results]
    return replace(
        measurements[0],
        pairs=tuple(pairs),
        findings=tuple(finding for one in measurements for finding in one.findings),
        seconds=sum(one.seconds for one in measurements),
    )
