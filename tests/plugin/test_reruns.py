"""pytest-rerunfailures and pytest-randomly set collectors up again; an engine still starts once."""

from __future__ import annotations

import pytest

from .conftest import FAIL, PASS, UNDECIDED, Project

ENGINE = """
from pytest_specgate.engines.scripted import ScriptedEngine

class Loud(ScriptedEngine):
    def start(self):
        super().start()
        self.log("start")

    def close(self):
        super().close()
        self.log("close")

    def generate(self, requests, arm):
        if not hasattr(self, "seen"):
            self.seen = True
            self.log("generate")
        return super().generate(requests, arm)

    def log(self, what):
        with open("log.txt", "a") as file:
            file.write(f"{self._name} {what}\\n")
"""
ENGINES = {name: {"kind": "loud:Loud"} for name in ("one", "two")}
CASES = {name: {"category": "qa", "prompts": "prompts/p.jsonl"} for name in ("a", "b", "c")}


@pytest.fixture
def loud(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write("loud.py", ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(project.path))
    return project


def _log(project: Project) -> list[str]:
    return (project.path / "log.txt").read_text().splitlines()


def test_an_engine_starts_once_and_is_closed_before_the_next(loud: Project) -> None:
    loud.suite(PASS, UNDECIDED, engines=ENGINES, scenarios=CASES)

    loud.python("--specgate", "-p", "no:randomly")

    assert _log(loud) == ["one start", "one generate", "one close", "two start", "two generate", "two close"]


def test_a_rerun_repeats_the_verdict_and_measures_nothing(loud: Project) -> None:
    loud.suite(PASS, FAIL, engines=ENGINES)

    result = loud.python("--specgate", "-p", "no:randomly", "--reruns=2")

    assert result.parseoutcomes() == {"passed": 2, "failed": 2, "rerun": 4}
    assert _log(loud) == ["one start", "one generate", "one close", "two start", "two generate", "two close"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_shuffled_order_keeps_engines_together(loud: Project, seed: int) -> None:
    loud.suite(PASS, UNDECIDED, engines=ENGINES, scenarios=CASES)

    result = loud.python("--specgate", f"--randomly-seed={seed}")

    assert result.ret == 0
    assert sum(result.parseoutcomes().values()) == 12
    assert sorted(_log(loud)) == sorted(f"{name} {what}" for name in ENGINES for what in ("start", "generate", "close"))
    assert [line.split()[1] for line in _log(loud)] == ["start", "generate", "close"] * 2


def test_an_engine_that_crashes_is_closed(loud: Project) -> None:
    loud.suite(PASS, engines={"one": {"kind": "loud:Loud", "options": {"fault": "crash"}}})

    loud.python("--specgate", "-p", "no:randomly").assert_outcomes(errors=1)

    assert _log(loud)[-1] == "one close"


def test_an_interrupted_engine_is_closed(loud: Project) -> None:
    loud.suite(PASS, engines={"one": {"kind": "loud:Loud", "options": {"fault": "interrupt"}}})

    assert loud.python("--specgate", "-p", "no:randomly").ret == 2

    assert _log(loud)[-1] == "one close"
