"""Sampling exactness on real loops: faults turn it red, sound decoders stay green.

Most run over an enumerable target, where thousands of tokens take a second; a few on tiny models of transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from tests import tiny
from tests.unit.drawing import FAULTS, SOUND
from tests.unit.project import load, write

FIT = {"metric": "distribution_fit", "limit": "==100%"}
PROMPTS = [{"id": f"p{n}", "turns": [f"Say {n} words."]} for n in range(64)]


def judged(folder: Path, fault: str, rounds: int, **changes: Any) -> Verdict:
    sampling = {"temperature": 0.7, "seed": 1, **changes.pop("sampling", {})}
    scenario = {"max_tokens": 64, "sampling": [sampling], "concurrency": [64]}
    engine = {"kind": "tests.unit.drawing:TableEngine", "options": {"fault": fault}, **changes}
    keys = {"engines": {"tiny": engine}, "measure": {"rounds": rounds, "warmup": 1}}
    suite, case = load(write(folder, FIT, prompts=PROMPTS, scenario=scenario, **keys))
    return SuiteSession(suite, "tiny", Settings(folder)).judge(case.gates[0], case)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_decoder_fails(tmp_path: Path, fault: str) -> None:
    filters = {"top_p": 0.9} if fault.startswith("filters") else {}
    verdict = judged(tmp_path, fault, 8, sampling=filters)
    assert verdict.outcome is Outcome.FAIL, verdict.reason


def test_the_decoder_without_a_fault_passes(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "none", 8)
    assert verdict.outcome is Outcome.PASS, verdict.reason


@pytest.mark.parametrize("sound", SOUND)
def test_a_sound_decoder_is_not_blamed(tmp_path: Path, sound: str) -> None:
    verdict = judged(tmp_path, sound, 1)
    assert verdict.outcome is not Outcome.FAIL, verdict.reason


# --- a part named ---


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        ("resamples from p", "what replaces rejected drafts is wrong"),
        ("q without temperature", "the accept rule is wrong"),
        ("accepts a chance of 0.1", "the accept rule is wrong"),
        ("bonus from q", "what follows a block kept whole is wrong"),
        ("best drafts said to be drawn", "the declared q is wrong"),
        ("colder drafts than declared", "the declared q is wrong"),
        ("declared at temperature 1", "the declared q is wrong"),
    ],
)
def test_the_broken_part_is_named(tmp_path: Path, fault: str, part: str) -> None:
    notes = judged(tmp_path, fault, 8).warnings
    assert [note for note in notes if "wrong" in note] == [note for note in notes if note.startswith(part)] != []


def test_a_declared_loss_passes_where_it_is_small_enough(tmp_path: Path) -> None:
    def lossy(most: float) -> Verdict:
        candidate = {"method": "prompt_lookup", "lossy": {"max_tv": most}}
        return judged(tmp_path, "accepts a chance of 0.1", 2, candidate=candidate)

    small, large = lossy(0.15), lossy(0.02)
    assert (small.outcome, large.outcome) == (Outcome.PASS, Outcome.FAIL), (small.reason, large.reason)
    assert all("declared lossy (max_tv 0." in verdict.reason for verdict in (small, large))


# --- tiny models ---

WORDS = [{"id": f"p{i}", "turns": [" ".join(tiny.WORDS[(i * 3 + j * j) % 20] for j in range(6))]} for i in range(16)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.1)
    return folder


def on_models(models: Path, folder: Path, rounds: int = 1, prompts: int = 16, **engine: Any) -> Verdict:
    candidate = {"method": "draft_model", "draft": str(models / "draft"), "num_draft_tokens": 4}
    spec = {"kind": "native", "target": str(models / "target"), "dtype": "float32", "candidate": candidate, **engine}
    if "method" in spec["candidate"] and spec["candidate"]["method"] != "draft_model":
        spec["candidate"] = {"num_draft_tokens": 3, **spec["candidate"]}
    sampling = [{"temperature": 2.0, "seed": 1, "top_p": 0.95}]
    concurrency = 1 if spec["kind"] == "transformers" else prompts
    scenario = {"max_tokens": 32, "sampling": sampling, "concurrency": [concurrency], "ignore_eos": True}
    keys = {"engines": {"tiny": spec}, "measure": {"rounds": rounds, "warmup": 1}}
    suite, case = load(write(folder, FIT, prompts=WORDS[:prompts], scenario=scenario, **keys))
    session = SuiteSession(suite, "tiny", Settings(folder))
    verdict = session.judge(case.gates[0], case)
    session.close()
    return verdict


@pytest.mark.parametrize("fault", ["resamples from p", "accepts the best alone", "target at temperature 1"])
def test_a_faulty_decoder_of_models_fails(models: Path, tmp_path: Path, fault: str) -> None:
    verdict = on_models(models, tmp_path, 4, kind="tests.unit.drawing:Swapped", options={"fault": fault})
    assert verdict.outcome is Outcome.FAIL, verdict.reason


@pytest.mark.parametrize(
    "engine",
    [
        {"dtype": "bfloat16"},
        {"dtype": "float32"},
        {"candidate": {"method": "prompt_lookup"}},
        {"candidate": {"method": "early_exit", "exit_layer": 3}},
    ],
)
def test_the_native_decoder_is_not_blamed(models: Path, tmp_path: Path, engine: dict[str, Any]) -> None:
    verdict = on_models(models, tmp_path, **engine)
    assert verdict.outcome in (Outcome.PASS, Outcome.INCONCLUSIVE), verdict.reason


@pytest.mark.parametrize("method", [{}, {"candidate": {"method": "prompt_lookup"}}])
def test_transformers_own_methods_are_not_blamed(models: Path, tmp_path: Path, method: dict[str, Any]) -> None:
    verdict = on_models(models, tmp_path, prompts=4, kind="transformers", **method)
    assert verdict.outcome in (Outcome.PASS, Outcome.INCONCLUSIVE), verdict.reason
