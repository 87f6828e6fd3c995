"""Sampling exactness on real loops over an enumerable target: faults turn it red, sound decoders stay green."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.session import Settings, SuiteSession
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
