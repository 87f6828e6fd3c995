"""What pytest-xdist changes: which modes are refused, and what a worker tells the controller at its end.

Verdicts travel on reports; measurements and what was found travel in ``workeroutput``. Nothing here needs
xdist to be installed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import masking
from pytest_specgate.codec import decode, encode
from pytest_specgate.records import Measurement
from pytest_specgate.suite.cases import expand
from pytest_specgate.suite.matrix import Grid

if TYPE_CHECKING:
    from pytest_specgate.plugin.options import Options
    from pytest_specgate.plugin.run import Run
    from pytest_specgate.report.advised import Wanted
    from pytest_specgate.report.since import Compared
    from pytest_specgate.session import CaseResult

MODES = ("loadscope", "loadfile", "no")


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is one of several that run the tests."""
    return hasattr(config, "workerinput")


def is_distributed(config: pytest.Config) -> bool:
    """Whether this process hands the tests out to workers."""
    return not is_worker(config) and config.getoption("dist", "no") != "no"


def workers(config: pytest.Config) -> int:
    """How many processes share the tests, as seen from one that runs some."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    return int(worker.get("workercount", 1))


def check(config: pytest.Config, chosen: Options) -> None:
    """Raise UsageError for a mode that tears engines apart, or that updates from several processes."""
    if not is_distributed(config):
        return
    for name, wanted in (("update", chosen.update), ("plan", chosen.plan), ("suggest", chosen.suggest is not None)):
        if wanted:
            raise pytest.UsageError(f"--specgate-{name} runs in one process — leave out -n, or use -n 0")
    mode = config.getoption("dist")
    if mode not in MODES:
        what = f"--specgate cannot run with --dist {mode}, which loads an engine in several workers at once"
        raise pytest.UsageError(f"{what} — use --dist loadscope, --dist loadfile or -n 0")


def send(config: pytest.Config, run: Run) -> None:
    """Put what only this worker knows where the controller will find it."""
    output: dict[str, Any] = config.workeroutput  # type: ignore[attr-defined]  # xdist's documented place
    output["specgate"] = {
        "secrets": masking.learned(),
        "suites": run.found.opened,
        "names": names(run),
        "passed_over": [str(path) for path in run.found.passed_over],
        "measurements": {suite: _encoded(taken) for suite, taken in measured(run).items()},
        "baselines": {suite: [encode(one) for one in met] for suite, met in baselines(run).items()},
        "wanted": {suite: encode(asked) for suite, asked in wanted(run).items()},
        "grids": {suite: encode(grid) for suite, grid in grids(run).items()},
        "absent": run.absent,
        "warnings": run.found.warnings,
        "checks": run.checks_by_suite,
    }


def measured(run: Run) -> dict[str, tuple[Measurement, ...]]:
    """List the measurements of this process by suite, named from the root."""
    return {suite: tuple(result.measurement for result in results) for suite, results in _results(run).items()}


def baselines(run: Run) -> dict[str, tuple[Compared, ...]]:
    """List what the measurements of this process were compared with, by suite; nothing while it is replaced."""
    if run.options.update or not run.sessions:
        return {}
    from pytest_specgate.report.since import compared

    met = {
        suite: tuple(compared(result.case.id, result.found.stored) for result in results if result.found)
        for suite, results in _results(run).items()
    }
    return {suite: ones for suite, ones in met.items() if ones}


def names(run: Run) -> dict[str, str]:
    """Name the suites of this process by path from the root."""
    return {session.suite.shown: session.suite.name for session in run.sessions.values()}


def wanted(run: Run) -> dict[str, Wanted]:
    """List what the suites of this process ask of adopting speculation, named from the root."""
    if not run.sessions:
        return {}
    from pytest_specgate.report import advised

    found = {}
    for (path, _), session in run.sessions.items():
        found[run.shown(path)] = advised.wanted(session.suite.spec.advice, run.options.price)
    return found


def grids(run: Run) -> dict[str, Grid]:
    """Where the engines of the suites' matrices stand, for those suites that this process ran something of."""
    found: dict[str, Grid] = {}
    for (path, _), session in run.sessions.items():
        suite, grid = run.shown(path), session.suite.grid
        if grid is not None and suite not in found:
            gates = Counter(case.engine for case in expand(session.suite) for _ in case.gates)
            found[suite] = replace(grid, gates=gates)
    return found


def _results(run: Run) -> dict[str, list[CaseResult]]:
    found: dict[str, list[CaseResult]] = {}
    for (path, _), session in run.sessions.items():
        found.setdefault(run.shown(path), []).extend(session.results())
    return {suite: results for suite, results in found.items() if results}


def _encoded(measurements: tuple[Measurement, ...]) -> list[Any]:
    return [encoded for measurement in measurements if (encoded := _try_encode(measurement)) is not None]


def _try_encode(measurement: Measurement) -> Any:
    try:
        return encode(measurement)
    except ValueError:  # not finite: its gates are errors already, and JSON cannot carry it
        return None


def receive(run: Run, output: dict[str, Any]) -> None:
    """Take in what a worker sent; a worker that crashed sent nothing."""
    sent = output.get("specgate")
    if sent is None:
        return
    masking.learn_all(sent["secrets"])
    run.ending.suites += sent["suites"]
    run.ending.names.update(sent["names"])
    run.found.passed_over += [Path(path) for path in sent["passed_over"]]
    run.ending.checks.update(sent["checks"])
    run.found.warnings += [warning for warning in sent["warnings"] if warning not in run.found.warnings]
    for suite, taken in sent["measurements"].items():
        decoded = tuple(decode(Measurement, one) for one in taken)
        run.ending.measurements[suite] = run.ending.measurements.get(suite, ()) + decoded
    for suite, grid in sent["grids"].items():
        run.ending.grids[suite] = decode(Grid, grid)
    for suite, why in sent["absent"].items():
        run.absent.setdefault(suite, {}).update(why)
    if sent["wanted"]:
        from pytest_specgate.report.advised import Wanted

        run.ending.wanted.update((suite, decode(Wanted, asked)) for suite, asked in sent["wanted"].items())
    if sent["baselines"]:
        from pytest_specgate.report.since import Compared

        for suite, met in sent["baselines"].items():
            known = run.ending.baselines.get(suite, ())
            run.ending.baselines[suite] = known + tuple(decode(Compared, one) for one in met)
