"""The memory pass, in real child processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.child import decode_context, encode_context
from pytest_specgate.measure.memory import measure_memory, requests_for
from pytest_specgate.records import Arm, MemoryReading
from tests.unit.project import context, load, write


def test_each_arm_is_measured_in_a_process_that_prepares_it_alone(tmp_path: Path) -> None:
    memory = {"reference": 2e9, "candidate": 3e9}
    suite, case = load(write(tmp_path, options={"memory": memory}))
    readings = measure_memory(context(suite), case, suite.spec.measure)
    assert readings == {
        Arm.REFERENCE: MemoryReading(host_rss=2_000_000_000, max_process_vram=2_000_000_000),
        Arm.CANDIDATE: MemoryReading(host_rss=3_000_000_000, max_process_vram=3_000_000_000),
    }


def test_what_the_parent_held_is_not_the_childs(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, engines={"tiny": {"kind": "tests.unit.study_engines:RealMemory"}}))
    ballast = b"x" * (2**30)
    readings = measure_memory(context(suite), case, suite.spec.measure)
    assert len(ballast) > max(reading.host_rss or 0 for reading in readings.values()) > 0


def test_an_engines_own_error_is_told_in_its_words(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, options={"fault": "oom"}))
    with pytest.raises(EngineError) as caught:
        measure_memory(context(suite), case, suite.spec.measure)
    assert str(caught.value).startswith("tiny: the memory pass of the candidate arm failed: tiny: q1: out of memory — ")


@pytest.mark.parametrize(
    ("kind", "why"), [("CrashesAlone", "ZeroDivisionError: no tokens"), ("DiesAlone", "exit status 7")]
)
def test_a_crash_in_the_child_is_told_with_its_last_words(tmp_path: Path, kind: str, why: str) -> None:
    suite, case = load(write(tmp_path, engines={"tiny": {"kind": f"tests.unit.crashing:{kind}"}}))
    with pytest.raises(EngineError) as caught:
        measure_memory(context(suite), case, suite.spec.measure)
    assert str(caught.value) == (
        f"tiny: the memory pass of the reference arm failed: {why} — run the engine alone to see why"
    )


def test_the_longest_prompts_are_run_as_many_as_run_at_once_twice(tmp_path: Path) -> None:
    prompts: list[dict[str, object]] = [{"id": f"q{n}", "turns": ["word " * n]} for n in (3, 9, 1, 7, 5)]
    _, case = load(write(tmp_path, prompts=prompts, scenario={"concurrency": [2]}))
    assert [request.prompt for request in requests_for(case)] == ["q9", "q7", "q5", "q3"]


def test_a_context_comes_back_whole(tmp_path: Path) -> None:
    suite, _ = load(write(tmp_path, options={"k": 3}))
    spec = suite.spec.engines["tiny"]
    given = EngineContext("tiny", spec, tmp_path, "cuda:1", True, True, (Arm.CANDIDATE,))
    assert decode_context(encode_context(given)) == given
