"""A demand that is finer than the noise is said to be, before it stays undecided build after build."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from pytest_specgate.errors import Location
from pytest_specgate.gates import JudgeContext, judge_once
from pytest_specgate.records import Place, PromptSamples, Samples, Stored, Verdict
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.model import GateSpec

HERE = Place("cpu", 1, "float32")


def run(seed: int, noise: float, rounds: int) -> Samples:
    values = np.random.default_rng(seed).normal(0.4, noise, (16, rounds))
    prompts = [PromptSamples(f"p{i}", f"p{i}", {"speedup": tuple(row)}) for i, row in enumerate(values.tolist())]
    return Samples("e::c", greedy=True, prompts=tuple(prompts))


def verdict(noise: float, max_drop: str, place: Place = HERE) -> Verdict:
    gate = Gate(GateSpec.model_validate({"metric": "speedup", "max_drop": max_drop}), Location(Path("a.yaml"), 1))
    stored = Stored(place, {}, {}, "2030-01-01", run(1, noise, 16))
    context = JudgeContext("a.yaml", "e::c", "e", 0.001, HERE, dt.date(2030, 1, 1))
    return judge_once(gate, run(2, noise, 2), stored, context)


@pytest.mark.parametrize("max_drop", ["2%", "0.01"])
def test_an_allowed_drop_below_the_noise_is_warned_about(max_drop: str) -> None:
    (warning,) = verdict(0.10, max_drop).warnings

    start = "32 pairs that scatter by "
    assert warning.startswith(start)
    assert warning.endswith(f" up: an allowed drop of {max_drop} will often stay undecided")


def test_an_allowed_drop_above_the_noise_is_not() -> None:
    assert verdict(0.01, "5%").warnings == ()


def test_numbers_of_another_machine_say_nothing_about_this_one_s_noise() -> None:
    assert verdict(0.10, "2%", Place("cuda", 1, "float16")).warnings == ()
