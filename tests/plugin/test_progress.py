"""The progress line on a terminal, in a log, and where it must be silent."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

import pytest

from .conftest import PASS, Project

ALL_OF_IT = "from pytest_specgate import pacing\npacing.LOG_SECONDS = pacing.TERMINAL_SECONDS = 0.0\n"


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
    result.stdout.fnmatch_lines(["specgate: tiny: starting", "specgate: tiny::qa-t0-c1: round 1/8, prompt 1/6, *"])


def test_quiet_is_quiet(chatty: Project) -> None:
    result = chatty.python("--specgate", "-p", "no:randomly", "-q")

    result.stdout.no_fnmatch_line("specgate: tiny*")


def test_a_short_run_says_nothing(project: Project) -> None:
    project.write("conftest.py", "from pytest_specgate import pacing\npacing.LOG_SECONDS *= 100\n")
    project.suite(PASS)

    result = project.python("--specgate", "-p", "no:randomly")

    result.stdout.no_fnmatch_line("specgate: tiny*")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("how", [(), ("-v",), ("-s",)])
def test_a_terminal_gets_one_line_that_is_removed(chatty: Project, how: tuple[str, ...]) -> None:
    screen = _on_a_terminal(chatty, "--specgate", "-p", "no:randomly", "--color=no", *how)

    lines = screen.replace("\r\n", "\n").split("\n")
    (rewritten,) = [line for line in lines if "\rtiny::qa-t0-c1: round" in line]
    assert rewritten.count("\rtiny::qa-t0-c1: round") == 12
    # Blanks over the last state, and whatever pytest prints next from the first column on.
    assert re.search(r"tiny::qa-t0-c1: [^\r]*\r {150,}\r", rewritten)
    assert not any(line.startswith("specgate: tiny") for line in lines)
    assert "1 passed" in screen


def _on_a_terminal(project: Project, *arguments: str) -> str:
    """Everything that pytest writes to a terminal of 160 columns."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(command, cwd=project.path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        read = bytearray()
        # Linux says that the other end is closed by an error.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                read += piece
        process.wait()
    os.close(ours)
    return read.decode()
