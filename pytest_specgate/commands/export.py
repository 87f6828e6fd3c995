"""``export``: a stored report's answers in the form of another tool, so far Spec-Bench.

Categories are those of the prompt files where the report's suites lie at hand; else a question's category is its
scenario's name. Exit status 0, or 4 for a mistake in the command or a report that cannot be exported.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pytest_specgate.errors import SpecgateError
from pytest_specgate.files import write_atomically
from pytest_specgate.masking import masker

if TYPE_CHECKING:
    from pytest_specgate.report.document import Report

DESCRIPTION = """\
Write the answers of a stored report as Spec-Bench's scripts read them: OUT.jsonl holds the candidate arm's, and
OUT-vanilla.jsonl those of the target alone. Each question's choices are the rounds of measuring.
"""
EXAMPLES = """\
examples:
  python -m pytest_specgate export report.json --spec-bench answers.jsonl
  python -m pytest_specgate export report.json --spec-bench answers.jsonl --case draft::short-qa-t0-c1
"""
#: Categories of ours that Spec-Bench calls otherwise.
_THEIRS = {"math": "math_reasoning"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("report", type=Path, metavar="REPORT.json", help="a file that --specgate-report wrote")
    where = "the candidate arm's answers; the reference arm's get -vanilla in their name"
    parser.add_argument("--spec-bench", type=Path, required=True, metavar="OUT.jsonl", help=where)
    which = "cases whose id holds this text (default: all, which must not share a question)"
    parser.add_argument("--case", default="", metavar="TEXT", help=which)
    folder = "folder that the report's suite paths start from (default: the current one)"
    parser.add_argument("--suites", type=Path, default=Path(), metavar="DIR", help=folder)


def show(chosen: argparse.Namespace, out: TextIO) -> int:
    """Write both files and say so. Raises SpecgateError."""
    from pytest_specgate.report import document, faces, specbench

    report = faces.hidden(document.read(chosen.report), masker(os.environ))
    found = specbench.answers(specbench.chosen(report, chosen.case), report.created, _categories(report, chosen.suites))
    path: Path = chosen.spec_bench
    other = path.with_name(f"{path.stem}-vanilla{path.suffix}")
    for target, lines in ((path, found.candidate), (other, found.reference)):
        write_atomically(target, "".join(f"{line}\n" for line in lines))
        out.write(f"{target}: {len(lines)} questions\n")
    return 0


def _categories(report: Report, folder: Path) -> dict[str, str]:
    from pytest_specgate.suite.load import load_suite

    found: dict[str, str] = {}
    for name in report.measurements:
        try:
            suite = load_suite(folder / name, folder)
        except (SpecgateError, OSError):
            continue  # the report alone must do
        for scenario in suite.scenarios:
            own = scenario.spec.category.value
            found.update((c.id, c.category or _THEIRS.get(own, own)) for c in scenario.conversations)
    return found
