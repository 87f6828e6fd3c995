"""``python -m pytest_specgate study``: builds on the scripted engine, resumed, refused, counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pytest_specgate.__main__ import main
from pytest_specgate.engines.planted import parse_plant
from pytest_specgate.study.plan import Plan, cases_by_engine
from pytest_specgate.suite.load import load_suite
from tests.unit.project import write
from tests.unit.study_engines import Interrupted

ROOT = Path(__file__).parents[2]
DROP = {"metric": "speedup", "max_drop": "5%"}
ACCEPTANCE = {"metric": "conditional_acceptance", "max_drop": "0.01"}
MATCH = {"metric": "exact_match", "limit": "==100%"}
FOUR = {"rounds": 4}
PLANTS = "delay=15%, acceptance=0.05, memory=64MiB, sampler=0.1"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def study(*arguments: str, builds: int = 3) -> int:
    return main(["study", "demo.specgate.yaml", "--builds", str(builds), "--out", "out", *arguments])


def built(folder: str = "out") -> list[dict[str, Any]]:
    """The builds as they were kept, without their times."""
    lines = Path(folder, "builds.jsonl").read_text(encoding="utf-8").splitlines()
    builds = [json.loads(line) for line in lines]
    for build in builds:
        build["started"] = build["seconds"] = None
        for case in build["cases"]:
            case["seconds"] = None
    return builds


def share(rate: dict[str, int]) -> tuple[int, int]:
    return rate["hits"], rate["trials"]


def counts(path: str = "figures.json") -> dict[str, dict[str, tuple[int, int]]]:
    """Failures of trials by plant and gate."""
    kinds = json.loads(Path(path).read_text(encoding="utf-8"))["kinds"]
    return {
        kind["planted"]: {
            **{gate["gate"]: share(gate["fail"]) for gate in [kind["whole"], *kind["gates"]]},
            "naive": share(kind["naive"]),
        }
        for kind in kinds
    }


def test_unchanged_builds_pass_and_planted_losses_are_seen_by_their_gates(tmp_path: Path) -> None:
    write(tmp_path, DROP, ACCEPTANCE, MATCH, measure=FOUR)
    plants = ("--plant", "delay=15%", "--plant", "acceptance=10%")
    assert study(*plants, "--json", "figures.json", builds=10) == 0
    clean = {"any gate": (0, 10), "speedup": (0, 10), "conditional_acceptance": (0, 10), "exact_match": (0, 10)}
    assert counts() == {
        "": {**clean, "naive": (0, 10)},
        "delay=15%": {**clean, "any gate": (10, 10), "speedup": (10, 10), "naive": (10, 10)},
        "acceptance=10%": {**clean, "any gate": (10, 10), "conditional_acceptance": (10, 10), "naive": (0, 10)},
    }
    assert [build["planted"] for build in built()[:4]] == ["", "delay=15%", "acceptance=10%", ""]


def test_builds_differ_and_keep_their_noise(tmp_path: Path) -> None:
    write(tmp_path, DROP, measure=FOUR)
    assert study() == 0
    ratios = [build["cases"][0]["log_ratios"] for build in built()]
    assert len({json.dumps(one) for one in ratios}) == 3
    assert list(ratios[0]) == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert {len(values) for one in ratios for values in one.values()} == {built()[0]["cases"][0]["rounds"]}
    assert built()[0]["gates"][0]["outcome"] == "PASS"
    assert built()[0]["gates"][0]["reason"]


def test_the_projects_own_baselines_are_not_touched(tmp_path: Path) -> None:
    write(tmp_path, DROP, measure=FOUR)
    (tmp_path / "baselines").mkdir()
    assert study() == 0
    assert list((tmp_path / "baselines").iterdir()) == []
    assert [path.name for path in (tmp_path / "out" / "baselines").glob("*/*")] == ["demo.json"]


def test_memory_is_planted_in_the_processes_that_are_measured(tmp_path: Path) -> None:
    engines = {"tiny": {"kind": "tests.unit.study_engines:RealMemory"}}
    write(tmp_path, {"metric": "host_memory", "max_rise": "64 MiB"}, engines=engines)
    assert study("--plant", "memory=192MiB", "--json", "figures.json", builds=1) == 0
    assert counts()[""]["host_memory"] == (0, 1)
    assert counts()["memory=192MiB"]["host_memory"] == (1, 1)


def test_the_error_budget_is_that_of_the_whole_suite(tmp_path: Path) -> None:
    engines = {name: {"kind": "scripted"} for name in ("one", "two")}
    suite = load_suite(write(tmp_path, DROP, engines=engines), tmp_path)
    plan = Plan(suite, tmp_path / "out", 5, (parse_plant("delay=1%"),), engines=("two",))
    assert list(cases_by_engine(plan, suite)) == ["two"]
    assert (plan.checks, plan.total) == (2, 10)


def test_several_sessions_make_one_baseline(tmp_path: Path) -> None:
    write(tmp_path, DROP, measure=FOUR)
    assert study("--baselines-sessions", "1") == 0
    assert main(["study", "demo.specgate.yaml", "--builds", "1", "--out", "o3", "--baselines-sessions", "3"]) == 0

    def rounds(folder: str) -> int:
        (file,) = Path(folder, "baselines").glob("*/*.json")
        (entry,) = json.loads(file.read_text())["cases"].values()
        return len(entry["prompts"][0]["series"]["speedup"])

    assert rounds("o3") == 3 * rounds("out")


def test_secrets_are_neither_kept_nor_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "tiny-secret")
    engines = {"tiny-secret": {"kind": "scripted"}}
    write(tmp_path, {"metric": "speedup", "limit": ">=1.5x"}, engines=engines)
    assert study("--json", "figures.json") == 0
    shown = capsys.readouterr().out + Path("figures.json").read_text() + (tmp_path / "out" / "builds.jsonl").read_text()
    assert "********: speedup[qa-t0-c1]" in shown
    assert "tiny-secret" not in shown


# --- going on ---------------------------------------------------------------------------------------------------


def test_a_killed_study_goes_on_to_the_same_figures(tmp_path: Path) -> None:
    write(tmp_path, DROP, ACCEPTANCE, measure=FOUR)
    plants = ("--plant", "delay=4%")
    command = [sys.executable, "-m", "pytest_specgate", "study", "demo.specgate.yaml", "--builds", "40", "--out", "out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen([*command, *plants], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kept = tmp_path / "out" / "builds.jsonl"
    while running.poll() is None and (not kept.exists() or kept.read_bytes().count(b"\n") < 5):
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert 5 <= kept.read_bytes().count(b"\n") < 80
    assert study(*plants, "--json", "figures.json", builds=40) == 0
    straight = ["--builds", "40", "--out", "straight", "--json", "straight.json"]
    assert main(["study", "demo.specgate.yaml", *straight, *plants]) == 0
    assert built("out") == built("straight")
    assert counts("figures.json") == counts("straight.json")


def test_a_torn_line_is_made_again(tmp_path: Path) -> None:
    write(tmp_path, DROP, measure=FOUR)
    assert study() == 0
    whole = built()
    kept = tmp_path / "out" / "builds.jsonl"
    kept.write_bytes(kept.read_bytes()[:-40])
    assert study() == 0
    assert built() == whole


def test_more_builds_than_before_are_added(tmp_path: Path) -> None:
    write(tmp_path, DROP, measure=FOUR)
    assert study(builds=2) == 0
    first = built()
    assert study(builds=3) == 0
    assert built()[:2] == first
    assert len(built()) == 3


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, engines={"tiny": {"kind": "tests.unit.study_engines:Interrupted"}})
    taken = []
    for builds in ("1", "2"):
        Interrupted.left = 0
        assert main(["study", "demo.specgate.yaml", "--builds", builds, "--out", f"count{builds}"]) == 0
        taken.append(-Interrupted.left)
    capsys.readouterr()
    Interrupted.left = sum(taken) // 2  # half way through the second build
    assert study(builds=4) == 2
    assert capsys.readouterr() == ("", "specgate: interrupted after 1 of 4 builds — the same command goes on\n")
    Interrupted.left = 0
    assert study(builds=4) == 0
    assert [build["number"] for build in built()] == [1, 2, 3, 4]


# --- refused ----------------------------------------------------------------------------------------------------


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


def test_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
