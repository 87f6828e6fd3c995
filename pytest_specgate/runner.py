"""Run a whole suite without pytest, and say what its verdicts come to: for notebooks, services and the commands.

What fails a build is the same as under pytest: a FAIL that nothing softens, an ERROR, an undecided gate where the
policy is ``prove``, and an engine none of whose gates was ever decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from pytest_specgate.errors import SpecgateError
from pytest_specgate.measure.budget import TimeBudget
from pytest_specgate.measure.requirements import requirements_unmet
from pytest_specgate.outcomes import must_decide, never_decided
from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.report.advice import advise
from pytest_specgate.report.advised import wanted
from pytest_specgate.report.document import Report, new_report
from pytest_specgate.report.matrices import tabulated
from pytest_specgate.report.since import Compared, compared
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.cases import Case, Gate, Suite, expand
from pytest_specgate.suite.checks import checks_in
from pytest_specgate.suite.load import load_suite, shown


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with the gate that gave it and the suite that holds the gate."""

    suite: Suite
    gate: Gate
    verdict: Verdict

    def fails(self, *, strict: bool = False) -> bool:
        """Whether this verdict fails the build; ``strict`` lets undecided gates fail it too."""
        if self.verdict.outcome is Outcome.INCONCLUSIVE:
            return must_decide(self.suite, self.gate, strict=strict)
        return self.verdict.outcome is not Outcome.PASS and not self.verdict.softened


def undecided(judged: Iterable[Judged]) -> list[str]:
    """One line for each engine whose gates were judged and none decided, for then nothing was gated."""
    outcomes: dict[str, set[Outcome]] = {}
    for one in judged:
        engine = one.verdict.case.partition("::")[0]
        outcomes.setdefault(f"{one.suite.name}: {engine}", set()).add(one.verdict.outcome)
    return never_decided(outcomes)


def exit_status(judged: Sequence[Judged], *, strict: bool = False) -> int:
    """1 where the build fails, else 0."""
    return int(any(one.fails(strict=strict) for one in judged) or bool(undecided(judged)))


def run(
    suite_path: str | PathLike[str],
    *,
    baselines: str | PathLike[str] = "baselines",
    device: str | None = None,
    budget: float | None = None,
    price: float | None = None,
) -> Report:
    """Measure and judge every case of a suite, of any tier, in this process; nothing is stored.

    ``baselines`` is the folder of stored numbers, ``device`` overrides the suite's (``cpu``, ``cuda:1``, ``mps``), and
    ``budget`` is the time for measuring in seconds; cases that are clear early leave theirs to the others. ``price`` is
    that of an hour of one device, for advice on costs. A case that cannot be measured, or whose baseline cannot be
    read, yields ERROR verdicts. The report's ``exit_status`` is 1 where the build should fail, else 0.

    Raises SuiteError and PromptError for a suite that cannot be read, and SpecgateError where this machine lacks what
    the suite requires.
    """
    path = Path(suite_path).resolve()
    root = Path.cwd() if path.is_relative_to(Path.cwd()) else path.parent
    suite = load_suite(path, root)
    cases = expand(suite)
    time = None if budget is None else TimeBudget(budget, len(cases))
    settings = Settings(baselines=Path(baselines), device=device, time=time)
    if reason := requirements_unmet(suite.spec.requires, device):
        raise SpecgateError(f"{shown(path, root)}: {reason} — run it on a machine that has it")
    judged: list[Judged] = []
    measured: list[Measurement] = []
    met: list[Compared] = []
    absent: dict[str, str] = {}
    for engine in dict.fromkeys(case.engine for case in cases):
        if reason := requirements_unmet(suite.spec.engines[engine].requires, device):
            absent[engine] = reason
            continue
        session = SuiteSession(suite, engine, settings, checks_in(cases))
        try:
            judged += judge_all(session, [case for case in cases if case.engine == engine])
        finally:
            session.close()
        measured += [result.measurement for result in session.results()]
        met += [compared(result.case.id, result.found.stored) for result in session.results() if result.found]
    warnings = [*suite.warnings, *(f"{engine}: not run: {why}" for engine, why in absent.items()), *undecided(judged)]
    verdicts = [one.verdict for one in judged]
    name = str(shown(path, root))
    measurements = {name: tuple(measured)} if measured else {}
    report = new_report(verdicts, measurements, exit_status(judged), {}, warnings)
    asked = {name: wanted(suite.spec.advice, price)}
    met_by_suite = {name: tuple(met)} if met else {}
    report = replace(report, baselines=met_by_suite, checks={name: checks_in(cases)}, wanted=asked)
    return advise(tabulated(report, {name: suite.grid} if suite.grid else {}, {name: absent}))


def judge_all(session: SuiteSession, cases: Iterable[Case]) -> list[Judged]:
    """The verdict of every gate on every one of the cases, in the suite's order."""
    return [Judged(session.suite, gate, session.judge(gate, case)) for case in cases for gate in case.gates]
