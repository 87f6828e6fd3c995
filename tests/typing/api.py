"""What users may write, checked by mypy --strict and never run: a change of a type here is a change of the API."""

from __future__ import annotations

from pathlib import Path

import pytest_specgate
from pytest_specgate import Measurement, Outcome, Report, SpecgateError, Verdict, run


def judge_a_build(suite: Path) -> int:
    try:
        report: Report = run(suite, baselines="baselines", device="cuda:1", budget=90.0)
    except SpecgateError as error:
        text: str = str(error)
        raise SystemExit(text) from error
    failed: list[Verdict] = [verdict for verdict in report.verdicts if verdict.outcome is Outcome.FAIL]
    measured: tuple[Measurement, ...] = report.measurements.get(str(suite), ())
    status: int = report.exit_status
    return status + 0 * (len(failed) + len(measured))


def by_text() -> Report:
    return pytest_specgate.run("suites/smoke.specgate.yaml", baselines=Path("baselines"), device=None, budget=None)


version: str = pytest_specgate.__version__
run("x", speed=2)  # type: ignore[call-arg]  # an unknown argument is an error
run("x", "baselines")  # type: ignore[call-arg]  # all but the suite are named
