"""YAML to tests: a suite file holds engines, an engine holds gates.

Collecting reads YAML and prompt files and nothing else: no engine is built, nothing heavy is imported, no
network is touched. A suite is read when its file is first seen, before any selection, so that the number of
its checks is known whatever ``--lf`` or a node id then leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.errors import Location, SpecgateError, SuiteError
from pytest_specgate.plugin import distribution, judging
from pytest_specgate.plugin.keys import RUN
from pytest_specgate.suite.cases import Case, Gate, Suite, expand, gate_id
from pytest_specgate.suite.load import load_suite, shown

if TYPE_CHECKING:
    from pytest_specgate.plugin.run import Run

YAML_ENDINGS = (".yaml", ".yml")
SUITE_ENDINGS = tuple(f".specgate{ending}" for ending in YAML_ENDINGS)


def collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """Take a file that its name or the command line calls a suite; other YAML is remembered."""
    if not file_path.name.endswith(YAML_ENDINGS):
        return None
    if not file_path.name.endswith(SUITE_ENDINGS) and not parent.session.isinitpath(file_path):
        parent.config.stash[RUN].found.passed_over.append(file_path)
        return None
    suite: SuiteFile = SuiteFile.from_parent(parent, path=file_path)
    suite.read()
    # One bad suite must not hide what the others say; pytest has this switch for it, off unless somebody asks.
    parent.config.option.continue_on_collection_errors = True
    return suite


class SuiteFile(pytest.File):
    """A suite file; a mistake in it is one line and stops no other suite."""

    suite: Suite | None = None
    cases: tuple[Case, ...] = ()
    problem: SpecgateError | None = None

    def read(self) -> None:
        """Load the suite and register its checks; a mistake is kept for :meth:`collect` to raise."""
        found = self.config.stash[RUN].found
        try:
            self.suite = load_suite(self.path, self.config.rootpath, os.environ, found.prompt_files)
            self.cases = expand(self.suite)
            self._refuse_shared_name(found.by_name.setdefault(self.suite.name, self.path))
        except SpecgateError as error:
            self.problem = found.mistakes[self.path] = error
        found.suites[self.path] = self.cases

    def _refuse_shared_name(self, first: Path) -> None:
        """Refuse a second suite of a name: they would overwrite, and be judged by, each other's baseline."""
        if first == self.path or self.suite is None:
            return
        run = self.config.stash[RUN]
        what = f"has the name {self.suite.name!r} of {run.shown(first)}, and would share its baseline"
        raise SuiteError(Location(Path(run.shown(self.path))), what, "give one of them another name: 'name: ...'")

    def collect(self) -> Iterator[EngineNode]:
        """Yield one node per engine, in the order of the file."""
        run = self.config.stash[RUN]
        run.found.opened += 1
        if self.problem is not None:
            raise self.CollectError(str(self.problem)) from self.problem
        if self.suite is not None and run.options.takes(self.suite.spec.tier.value):
            run.found.warnings += self.suite.warnings
        for name, cases in groupby(self.cases, key=lambda case: case.engine):
            yield EngineNode.from_parent(self, name=name, suite=self.suite, cases=tuple(cases))


class EngineNode(pytest.Collector):
    """One engine of a suite: the cases that it runs share what it loads."""

    def __init__(self, *, suite: Suite, cases: tuple[Case, ...], **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]  # pytest's own, passed through
        self.suite = suite
        self.cases = cases
        spec = cases[0].engine_spec
        self.extra_keyword_matches.add(spec.kind)
        if spec.candidate is not None:
            self.extra_keyword_matches.add(spec.candidate.method.value)

    def collect(self) -> Iterator[GateItem]:
        """Yield one test per case and gate; the gates of a case stand together."""
        for case in self.cases:
            for gate in case.gates:
                name = gate_id(gate, case)
                # pytest 9.2 parses the ids that --lf remembers, bracket and all, and would not know ours
                # again if it composed them from the name.
                nodeid = f"{self.nodeid}::{name}"
                what = {"suite": self.suite, "case": case, "gate": gate}
                yield GateItem.from_parent(self, name=name, nodeid=nodeid, **what)


class GateItem(pytest.Item):
    """One gate on one case: ``setup`` measures and judges, ``runtest`` says so."""

    def __init__(self, *, suite: Suite, case: Case, gate: Gate, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]  # pytest's own, passed through
        self.suite = suite
        self.case = case
        self.gate = gate
        for name in ("specgate", gate.spec.metric, suite.spec.tier.value):
            self.add_marker(name)
        if not case.scenario.generated:
            category = case.scenario.spec.category.value
            self.extra_keyword_matches.add(category)
            self.add_marker(category.replace("-", "_"))

    @property
    def engine_id(self) -> tuple[Path, str]:
        """What the engine is known by within a run."""
        return self.path, self.case.engine

    def setup(self) -> None:
        """Measure the case unless that is done, and judge; what cannot be judged is an error here."""
        judging.set_up(self)

    def runtest(self) -> None:
        """Raise where the gate fails."""
        judging.tell(self)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> Any:
        """Give the verdict's own text where the gate failed; a traceback is for bugs."""
        text = judging.text_of(excinfo.value)
        return super().repr_failure(excinfo, style) if text is None else text  # type: ignore[arg-type]

    def reportinfo(self) -> tuple[Path, int, str]:
        """Point at the gate's own line, which may stand in a suite that this one extends."""
        location = self.gate.location
        path = self.config.rootpath / location.path
        return path, max(location.line - 1, 0), f"{self.case.engine}::{self.name}"


def keep_engines_together(items: list[pytest.Item]) -> None:
    """Bring the gates of an engine, and of a case, next to each other, in the order of first appearance.

    A shuffled order would load two engines at once, and what the one holds would show in the other's numbers.
    """
    first: dict[object, int] = {}
    for position, item in enumerate(items):
        if isinstance(item, GateItem):
            first.setdefault(item.engine_id, position)
            first.setdefault((*item.engine_id, item.case.slug), position)

    def place(numbered: tuple[int, pytest.Item]) -> tuple[int, int, int]:
        position, item = numbered
        if not isinstance(item, GateItem):
            return position, position, position
        return first[item.engine_id], first[(*item.engine_id, item.case.slug)], position

    items[:] = [item for _, item in sorted(enumerate(items), key=place)]


def cases_to_run(items: list[pytest.Item]) -> set[tuple[Path, str]]:
    """Name the cases that the items ask for, those of a tier that this run leaves out excepted."""
    gates = [item for item in items if isinstance(item, GateItem)]
    return {
        (item.path, item.case.id) for item in gates if item.config.stash[RUN].options.takes(item.suite.spec.tier.value)
    }


def stop_at_the_limit(session: pytest.Session) -> None:
    """Raise Failed where collection errors have used up ``-x`` or ``--maxfail``.

    pytest asks before it collects a file and after it runs a test: behind the last file, a whole case would still
    be measured.
    """
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def refuse_nothing(run: Run) -> None:
    """Raise UsageError where suites were asked for and none was found: an uncollected gate never fails.

    A worker's message would be lost; there the controller says it at the end.
    """
    if run.found.demanded and not run.found.opened and not distribution.is_worker(run.config):
        raise pytest.UsageError(nothing_found(run.found.passed_over, run.config.rootpath))


def nothing_found(passed_over: list[Path], root: Path) -> str:
    """Say that no suite was found, and what was seen instead."""
    what = "--specgate found no suite"
    if not passed_over:
        return f"{what} and no other YAML file — name the folder that holds your *.specgate.yaml files"
    names = [str(shown(path, root)) for path in sorted(set(passed_over))]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    hint = "name suites *.specgate.yaml, or pass a file's path on the command line"
    return f"{what}; passed over: {', '.join(names[:10])}{more} — {hint}"
