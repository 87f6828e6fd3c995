"""Hooks that a conftest.py or another plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from pytest_specgate.records import Verdict
    from pytest_specgate.report.document import Report


def pytest_specgate_machine_info(config: pytest.Config, info: dict[str, str]) -> None:
    """Add what is worth knowing about this machine to ``info`` before a report is written.

    Called once, in the controller, where ``--specgate-report`` or ``--specgate-history`` is given::

        def pytest_specgate_machine_info(config, info):
            info["runner"] = os.environ.get("RUNNER_NAME", "")
    """


def pytest_specgate_verdict(config: pytest.Config, verdict: Verdict) -> None:
    """Observe each verdict as it is reached.

    Called in the controller, once per gate and case (a rerun repeats the verdict, not the call)::

        def pytest_specgate_verdict(config, verdict):
            if verdict.outcome == "FAIL":
                notify(verdict.case, verdict.reason)
    """


def pytest_specgate_report(config: pytest.Config, report: Report) -> None:
    """Observe the whole report before it is written.

    Called once, in the controller, where ``--specgate-report`` or ``--specgate-history`` is given; ``report`` is a
    frozen :class:`pytest_specgate.report.document.Report`::

        def pytest_specgate_report(config, report):
            publish([verdict.reason for verdict in report.verdicts if verdict.outcome != "PASS"])
    """
