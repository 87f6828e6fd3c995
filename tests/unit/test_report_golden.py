"""What a whole run reads like in the terminal and as Markdown: golden files of a run whose every number is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.report.failure import failure_text
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.outline import outline
from pytest_specgate.report.phrases import composition, since
from pytest_specgate.report.terminal import advice_lines, lines
from tests.unit.reporting import fixed

GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_job_summary_reads_like_the_golden_one() -> None:
    assert markdown(fixed()) == (GOLDEN / "run.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "ascii_only"), [("run.txt", False), ("run-ascii.txt", True)])
def test_the_terminal_reads_like_the_golden_one(name: str, ascii_only: bool) -> None:
    report = fixed()
    told = [*lines(report.verdicts, 120, ascii_only=ascii_only), *advice_lines(report.advice, ascii_only=ascii_only)]

    assert "\n".join(told) + "\n" == (GOLDEN / name).read_text(encoding="utf-8")


def test_without_a_baseline_a_speed_is_told_in_its_parts() -> None:
    (view,) = outline(fixed())
    assert view.measurement is not None

    (said,) = composition(view.measurement, view.samples)
    assert said == (
        "a round yields 3.00 tokens and takes drafting 13.6 ms, the target's forward 21 ms, the loop 5.4 ms; "
        "the target alone takes 20.02 ms a token; without the loop's own work it would be 1.65x"
    )
    assert composition(replace(view.measurement, costs=None), view.samples) == []


def test_a_failure_opens_with_what_explains_it() -> None:
    report = fixed()
    (view,) = outline(report)
    text = failure_text(report.verdicts[0], view.measurement, since(view)).splitlines()

    assert text[0].startswith("s.specgate.yaml:9:5: speedup on pair::qa-t0-c1: speedup fell by 13.0%")
    assert text[1].startswith("  speedup 1.726x → 1.502x (-13.0%): draft forward 2.1 ms → 3.4 ms explains ")
