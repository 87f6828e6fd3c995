"""Suites that start their servers themselves: from ``pytest --specgate`` to verdicts, with nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.plugin.conftest import Project, project
from tests.unit.test_serving_process import PATIENCE, all_gone, hear_interrupts

__all__ = ["project"]
STARTED = str(Path(__file__).with_name("started.py"))
GATES = (
    {"metric": "conditional_acceptance", "limit": ">=40%"},
    {"metric": "exact_match", "limit": "==100%"},
)
FAST = {"pattern": [1, 3, 2], "k": 4}


def arm(**script: Any) -> dict[str, Any]:
    """An arm whose server this script's fake is."""
    return {"command": [sys.executable, STARTED, "${port}", json.dumps(script)]}


def served(candidate: dict[str, Any], **server: Any) -> dict[str, Any]:
    spec = {"model": "smol", "reference": arm(), "candidate": candidate, **server}
    return {"pair": {"kind": "openai", "server": spec}}


def fakes(project: Project) -> list[int]:
    """Pids of the fake servers that run in this project's folder, and not in that of a test beside this one."""
    running = psutil.process_iter(["cmdline", "cwd"])
    mine = (p for p in running if str(p.info["cwd"] or "").startswith(f"{project.path.resolve()}{os.sep}"))
    return [process.pid for process in mine if STARTED in (process.info["cmdline"] or ())]


def test_servers_are_started_measured_and_ended(project: Project) -> None:
    memory = {"metric": "host_memory_ratio", "limit": "<=2x"}
    project.suite(*GATES, memory, engines=served(arm(**FAST)), measure={"rounds": 1})

    result = project.run("--specgate", "--specgate-report=out.json", "suites")

    result.assert_outcomes(passed=3)
    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    ((measured,),) = report["measurements"].values()
    subject = measured["subject"]
    assert subject["candidate_server"] == "vLLM 0.32.0"
    assert subject["candidate_command"].startswith(f"{sys.executable} {STARTED} ${{port}} ")
    assert subject["device"] == "cpu"
    assert measured["place"]["dtype"] == "served"
    assert not measured["apart"]
    peaks = [measured["memory"][name]["host_rss"] for name in ("reference", "candidate")]
    assert all(10 << 20 < peak < 1 << 30 for peak in peaks)
    assert fakes(project) == []


def test_servers_that_do_not_fit_side_by_side_take_turns(project: Project) -> None:
    speed = {"metric": "speedup", "limit": ">=0.01x"}
    slow = {"first": 0.002, "gap": 0.001}
    engines = served(arm(**FAST, **slow), together=False)
    engines["pair"]["server"]["reference"] = arm(**slow)
    project.suite(speed, engines=engines, measure={"rounds": 4, "warmup": 1})
    project.write("suites/prompts/p.jsonl", '{"id": "q1", "turns": ["Say it."]}\n')

    result = project.run("--specgate", "--specgate-report=out.json", "suites")

    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    ((measured,),) = report["measurements"].values()
    assert measured["apart"]
    assert [pair["order"] for pair in measured["pairs"]] == ["AB", "BA", "AB", "BA"]
    assert "each arm was started anew 4 times (at least 4)" in {f["detail"] for f in measured["findings"]}
    assert sum(result.parseoutcomes().values()) == 1
    assert fakes(project) == []


def test_a_command_that_ends_is_told_with_its_last_words_and_other_engines_go_on(project: Project) -> None:
    broken = {"command": [sys.executable, "-c", "import sys; sys.exit('no such layer: 31')", "${port}"]}
    project.suite(*GATES[:1], engines={**served(broken), "other": {"kind": "scripted"}})

    result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1, errors=1)
    shown = " ".join(result.stdout.str().split())
    assert "pair: the candidate server exited with status 1 before it was ready" in shown
    assert "its last lines: no such layer: 31" in shown
    assert fakes(project) == []


@pytest.mark.parametrize(("dies", "how"), [(True, ("-n1", "--dist=loadscope")), (False, ())])
def test_a_key_whose_variable_has_no_telling_name_is_nowhere(
    project: Project, monkeypatch: pytest.MonkeyPatch, dies: bool, how: tuple[str, ...]
) -> None:
    key, flag = "sk-in-no-text-at-all", "another-in-no-text"
    monkeypatch.setenv("SERVER_AUTH", key)
    monkeypatch.setenv("SERVER_FLAG", flag)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    logs = project.path / "logs"
    logs.mkdir()
    monkeypatch.setenv("TMPDIR", str(logs))
    tells = "import os, sys; print(os.environ['SERVER_AUTH'], sys.argv, flush=True); "
    goes_on = "sys.exit(3)" if dies else "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    _, *rest = arm(**FAST)["command"]
    candidate = {"command": [sys.executable, "-c", tells + goes_on, "${env:SERVER_FLAG}", *rest]}
    project.suite(*GATES[:1], engines=served(candidate, api_key_env="SERVER_AUTH"), measure={"rounds": 1})

    written = [f"--specgate-{what}" for what in ("report=out.json", "report=out.html", "history=runs")]
    result = project.python("--specgate", "-p", "no:randomly", *how, *written, "suites")

    result.assert_outcomes(**{"errors" if dies else "passed": 1})
    files = [path for path in project.path.rglob("*") if path.suffix in (".json", ".html", ".jsonl", ".log")]
    assert {"out.json", "out.html", "runs.jsonl", *(["server.log"] if dies else [])} <= {path.name for path in files}
    texts = [result.stdout.str(), result.stderr.str(), *(path.read_text(encoding="utf-8") for path in files)]
    assert not [text for text in texts if key in text or flag in text]
    assert "********" in (project.path / "out.json").read_text(encoding="utf-8")


def test_a_server_that_dies_in_mid_run_is_told_by_its_process_and_the_next_case_has_a_new_one(project: Project) -> None:
    # One token at the start and six generations to warm up at most: the twelfth request is one that is measured.
    prompts = [json.dumps({"id": f"q{n}", "turns": [f"Say {n}."]}) for n in range(16)]
    project.write("suites/prompts/p.jsonl", "\n".join(prompts))
    project.suite(
        *GATES[:1],
        engines=served(arm(**FAST, die_after=12)),
        scenarios={
            "first": {"category": "qa", "prompts": "prompts/p.jsonl"},
            "short": {"category": "qa", "prompts": {"file": "prompts/p.jsonl", "limit": 1}},
        },
        measure={"rounds": 1, "warmup": 1},
    )

    result = project.run("--specgate", "suites")

    shown = " ".join(result.stdout.str().split())
    assert (
        "pair: the candidate server was ended by SIGKILL, most likely for want of memory while it was measured" in shown
    )
    assert "CUDA error: an illegal memory access was encountered" in shown
    assert result.parseoutcomes()["errors"] == 1
    assert fakes(project) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for orphans as Linux shows them")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_pytest_that_is_ended_leaves_no_server(project: Project, number: signal.Signals) -> None:
    path = project.suite(*GATES, engines=served(arm(**FAST, gap=0.5)), measure={"rounds": 64})
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--specgate", str(path)]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        command,
        cwd=project.path,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
        preexec_fn=hear_interrupts,
    ) as run:
        until = time.monotonic() + 300
        while len(started := fakes(project)) < 2:
            assert time.monotonic() < until
            assert run.poll() is None
            time.sleep(0.05)
        os.killpg(run.pid, number)
        run.wait(PATIENCE * 2)

        assert all_gone(started)
    assert fakes(project) == []
