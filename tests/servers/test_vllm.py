"""vLLM on CPUs, gated from its start to its end: ``tox run -e vllm`` installs it and runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.servers.install_vllm import python_path

pytestmark = pytest.mark.skipif(os.environ.get("SPECGATE_SERVERS") != "vllm", reason="the real vLLM: tox run -e vllm")
ROOT = Path(__file__).parents[2]


def running() -> list[int]:
    """Pids of all processes that run by vLLM's interpreter, or are named as its workers name themselves."""
    found = psutil.process_iter(["cmdline", "name"])
    names = ("VLLM", str(python_path()))
    return [p.pid for p in found if any(name in " ".join(p.info["cmdline"] or ()) for name in names)]


def test_speculation_with_ngrams_is_measured_and_passes(tmp_path: Path) -> None:
    from pytest_specgate.engines.store import converted
    from tests.servers.gguf_draft import target_path

    suite = Path(__file__).with_name("vllm.specgate.yaml")
    target = converted(target_path(), "test")
    environment = {**os.environ, "SPECGATE_VLLM_PYTHON": str(python_path()), "SPECGATE_TARGET": str(target)}
    command = [sys.executable, "-m", "pytest", "--specgate", "--specgate-tier=nightly", "-p", "no:randomly"]
    command += [f"--specgate-report={tmp_path / 'out.json'}", f"--specgate-baselines={tmp_path}", str(suite)]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    sys.stdout.write(done.stdout)
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert {verdict["outcome"] for verdict in report["verdicts"]} == {"PASS"}
    assert done.returncode == 0
    ((measured,),) = report["measurements"].values()
    assert measured["subject"]["candidate_server"].startswith("vLLM 0.32")
    assert any(pair["candidate"]["told"]["counts"]["drafted"] for pair in measured["pairs"])
    assert running() == []
