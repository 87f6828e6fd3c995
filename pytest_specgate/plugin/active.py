"""The hooks of a run that was asked for: each delegates, none decides."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.metrics import METRICS
from pytest_specgate.plugin import collect, distribution, instead, options, outcome, summary
from pytest_specgate.plugin.keys import RUN
from pytest_specgate.plugin.run import Run
from pytest_specgate.suite.model import Category


def install(config: pytest.Config) -> None:
    """Check the options, set up the run's state, and register the hooks."""
    chosen = options.read(config)
    distribution.check(config, chosen)
    config.stash[RUN] = run = Run(config, chosen)
    for name, meaning in _markers():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.register(Hooks(run), "specgate-active")


def _markers() -> list[tuple[str, str]]:
    return [
        ("specgate", "a gate of a suite"),
        *((metric.name, "a gate on this metric") for metric in METRICS.values()),
        *((category.value.replace("-", "_"), "a gate on prompts of this category") for category in Category),
        *((tier, "a gate of a suite of this tier") for tier in options.TIERS),
    ]


class Hooks:
    """pytest's hooks, bound to the state of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def pytest_report_header(self) -> str:
        """Say what this run compares with."""
        return summary.header(self.run)

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Take suites."""
        return collect.collect_file(file_path, parent)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Keep secrets out of what is told of a bad suite."""
        report = yield
        outcome.annotate_collected(collector, report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self) -> None:
        """Refuse a run without a suite."""
        collect.refuse_nothing(self.run)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Order what was selected; every plugin that shuffles has done so by now."""
        collect.stop_at_the_limit(session)
        collect.keep_engines_together(session.items)
        self.run.found.selected |= collect.cases_to_run(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run no test where only a plan is wanted."""
        return instead.of_tests(self.run, session)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Close an engine behind its last gate; reruns happen inside."""
        result = yield
        self.run.leave(item, nextitem)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the report its verdict."""
        report = yield
        outcome.annotate(item, report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the verdicts, whichever process reached them."""
        self.run.hear(report)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> outcome.Status | None:
        """Show undecided and softened gates as what they are."""
        return outcome.status(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take in what an xdist worker leaves behind."""
        distribution.receive(self.run, getattr(node, "workeroutput", {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Store baselines, write reports, and settle the exit status."""
        self.run.finish(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdicts."""
        summary.show(terminalreporter, self.run)
        summary.mark(terminalreporter, self.run)

    def pytest_unconfigure(self) -> None:
        """Leave no engine running, whatever happened."""
        self.run.close()
