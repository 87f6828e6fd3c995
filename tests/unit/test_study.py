"""``python -m pytest_specgate study``: builds on the scripted engine, resumed, refused, counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_specgate import pacing
from pytest_specgate.__main__ import main
from pytest_specgate.engines.plants import parse_plant
from pytest_specgate.study.plan import Plan, cases_by_engine
from pytest_specgate.suite.cases import expand
from pytest_specgate.suite.checks import checks_in
from pytest_specgate.suite.load import load_suite
from tests.unit.project import write
from tests.unit.study_engines import Interrupted
from tests.unit.studying import ACCEPTANCE, DROP, FOUR, MATCH, built, counts, study

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setattr(pacing, "LOG_SECONDS", 3600.0)  # however busy the machine is


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
    assert plan.checks == checks_in(expand(suite)) == 2 * checks_in(cases_by_engine(plan, suite)["two"]) > 0


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


def test_a_baseline_that_a_kill_left_half_recorded_is_recorded_anew(tmp_path: Path) -> None:
    write(tmp_path, DROP, measure=FOUR)
    assert study() == 0
    whole = built()
    begun = json.loads((tmp_path / "out" / "study.json").read_text())
    (tmp_path / "out" / "study.json").write_text(json.dumps({**begun, "recorded": None}))
    (tmp_path / "out" / "builds.jsonl").unlink()
    (file,) = (tmp_path / "out" / "baselines").glob("*/*.json")
    file.write_text("half")
    assert study() == 0
    assert built() == whole


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
