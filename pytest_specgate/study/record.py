"""The baseline of a study: recorded by the path that ``--specgate-update`` takes, into the study's own folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from pytest_specgate.errors import SpecgateError
from pytest_specgate.refresh import Change, update_baselines
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
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
        update_sessions=plan.sessions,
        device=plan.device,
        allow_remote_code=plan.allow_remote_code,
        allow_pickle=plan.allow_pickle,
        progress=tell,
    )


def record(plan: Plan, tell: Callable[[str], None]) -> dict[str, float]:
    """Measure every case unchanged and store it; each case's mean time per token, for the naive rule.

    The mean is that of this process, however many sessions record. Raises SpecgateError where a case cannot be
    measured, or must not become a baseline.
    """
    if baselines_of(plan).exists():  # half recorded before a kill: a first baseline must not be judged by another
        shutil.rmtree(baselines_of(plan))
    suite, means = suite_of(plan, 0, None), dict[str, float]()
    for engine, cases in cases_by_engine(plan, suite).items():
        session = SuiteSession(suite, engine, settings_of(plan, _heading(tell), update=True), plan.checks)
        try:
            for case in cases:
                if error := session.case(case).memory_error:
                    raise error
        finally:
            session.close()
        for change in update_baselines(session, frozenset()):
            _refuse(change)
        means |= {result.case.id: naive.mean_time(result.measurement.pairs) for result in session.results()}
    return means


def _heading(tell: Callable[[str], None]) -> Callable[[str], None]:
    return lambda text: tell(f"baseline: {text}")


def _refuse(change: Change) -> None:
    if change.refused:
        what = f"{change.case}: cannot be recorded as a baseline: {change.refused}"
        noisy = change.refused.startswith("environment rule")
        raise SpecgateError(f"{what} — {'quiet the machine' if noisy else 'change the suite'}, and start again")
