"""The state of one active run: what was found, which engines are up, what was judged, and how it ends.

Engines belong to this object and not to pytest's collectors, for reruns and shuffled orders set a collector
up more than once. Every process of a distributed run has its own; only the controller's knows all verdicts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.plugin import distribution, options, transport
from pytest_specgate.plugin.ending import Ending
from pytest_specgate.plugin.options import Options
from pytest_specgate.plugin.progress import Progress
from pytest_specgate.records import Verdict
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.checks import checks_in
from pytest_specgate.suite.load import shown
from pytest_specgate.suite.prompts import PromptFiles

if TYPE_CHECKING:
    from pytest_specgate.errors import SpecgateError
    from pytest_specgate.measure.budget import TimeBudget
    from pytest_specgate.plugin.collect import GateItem
    from pytest_specgate.selftest import Rehearsal
    from pytest_specgate.session import SuiteSession
    from pytest_specgate.settings import Settings

EngineId = tuple[Path, str]


@dataclass(slots=True)
class Found:
    """What collection saw: suites with their cases (none for a bad one), and YAML files that are no suites.

    ``suites`` are all that were read, and ``opened`` counts those that the command line leads to: pytest shows us a
    folder's other files too. ``selected`` are the cases left by ``-k`` and its like, by suite and id. ``demanded``
    says that a run without any suite is an error: always, except where only an ini file asks for suites and the
    command line names what to run.
    """

    demanded: bool
    prompt_files: PromptFiles
    suites: dict[Path, tuple[Case, ...]] = field(default_factory=dict)
    opened: int = 0
    by_name: dict[str, Path] = field(default_factory=dict)
    passed_over: list[Path] = field(default_factory=list)
    selected: set[tuple[Path, str]] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    mistakes: dict[Path, SpecgateError] = field(default_factory=dict)


class Run:
    """Everything about one run; kept under ``keys.RUN``."""

    def __init__(self, config: pytest.Config, chosen: Options) -> None:
        self.config = config
        self.options = chosen
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        self.found = Found(options.given(config) or not named, PromptFiles(config.rootpath))
        self.sessions: dict[EngineId, SuiteSession] = {}
        self.rehearsals: dict[EngineId, Rehearsal] = {}
        self.skip_reasons: dict[Path | EngineId, str | None] = {}
        #: By suite, named from the root, and engine: what the machine lacks for it.
        self.absent: dict[str, dict[str, str]] = {}
        #: By node id, in the order in which they were reached.
        self.verdicts: dict[str, Verdict] = {}
        #: Cases of which a gate failed, by engine.
        self.failed: dict[EngineId, set[str]] = {}
        self.ending = Ending()
        #: Lines that a run without tests prints instead of verdicts.
        self.instead: list[str] = []
        self._began = time.monotonic()
        self.progress = Progress(config)
        self._settings: Settings | None = None

    @property
    def seconds(self) -> float:
        """How long this run has taken so far."""
        return time.monotonic() - self._began

    @property
    def settings(self) -> Settings:
        """What a session needs to know of the options."""
        if self._settings is None:
            from pytest_specgate.settings import Settings

            chosen = self.options
            self._settings = Settings(
                baselines=chosen.baselines,
                update=chosen.update,
                update_only=chosen.update_only,
                update_sessions=chosen.update_sessions,
                accept_loss=chosen.accept_loss,
                device=chosen.device,
                time=self._time_budget(),
                strict=chosen.strict,
                allow_remote_code=chosen.allow_remote_code,
                allow_pickle=chosen.allow_pickle,
                allow_code=chosen.allow_code,
                progress=self.progress,
            )
        return self._settings

    def _time_budget(self) -> TimeBudget | None:
        """Time for the cases that were selected; a worker of several is likely to run its part of them."""
        if self.options.budget is None:
            return None
        from pytest_specgate.measure.budget import TimeBudget

        cases = len(self.found.selected) / distribution.workers(self.config)
        return TimeBudget(self.options.budget, max(round(cases), 1))

    @property
    def checks(self) -> int:
        """Statistical checks of all suites: no selection (``-k``, ``--lf``, node id) changes a verdict."""
        return sum(self.checks_by_suite.values())

    @property
    def checks_by_suite(self) -> dict[str, int]:
        """The same by suite, named from the root."""
        return {self.shown(path): checks_in(cases) for path, cases in self.found.suites.items()}

    def shown(self, path: Path) -> str:
        """Name a file from the root, where it lies below it."""
        return str(shown(path, self.config.rootpath))

    def skip_reason(self, item: GateItem) -> str | None:
        """Why this run leaves the item's suite or engine alone, or None; looked up once for each."""
        return self._skip_suite(item) or self._skip_engine(item)

    def _skip_engine(self, item: GateItem) -> str | None:
        requires, engine = item.case.engine_spec.requires, item.engine_id
        if engine not in self.skip_reasons and requires.model_fields_set:
            from pytest_specgate.measure.requirements import requirements_unmet

            reason = requirements_unmet(requires, self.options.device)
            self.skip_reasons[engine] = reason
            if reason:
                self.absent.setdefault(self.shown(item.path), {})[item.case.engine] = reason
        return self.skip_reasons.get(engine)

    def _skip_suite(self, item: GateItem) -> str | None:
        path = item.path
        if path not in self.skip_reasons:
            tier = item.suite.spec.tier.value
            if self.options.takes(tier):
                from pytest_specgate.measure.requirements import requirements_unmet

                self.skip_reasons[path] = requirements_unmet(item.suite.spec.requires, self.options.device)
            else:
                self.skip_reasons[path] = f"tier {tier} runs with --specgate-tier {tier}"
        return self.skip_reasons[path]

    def session(self, item: GateItem) -> SuiteSession:
        """Give the session of the item's engine, which starts when a case is first measured."""
        if item.engine_id not in self.sessions:
            from pytest_specgate.session import SuiteSession

            opened = SuiteSession(item.suite, item.case.engine, self.settings, self.checks)
            self.sessions[item.engine_id] = opened
        return self.sessions[item.engine_id]

    def judge(self, item: GateItem) -> Verdict | None:
        """Judge the item's gate, or in a selftest the gate itself; None where nothing tests it."""
        if not self.options.selftest:
            return self.session(item).judge(item.gate, item.case)
        if item.engine_id not in self.rehearsals:
            from pytest_specgate.selftest import Rehearsal

            opened = Rehearsal(item.suite, item.case.engine, self.settings, self.checks)
            self.rehearsals[item.engine_id] = opened
        return self.rehearsals[item.engine_id].judge(item.gate, item.case)

    def ordered(self) -> list[Verdict]:
        """List the verdicts, engine by engine; workers report theirs as they come."""
        if not distribution.is_distributed(self.config):
            return list(self.verdicts.values())
        by_engine = sorted(self.verdicts, key=lambda nodeid: nodeid.rsplit("::", 1)[0])
        return [self.verdicts[nodeid] for nodeid in by_engine]

    def leave(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Close the item's engine unless the next item uses it too."""
        engine: EngineId | None = getattr(item, "engine_id", None)
        if engine is not None and engine != getattr(following, "engine_id", None):
            self._close(engine)

    def hear(self, report: pytest.TestReport) -> None:
        """Take the verdict off a report, in the controller."""
        verdict = transport.verdict_of(report)
        if verdict is None or distribution.is_worker(self.config):
            return
        known = report.nodeid in self.verdicts
        self.verdicts[report.nodeid] = verdict
        if not known:
            self.config.hook.pytest_specgate_verdict(config=self.config, verdict=verdict)

    def finish(self, session: pytest.Session) -> None:
        """Settle the run: engines closed, baselines stored, reports written, exit status set."""
        self.close()
        if distribution.is_worker(self.config):
            distribution.send(self.config, self)
        else:
            self.ending.settle(session, self)

    def close(self) -> None:
        """Close every engine; may be called twice."""
        self.progress.clear()
        for engine in (*self.sessions, *self.rehearsals):
            self._close(engine)

    def _close(self, engine: EngineId) -> None:
        for session in (self.sessions.get(engine), self.rehearsals.get(engine)):
            if session is not None:
                with self.ending.outlived(f"closing {engine[1]}"):
                    session.close()
