"""Verdicts on pytest's reports: what travels with them, and under which heading each test is counted."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specgate.plugin import transport
from pytest_specgate.plugin.collect import GateItem
from pytest_specgate.plugin.keys import VERDICT
from pytest_specgate.records import Outcome, Verdict

Status = tuple[str, str, Any]
_CATEGORIES: dict[str, Status] = {
    "inconclusive": ("inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})),
    "waived": ("waived", "w", ("WAIVED", {"yellow": True})),
    "warned": ("warned", "w", ("WARNED", {"yellow": True})),
}


def annotate(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the gate's verdict, and point a skip at the gate's own line instead of this plugin's."""
    if not isinstance(item, GateItem):
        return
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), line + 1, report.longrepr[2])
    verdict = item.stash.get(VERDICT, None)
    told_in_setup = report.when == "setup" and report.failed
    if verdict is None or not (report.when == "call" or told_in_setup):
        return
    transport.attach(report, verdict, _category(report, verdict))


def _category(report: pytest.TestReport, verdict: Verdict) -> str:
    if report.skipped and verdict.outcome is Outcome.INCONCLUSIVE:
        return "inconclusive"
    if report.passed and verdict.outcome is Outcome.FAIL:
        return "waived" if verdict.softened.startswith("waived") else "warned"
    return ""


def status(report: pytest.TestReport) -> Status | None:
    """Category, letter and word of a gate that neither plainly passed nor plainly failed."""
    return _CATEGORIES.get(transport.category_of(report))
