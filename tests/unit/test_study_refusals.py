"""What a study refuses, word for word, and what it calls an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from pytest_specgate.__main__ import main
from tests.unit.project import write
from tests.unit.studying import ACCEPTANCE, DROP, FOUR, MATCH, PLANTS, built, counts, study


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plant", "dely=15%"], f"--plant: unknown plant 'dely'; did you mean 'delay'? — write one of: {PLANTS}"),
        (["--engine", "tinny"], "--engine: no engine 'tinny'; did you mean 'tiny'? — choose among: tiny"),
        (["--scenario", "chat"], "--scenario: no scenario 'chat' — choose among: qa"),
        (["--builds", "0"], "--builds: 0 is none — give 1 or more"),
        (["--baselines-sessions", "0"], "--baselines-sessions: 0 is none — give 1 or more"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    write(tmp_path, DROP)
    assert study(*arguments) == 4
    assert capsys.readouterr() == ("", f"specgate: {message}\n")
    assert not (tmp_path / "out").exists()


def test_no_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "none.specgate.yaml"]) == 4
    message = "specgate: none.specgate.yaml: no such file — name a suite, such as suites/smoke.specgate.yaml\n"
    assert capsys.readouterr().err == message


def test_an_engine_without_the_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engines = {name: {"kind": "scripted"} for name in ("one", "two")}
    scenarios = {name: {"category": "qa", "prompts": "p.jsonl", "engines": [name]} for name in engines}
    write(tmp_path, DROP, engines=engines, scenarios=scenarios)
    assert study("--engine", "one", "--scenario", "two") == 4
    message = "--engine one and --scenario two never meet in demo — choose a scenario that the engine runs"
    assert capsys.readouterr().err == f"specgate: {message}\n"


ANEW = "choose another --out, or remove the folder to begin anew"


def test_another_question_in_the_same_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DROP, measure=FOUR)
    assert study("--plant", "delay=15%") == 0
    capsys.readouterr()
    assert study("--plant", "delay=10%") == 4
    assert capsys.readouterr().err == f"specgate: out: was begun with another question (changed: plants) — {ANEW}\n"
    write(tmp_path, DROP, MATCH, measure=FOUR)
    assert study("--plant", "delay=15%") == 4
    assert capsys.readouterr().err == f"specgate: out: was begun with another question (changed: suite) — {ANEW}\n"


def test_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, DROP, engines={"tiny": {"kind": "tests.unit.study_engines:Moves"}})
    monkeypatch.setenv("TEST_PLACE", "Here")
    assert study(builds=1) == 0
    capsys.readouterr()
    monkeypatch.setenv("TEST_PLACE", "There")
    assert study(builds=2) == 4
    message = "out: was begun on here-x1-none, and this is there-x1-none — go on there, or choose another --out here"
    assert capsys.readouterr().err == f"specgate: {message}\n"
    assert len(built()) == 1


def test_a_study_at_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DROP)
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"):
        assert study() == 4
    message = "out: another study is at work here — wait for it, or choose another --out"
    assert capsys.readouterr().err == f"specgate: {message}\n"


def test_a_line_that_is_no_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DROP)
    assert study() == 0
    capsys.readouterr()
    kept = tmp_path / "out" / "builds.jsonl"
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([lines[0], "{}", lines[2], ""]))
    assert study() == 4
    message = "out/builds.jsonl:2: number: missing key — remove this line, and its build is made again"
    assert capsys.readouterr().err == f"specgate: {message}\n"
    kept.write_text("\n".join([lines[0], "nonsense", ""]))
    assert study() == 4
    assert capsys.readouterr().err.startswith("specgate: out/builds.jsonl:2:1: is no whole JSON (")


def test_a_baseline_that_cannot_be_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DROP, measure=FOUR, options={"noise": 0.9})
    assert study() == 4
    err = capsys.readouterr().err
    assert err.startswith("specgate: tiny::qa-t0-c1: cannot be recorded as a baseline: environment rule '")
    assert err.endswith(" — quiet the machine, and start again\n")
    assert not (tmp_path / "out" / "builds.jsonl").exists()


def test_an_allowed_change_that_cannot_be_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"metric": "speedup", "max_drop": "0.5%"}, measure=FOUR, options={"noise": 0.05})
    assert study() == 4
    err = capsys.readouterr().err
    assert err.startswith("specgate: tiny::qa-t0-c1: cannot be recorded as a baseline: speedup: max_drop 0.5% cannot ")
    assert err.endswith(" — change the suite, and start again\n")


def test_a_machine_that_lacks_what_the_suite_requires(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DROP, requires={"package": "no_such_package"})
    assert study() == 4
    what = "demo.specgate.yaml: requires package 'no_such_package', which is not installed"
    assert capsys.readouterr().err == f"specgate: {what} — run it on a machine that has it\n"


def test_what_cannot_be_judged_is_an_error_and_no_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, DROP, ACCEPTANCE, measure=FOUR, options={"fault": "no_rounds"})
    assert study("--plant", "acceptance=5%", "--json", "figures.json") == 1
    out = capsys.readouterr().out
    none = {"any gate": (0, 0), "speedup": (0, 0), "conditional_acceptance": (0, 0), "naive": (0, 0)}
    assert counts()["acceptance=5%"] == none
    assert counts()[""] == {**none, "speedup": (0, 3), "naive": (0, 3)}
    (planted,) = [line.split() for line in out.partition("acceptance=5%: ")[2].splitlines() if "any gate" in line]
    assert planted == ["any", "gate", "unmeasured", "unmeasured", "3/3"]
    assert "ERROR tiny: speedup[qa-t0-c1]: build 2: tiny: a loss of acceptance cannot be planted" in out
