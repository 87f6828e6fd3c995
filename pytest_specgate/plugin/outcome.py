"""Verdicts on pytest's reports: what travels with them, and under which heading each test is counted.

A report is all that pytest, JUnit and the controller of a distributed run ever learn of a gate or a suite. So this is
where secrets of the environment are masked for all of them: texts, captured output, properties, the verdict.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pytest_specgate.masking import masked, masker
from pytest_specgate.plugin import transport
from pytest_specgate.plugin.collect import EngineNode, GateItem, SuiteFile
from pytest_specgate.plugin.keys import VERDICT
from pytest_specgate.records import Outcome, Verdict

AnyReport = TypeVar("AnyReport", pytest.TestReport, pytest.CollectReport)
Status = tuple[str, str, Any]
_CATEGORIES: dict[str, Status] = {
    "inconclusive": ("inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})),
    "waived": ("waived", "w", ("WAIVED", {"yellow": True})),
    "warned": ("warned", "w", ("WARNED", {"yellow": True})),
}


def annotate(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the gate's verdict, mask secrets, and point a skip at the gate's own line instead of this plugin's."""
    if not isinstance(item, GateItem):
        return
    hide = hider()
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), line + 1, report.longrepr[2])
    _mask(report, hide)
    texts = [(name, hide(value) if isinstance(value, str) else value) for name, value in report.user_properties]
    report.user_properties = texts
    verdict = item.stash.get(VERDICT, None)
    told_in_setup = report.when == "setup" and report.failed
    if verdict is None or not (report.when == "call" or told_in_setup):
        return
    transport.attach(report, masked(verdict, masker(os.environ)), _category(report, verdict))


def annotate_collected(collector: pytest.Collector, report: pytest.CollectReport) -> None:
    """Mask secrets in what is told of a bad suite."""
    if isinstance(collector, (SuiteFile, EngineNode)):
        _mask(report, hider())


def hider() -> Callable[[str], str]:
    """Hide secrets, and on GitHub what its runner would obey."""
    hide = masker(os.environ)
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return hide
    from pytest_specgate.report.annotations import defused

    return lambda text: defused(hide(text))


def _mask(report: AnyReport, hide: Callable[[str], str]) -> None:
    report.sections = [(title, hide(text)) for title, text in report.sections]
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.longrepr = (path, line, hide(reason))
    elif report.longrepr is not None and hide(text := str(report.longrepr)) != text:
        # A traceback that quotes a secret goes on as plain text, for it holds the secret in many places.
        report.longrepr = hide(text)


def _category(report: pytest.TestReport, verdict: Verdict) -> str:
    if report.skipped and verdict.outcome is Outcome.INCONCLUSIVE:
        return "inconclusive"
    if report.passed and verdict.outcome is Outcome.FAIL:
        return "waived" if verdict.softened.startswith("waived") else "warned"
    return ""


def status(report: pytest.TestReport) -> Status | None:
    """Category, letter and word of a gate that neither plainly passed nor plainly failed."""
    return _CATEGORIES.get(transport.category_of(report))
