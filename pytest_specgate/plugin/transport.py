"""A verdict on a pytest report, as text: xdist carries plain values alone between its processes."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from pytest_specgate.codec import decode
from pytest_specgate.records import Verdict


def attach(report: pytest.TestReport, verdict: Verdict, category: str) -> None:
    """Put on the report the verdict and the category that its test counts under ("" for pytest's own)."""
    # Python's JSON also carries the infinite ends of one-sided intervals, which our stored files refuse.
    report.specgate_verdict = json.dumps(asdict(verdict))  # type: ignore[attr-defined]  # reports take extras
    report.specgate_category = category  # type: ignore[attr-defined]


def verdict_of(report: pytest.TestReport) -> Verdict | None:
    """Read the verdict that the report carries, if any."""
    text = getattr(report, "specgate_verdict", None)
    return None if text is None else decode(Verdict, json.loads(text))


def category_of(report: pytest.TestReport) -> str:
    """Read the category that the report carries, if any."""
    return str(getattr(report, "specgate_category", ""))
