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


#: So few draws exclude no small shift, so there may be no pass.
DRAWS = {"plain": {"PASS", "INCONCLUSIVE"}, "cold": {"FAIL"}}


def test_both_ways_to_speculate_choose_right_and_a_colder_server_draws_wrongly(tmp_path: Path) -> None:
    from pytest_specgate.engines.store import converted
    from tests.servers.gguf_draft import DRAFT, target_path

    suite = Path(__file__).with_name("vllm.specgate.yaml")
    target = converted(target_path(), "test")
    environment = {
        **os.environ,
        MARK: str(tmp_path),
        "SPECGATE_PYTHON": sys.executable,
        "SPECGATE_VLLM_PYTHON": str(python_path()),
        "SPECGATE_TARGET": str(target),
        "SPECGATE_DRAFT": str(DRAFT),
    }
    command = [sys.executable, "-m", "pytest", "--specgate", "--specgate-tier=nightly", "-p", "no:randomly"]
    command += [f"--specgate-report={tmp_path / 'out.json'}", f"--specgate-baselines={tmp_path}", str(suite)]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    sys.stdout.write(done.stdout)
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    drawn = {one["case"].partition("::")[0]: one for one in report["verdicts"] if one["metric"] == "distribution_fit"}
    assert {one["outcome"] for one in report["verdicts"] if one not in drawn.values()} == {"PASS"}
    assert drawn.keys() == DRAWS.keys()
    assert all(drawn[engine]["outcome"] in may_be for engine, may_be in DRAWS.items()), drawn
    assert "as at a lower temperature" in drawn["cold"]["reason"]
    exact = [one for one in report["verdicts"] if one["metric"] == "greedy_exactness"]
    assert len(exact) == 3
    for verdict in exact:
        assert "tokens of the reference server, the worst" in verdict["warnings"][0]
        assert "; asked again, " in verdict["warnings"][0]
    measurements = [measured for cases in report["measurements"].values() for measured in cases]
    greedy = {"plain::crowd-t0-c4", "ngram::copy-t0-c1", "draft::short-t0-c1"}
    assert {measured["case"] for measured in measurements} == {*greedy, *(f"{engine}::drawn-t1-c4" for engine in DRAWS)}
    for measured in measurements:
        assert measured["subject"]["candidate_server"].startswith("vLLM 0.32")
        if measured["case"].startswith(("plain", "cold")):
            continue
        assert any(pair["candidate"]["told"]["counts"]["drafted"] for pair in measured["pairs"])
        assert not any(pair["reference"]["told"]["counts"] for pair in measured["pairs"])
    assert alive(str(tmp_path)) == []
