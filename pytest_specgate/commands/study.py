"""``study``: how often the gates of a suite fail unchanged builds, and how often they see a planted loss.

Finished builds are kept in the study's folder, so that the same command goes on after Ctrl-C or a kill.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pytest_specgate.errors import SpecgateError

if TYPE_CHECKING:
    from pytest_specgate.engines.plants import Plant
    from pytest_specgate.study.plan import Plan

INTERRUPTED = 2
DESCRIPTION = """\
Before a gate blocks: run N unchanged builds and N with each planted loss on this machine, and count how often each
gate fails, detects, or cannot tell. A baseline is recorded first, into the study's folder; the project's own baselines
are never touched. Stop it at any time: the same command goes on where it ended.

plants, each in the candidate arm alone (may be given more than once):
  delay=15%        generation takes 15 % longer
  acceptance=0.05  5 % of the rounds that accept something lose their first draft token
  memory=64MiB     the process holds 64 MiB more
  leak=1MiB        the process keeps 1 MiB more with every request
  sampler=0.1      sampling at a temperature 0.1 higher, greedy requests included

exit status:
  0  the study is complete
  1  some gate could not be judged (ERROR) in some build
  2  interrupted; what is finished is kept
  4  a mistake in the command or the suite, or no baseline can be recorded
"""
EXAMPLES = """\
examples:
  python -m pytest_specgate study suites/smoke.specgate.yaml --builds 60
  python -m pytest_specgate study suites/smoke.specgate.yaml --engine lookup --plant delay=15% --plant acceptance=0.1
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Offer the command's options."""
    command.add_argument("suite", type=Path, metavar="SUITE", help="a suite file (*.specgate.yaml)")
    many = "builds of each kind (default: 20); 0 failures of 59 show a rate below 5 %%, of 299 below 1 %%"
    command.add_argument("--builds", type=int, default=20, metavar="N", help=many)
    command.add_argument("--plant", action="append", default=[], metavar="LOSS", help="a loss, such as delay=15%%")
    only = "study this engine alone; may be given more than once"
    command.add_argument("--engine", action="append", default=[], metavar="NAME", help=only)
    command.add_argument("--scenario", action="append", default=[], metavar="NAME", help="as --engine")
    folder = "folder of the study (default: specgate-study/SUITE)"
    command.add_argument("--out", type=Path, metavar="DIR", help=folder)
    command.add_argument("--json", type=Path, metavar="PATH", help="write the figures as JSON, too")
    sessions = "processes that record the baseline, one by one, as --specgate-update-sessions (default: 1)"
    command.add_argument("--baselines-sessions", type=int, default=1, metavar="N", help=sessions)
    command.add_argument("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, mps, whatever the suite says")
    command.add_argument("--trust-remote-code", action="store_true", help="let models bring their own Python code")
    pickled = "let model weights be unpickled, which can run code"
    command.add_argument("--allow-pickle", action="store_true", help=pickled)


def show(chosen: argparse.Namespace, out: TextIO) -> int:
    """Make the builds that are missing and write the tables; the exit status. Raises SpecgateError."""
    from pytest_specgate.commands import study_table
    from pytest_specgate.commands.progress import Progress
    from pytest_specgate.masking import masker
    from pytest_specgate.report.escape import ascii_alone
    from pytest_specgate.study import ledger, tally
    from pytest_specgate.study.run import run

    plan = _plan(chosen)
    progress = Progress(sys.stderr)
    try:
        builds = run(plan, progress)
    except KeyboardInterrupt:
        progress.clear()
        done = len(ledger.read(plan.out))
        sys.stderr.write(f"specgate: interrupted after {done} of {plan.total} builds — the same command goes on\n")
        return INTERRUPTED
    finally:
        progress.clear()
    report = tally.tally(plan, builds)
    if chosen.json:
        tally.write(chosen.json, report)
    ascii_only = ascii_alone(out)
    lines = map(masker(os.environ), study_table.lines(report, ascii_only=ascii_only))
    out.writelines(f"{line}\n" for line in lines)
    return int(report.errors > 0)


def _plan(chosen: argparse.Namespace) -> Plan:
    from pytest_specgate.study.plan import Plan
    from pytest_specgate.suite.load import load_suite

    for option, value in (("--builds", chosen.builds), ("--baselines-sessions", chosen.baselines_sessions)):
        if value < 1:
            raise SpecgateError(f"{option}: {value} is none — give 1 or more")
    plants = tuple(dict.fromkeys(map(_plant, chosen.plant)))
    path = chosen.suite.resolve()
    if not path.is_file():
        raise SpecgateError(f"{chosen.suite}: no such file — name a suite, such as suites/smoke.specgate.yaml")
    suite = load_suite(path, Path.cwd() if path.is_relative_to(Path.cwd()) else path.parent)
    return Plan(
        suite=suite,
        out=chosen.out or Path("specgate-study") / suite.name,
        builds=chosen.builds,
        plants=plants,
        engines=tuple(chosen.engine),
        scenarios=tuple(chosen.scenario),
        sessions=chosen.baselines_sessions,
        device=chosen.device,
        allow_remote_code=chosen.trust_remote_code,
        allow_pickle=chosen.allow_pickle,
    )


def _plant(text: str) -> Plant:
    from pytest_specgate.engines.plants import parse_plant

    try:
        return parse_plant(text)
    except ValueError as error:
        raise SpecgateError(f"--plant: {error}") from error
