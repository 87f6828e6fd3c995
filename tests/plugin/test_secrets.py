"""Secrets of the environment in everything that a run writes: terminal, progress, JUnit, reports."""

from __future__ import annotations

import os

import pytest

from .conftest import FAIL, PASS, UNDECIDED, Project

SECRET = "sk-correct-horse-battery"
LEAKY = """
import os, sys
from dataclasses import replace
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import EngineError

SECRET = os.environ["MY_API_KEY"]

class Leaky(ScriptedEngine):
    def start(self):
        print("connecting with", SECRET)

    def generate(self, requests, arm):
        return [replace(trace, text=f"{arm.value} says {SECRET}") for trace in super().generate(requests, arm)]

    def subject(self):
        return {**super().subject(), "endpoint": SECRET}

class Refused(Leaky):
    def start(self):
        raise EngineError("tiny", f"the server refuses {SECRET}", f"ask for another than {SECRET}")
"""
CHATTY = "from pytest_specgate import pacing\npacing.LOG_SECONDS = 0.0\n"
DIVERGED = {"metric": "exact_match", "limit": "==100%"}


@pytest.fixture
def leaky(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose engine says the secret wherever it can, and in which every line of progress is due."""
    monkeypatch.setenv("MY_API_KEY", SECRET)
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=os.pathsep)
    project.write("leaky.py", LEAKY)
    project.write("conftest.py", CHATTY)
    return project


def _engine(name: str, **options: object) -> dict[str, object]:
    return {"engines": {"tiny": {"kind": f"leaky:{name}", "options": options}}}


def _written(project: Project, *arguments: str) -> tuple[str, str]:
    """What a run wrote to its terminal, and to its files."""
    files = ("--junitxml=junit.xml", "--specgate-report=out.json", "-o", "junit_logging=all")
    result = project.python("--specgate", "-p", "no:randomly", *files, *arguments)
    stored = [path for path in project.path.rglob("*.*") if path.suffix in (".xml", ".json")]
    return result.stdout.str() + result.stderr.str(), "".join(path.read_text() for path in stored)


@pytest.mark.parametrize("how", [(), ("-v", "-rA"), ("-n2", "--dist=loadscope"), ("--full-trace",)])
def test_a_gate_that_fails(leaky: Project, how: tuple[str, ...]) -> None:
    leaky.suite(PASS, FAIL, DIVERGED, **_engine("Leaky", fault="diverge"))

    terminal, files = _written(leaky, *how)

    assert SECRET not in terminal + files
    assert "reference (id" in terminal
    assert ": reference says ********" in terminal
    assert "connecting with ********" in files


@pytest.mark.parametrize("how", [(), ("-n2", "--dist=loadscope"), ("--full-trace",)])
def test_an_engine_that_cannot_start(leaky: Project, how: tuple[str, ...]) -> None:
    leaky.suite(PASS, **_engine("Refused"))

    terminal, files = _written(leaky, *how)

    assert SECRET not in terminal + files
    assert "the server refuses ******** — ask for another than ********" in terminal
    assert "tiny: the server refuses ********" in files


def test_an_update(leaky: Project) -> None:
    leaky.suite(PASS, **_engine("Leaky"))
    _written(leaky, "--specgate-update")
    leaky.write("leaky.py", LEAKY.replace('"endpoint": SECRET', '"endpoint": "none, not " + SECRET'))

    terminal, files = _written(leaky, "--specgate-update")

    assert SECRET not in terminal + files
    assert "  endpoint: ******** → none, not ********" in terminal


def test_a_name_that_is_a_secret_and_the_progress_line(leaky: Project) -> None:
    engine = _engine("Leaky")["engines"]["tiny"]  # type: ignore[index]
    leaky.suite(PASS, UNDECIDED, engines={SECRET: engine})

    terminal, files = _written(leaky)

    # pytest itself prints the node's id; what is ours is masked.
    ours = [line for line in terminal.splitlines() if line.startswith(("specgate: ", "suites/", "INCONCLUSIVE"))]
    assert "specgate: ********: starting" in ours
    assert "suites/demo.specgate.yaml · ********" in ours
    assert SECRET not in "".join(ours)
    assert '"case": "********::qa-t0-c1"' in files


@pytest.mark.parametrize("how", [(), ("-n2", "--dist=loadscope"), ("--full-trace",)])
def test_a_bad_suite(leaky: Project, how: tuple[str, ...]) -> None:
    leaky.suite(PASS, **_engine("Leaky"), tier=SECRET)

    terminal, files = _written(leaky, *how)

    assert SECRET not in terminal + files
    assert "suites/demo.specgate.yaml:4:7: 'tier' cannot be '********' — choose one of" in terminal
    assert "'tier' cannot be '********'" in files


def test_a_run_without_secrets_is_left_as_it_is(leaky: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "short")
    leaky.suite(DIVERGED, **_engine("Leaky", fault="diverge"))

    terminal, files = _written(leaky)

    assert ": reference says short" in terminal
    assert "********" not in terminal + files
