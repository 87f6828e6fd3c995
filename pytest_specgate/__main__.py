"""``python -m pytest_specgate``: what is done beside pytest. All but ``study`` run no model.

A mistake is one line, ``specgate: what — what to do``, on standard error, and exit status 4, as pytest's usage errors
have it; Ctrl-C is 2. ``trend`` and ``compare`` answer a question by their exit status, as diff does: there a mistake is
2, and Ctrl-C 130.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from pytest_specgate.commands import compare, export, study, trend
from pytest_specgate.errors import SpecgateError

INTERRUPTED, USAGE = 2, 4
#: Commands whose own statuses 0, 1 and 3 are answers: (a mistake, interrupted).
ANSWERING = {"trend": (2, 130), "compare": (2, 130)}
#: Commands that bring their own arguments, with the line of help that lists them.
_MODULES = {
    "study": (study, "count what the gates of a suite miss and fail wrongly on this machine"),
    "compare": (compare, "compare two stored reports"),
    "export": (export, "write a stored report's answers for another tool"),
    "trend": (trend, "show what metrics did over the runs of a history"),
}
_EXAMPLES = """\
examples:
  pytest --specgate suites/ --specgate-report report.json
  python -m pytest_specgate judge report.json
  python -m pytest_specgate judge report.json --suites ../other-checkout --strict
  python -m pytest_specgate study suites/smoke.specgate.yaml --builds 60 --plant delay=15%
  python -m pytest_specgate compare main.json branch.json
  python -m pytest_specgate trend history
  python -m pytest_specgate schema suite > suite.schema.json
"""
_JUDGE = """\
Judge the measurements of a stored report again, by what its suites and the baselines say now. No model is loaded:
use it to see what other limits would have said.

exit status:
  0  nothing fails the build
  1  a gate fails it or could not be judged, or no gate of an engine was decided
  2  interrupted, now or when the report was written
  4  a mistake in the command, or an unreadable report or suite
"""
_JUDGE_EXAMPLES = """\
examples:
  python -m pytest_specgate judge report.json
  python -m pytest_specgate judge ci/report.json --suites . --baselines baselines
  python -m pytest_specgate judge ci/report.json --report ci/report.html --price 2.50/h
"""


class _Parser(argparse.ArgumentParser):
    """Says a mistake in one line; argparse would print the usage before it."""

    def error(self, message: str) -> NoReturn:
        usage, _ = _statuses(self.prog.rpartition(" ")[2])
        self.exit(usage, f"specgate: {message} — see {self.prog} --help\n")


def _statuses(command: str) -> tuple[int, int]:
    return ANSWERING.get(command, (USAGE, INTERRUPTED))


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    top = _Parser(
        prog="python -m pytest_specgate",
        description="Gates for speculative decoding: the commands beside pytest.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    judge = commands.add_parser(
        "judge",
        help="judge a stored report again",
        description=_JUDGE,
        epilog=_JUDGE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    judge.add_argument("report", type=Path, metavar="REPORT.json", help="a file that --specgate-report wrote")
    where = "folder that the report's suite paths start from (default: the current one)"
    judge.add_argument("--suites", type=Path, default=Path(), metavar="DIR", help=where)
    stored = "folder of baselines (default: baselines in the suites' folder)"
    judge.add_argument("--baselines", type=Path, metavar="DIR", help=stored)
    judge.add_argument("--strict", action="store_true", help="fail where a gate stays undecided")
    written = "write what was judged as a report (.html, .json, .md); may be given more than once"
    judge.add_argument("--report", dest="faces", type=Path, action="append", default=[], metavar="PATH", help=written)
    judge.add_argument("--price", metavar="PRICE", help="price of an hour of one GPU, such as 2.50/h, for advice")
    for name, (module, help_text) in _MODULES.items():
        module.add_arguments(
            commands.add_parser(
                name,
                help=help_text,
                description=module.DESCRIPTION,
                epilog=module.EXAMPLES,
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
        )
    schema = commands.add_parser("schema", help="print the JSON Schema of a file format", allow_abbrev=False)
    schema.add_argument("format", choices=("suite", "baseline", "report", "history"), help="which files it describes")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    chosen = parser().parse_args(arguments)
    try:
        status = _run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away, as head does; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SpecgateError as error:
        sys.stderr.write(f"specgate: {_one_line(error)}\n")
        return _statuses(chosen.command)[0]
    except KeyboardInterrupt:
        sys.stderr.write("specgate: interrupted — run it again\n")
        return _statuses(chosen.command)[1]
    return status


def _one_line(error: SpecgateError) -> str:
    from pytest_specgate.report.escape import flat

    return flat(str(error))


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "schema":
        from pytest_specgate.commands import schema

        return schema.show(chosen.format, sys.stdout)
    if chosen.command in _MODULES:
        module, _ = _MODULES[chosen.command]
        return int(module.show(chosen, sys.stdout))
    from pytest_specgate.commands import judge

    baselines = chosen.baselines or chosen.suites / "baselines"
    ask = judge.Ask(chosen.report, chosen.suites, baselines, chosen.strict, tuple(chosen.faces), chosen.price)
    return judge.show(ask, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
