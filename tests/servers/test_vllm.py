"""vLLM on CPUs, gated from its start to its end: ``tox run -e vllm`` installs it and runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.install_vllm import python_path
from tests.servers.marked import MARK, alive

pytestmark = pytest.mark.skipif(os.environ.get("SPECGATE_SERVERS") != "vllm", reason="the real vLLM: tox run -e vllm")
ROOT = Path(__file__).parents[2]


def test_both_ways_to_speculate_are_measured_and_pass(tmp_path: Path) -> None:
    from pytest_specgate.engines.store import converted
    from tests.servers.gguf_draft import DRAFT, target_path

    suite = Path(__file__).with_name("vllm.specgate.yaml")
    target = converted(target_path(), "test")
    environment = {
        **os.environ,
        MARK: str(tmp_path),
        "SPECGATE_VLLM_PYTHON": str(python_path()),
        "SPECGATE_TARGET": str(target),
        "SPECGATE_DRAFT": str(DRAFT),
    }
    command = [sys.executable, "-m", "pytest", "--specgate", "--specgate-tier=nightly", "-p", "no:randomly"]
    command += [f"--specgate-report={tmp_path / 'out.json'}", f"--specgate-baselines={tmp_path}", str(suite)]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    sys.stdout.write(done.stdout)
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert {verdict["outcome"] for verdict in report["verdicts"]} == {"PASS"}
    assert done.returncode == 0
    measurements = [measured for cases in report["measurements"].values() for measured in cases]
    assert [measured["case"] for measured in measurements] == ["ngram::copy-t0-c1", "draft::short-t0-c1"]
    for measured in measurements:
        assert measured["subject"]["candidate_server"].startswith("vLLM 0.32")
        assert any(pair["candidate"]["told"]["counts"]["drafted"] for pair in measured["pairs"])
        assert not any(pair["reference"]["told"]["counts"] for pair in measured["pairs"])
    assert alive(str(tmp_path)) == []
