"""The progress line on a terminal, in a log, and where it must be silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.plugin import progress

from .conftest import PASS, Project

ALL_OF_IT = "from pytest_specgate.plugin import progress\nprogress.LOG_SECONDS = progress.TERMINAL_SECONDS = 0.0\n"


@pytest.fixture
def chatty(project: Project) -> Project:
    """A project in which every line is due at once."""
    project.write("conftest.py", ALL_OF_IT)
    project.suite(PASS)
    return project


@pytest.mark.parametrize("how", [(), ("-v",), ("-s",), ("--capture=sys",)])
def test_a_log_gets_plain_lines(chatty: Project, how: tuple[str, ...]) -> None:
    result = chatty.python("--specgate", "-p", "no:randomly", *how)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["specgate: tiny: starting", "specgate: tiny::qa-t0-c1: round 1/2, prompt 1/6, *"])


def test_quiet_is_quiet(chatty: Project) -> None:
    result = chatty.python("--specgate", "-p", "no:randomly", "-q")

    result.stdout.no_fnmatch_line("specgate: tiny*")


def test_a_short_run_says_nothing(project: Project) -> None:
    project.suite(PASS)

    result = project.python("--specgate", "-p", "no:randomly")

    result.stdout.no_fnmatch_line("specgate: tiny*")


def test_a_terminal_gets_one_line_that_is_removed(chatty: Project) -> None:
    pytest.importorskip("pexpect")
    child = chatty.pytester.spawn_pytest("--specgate -p no:randomly suites")
    text = child.read().decode()
    log: Path = chatty.path / "screen.txt"
    log.write_text(text)

    lines = text.replace("\r\n", "\n").split("\n")
    assert any(line.count("\rtiny::qa-t0-c1: round") >= 2 for line in lines)
    assert not any(line.startswith("specgate: tiny") for line in lines)


def test_progress_reads_its_pace_when_it_speaks() -> None:
    assert progress.LOG_SECONDS == 30.0
