"""Growth over a soak and a GPU's work by round: limits from their own scatter, and nothing measured is an error.

The GPU here is made of samples; the library behind them is a stand-in in its own tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_specgate.records import Arm, Chunk, GpuUse, Measurement, Outcome, Pair, Place, Samples, Trace
from pytest_specgate.samples import reduce
from tests.unit.judging import BROKEN, ELSEWHERE, gate, samples, verdict

KIB = 1024
NOISE = (3, -3, 1, 0, -2, 2, -1, 1, -1, 0, 2, -2)


def soaked(level: float, noise: float = 0.0) -> Samples:
    steps = tuple(KIB * (level + noise * one) for one in NOISE)
    return replace(samples(scalars={"host_memory_slope": KIB * level}), growth={"host_memory_slope": steps})


def worked(name: str, values: Sequence[float]) -> Samples:
    return replace(samples(scalars={name: sum(values) / len(values)}), device={name: tuple(values)})


# --- growth -----------------------------------------------------------------------------------------------------------


def test_a_leak_beyond_its_noise_fails() -> None:
    said = verdict(gate("host_memory_slope", limit="<=64 KiB"), soaked(256, 8))
    assert said.outcome is Outcome.FAIL
    assert said.reason.startswith("host memory slope 256 KiB [")
    assert said.reason.endswith("is above the limit <=64 KiB")
    assert said.advice.startswith("look for caches, graphs and lists that a request leaves behind")


def test_noise_alone_does_not_fail_and_memory_that_stays_passes() -> None:
    gated = gate("host_memory_slope", limit="<=64 KiB")
    assert verdict(gated, soaked(70, 40)).outcome is Outcome.INCONCLUSIVE
    assert verdict(gated, soaked(0)).outcome is Outcome.PASS
    assert verdict(gated, soaked(-5, 3)).outcome is Outcome.PASS


def test_too_noisy_a_soak_says_how_many_blocks_would_decide() -> None:
    said = verdict(gate("host_memory_slope", limit="<=64 KiB"), soaked(30, 40))
    assert said.outcome is Outcome.INCONCLUSIVE
    assert "blocks of the soak would decide (this run had 12)" in said.reason


def test_growth_is_compared_with_the_stored_one() -> None:
    gated = gate("host_memory_slope", max_rise="16 KiB")
    assert verdict(gated, soaked(100, 1), soaked(10)).outcome is Outcome.FAIL
    assert verdict(gated, soaked(12, 1), soaked(10)).outcome is Outcome.PASS
    assert verdict(gated, soaked(12, 1), soaked(10), stored_at=ELSEWHERE).outcome is Outcome.INCONCLUSIVE
    said = verdict(gated, soaked(12, 1), samples({}))
    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds no host_memory_slope",
    )


# --- device -----------------------------------------------------------------------------------------------------------

UNMEASURED = "it needs an NVIDIA GPU, nvidia-ml-py, and calls that take more than a second"


@pytest.mark.parametrize(
    "name", ["gpu_utilization", "gpu_utilization_p95", "gpu_utilization_spread", "gpu_power", "energy_per_token"]
)
def test_without_a_gpu_its_work_is_unmeasured_and_never_zero(name: str) -> None:
    said = verdict(gate(name, limit=">=0"), samples({}))
    assert (said.outcome, said.measured) == (Outcome.ERROR, None)
    assert said.reason == f"{name}: not measured by this engine (e)"
    assert said.advice == UNMEASURED


def test_work_is_judged_over_rounds() -> None:
    busy = worked("gpu_utilization", (0.91, 0.93, 0.92, 0.92))
    kept = verdict(gate("gpu_utilization", limit=">=80%"), busy)
    lost = verdict(gate("gpu_utilization", limit=">=99%"), busy)
    assert (kept.outcome, lost.outcome) == (Outcome.PASS, Outcome.FAIL)
    once = verdict(gate("gpu_utilization", limit=">=80%"), worked("gpu_utilization", (0.9,)))
    assert once.outcome is Outcome.INCONCLUSIVE
    assert once.reason == ("gpu utilization: one value has no scatter to judge by; needed: 2 of them, better 8")


def test_energy_is_compared_with_the_stored_mean_of_this_place() -> None:
    now, before = worked("energy_per_token", (0.61, 0.60, 0.62, 0.61)), worked("energy_per_token", (0.5, 0.5))
    gated = gate("energy_per_token", max_rise="10%")
    said = verdict(gated, now, before)
    assert said.outcome is Outcome.FAIL
    assert said.reason.startswith("energy per token 0.61 J is 22.0% [")
    assert verdict(gated, before, before).outcome is Outcome.PASS
    assert verdict(gated, now, before, findings=(BROKEN,)).outcome is Outcome.INCONCLUSIVE


SECOND = 1_000_000_000


def taken(uses: Sequence[GpuUse], rounds: int = 1, seconds: float = 10) -> Measurement:
    """The reference arm first, then the candidate's two requests side by side; each call takes so many seconds."""
    pairs, begin = [], 0
    for number in range(rounds):
        ends = [int(begin + seconds * SECOND), int(begin + 2 * seconds * SECOND)]
        starts = dict(zip(Arm, (begin, ends[0])))
        for prompt in ("a", "b"):
            traces = [_trace(prompt, arm, starts[arm], end) for arm, end in zip(Arm, ends)]
            pairs.append(Pair(prompt, prompt, number, "AB", *traces))
        begin = ends[1]
    return Measurement("e::c", "e", Place("gpu", 1, "bfloat16"), {}, {}, tuple(pairs), greedy=True, gpu=tuple(uses))


def _trace(prompt: str, arm: Arm, begin: int, end: int) -> Trace:
    return Trace(prompt, arm, tuple(range(50)), "", 3, begin, (Chunk(end, 50),), "length")


def use(seconds: float, busy: float | None, watts: float | None) -> GpuUse:
    return GpuUse(int(seconds * SECOND), busy, watts)


def test_samples_belong_to_the_arm_that_ran_for_all_that_they_look_back_on() -> None:
    plain = [use(at, 0.5, 200) for at in (2, 4, 6, 8)]
    mixed = [use(10.5, 0.7, 300), use(0.5, 0.1, 90)]
    drafting = [use(at, busy, watts) for at, busy, watts in ((11.5, 0.9, 400), (13, 1.0, 420), (19, 0.8, 410))]
    found = reduce(taken([*plain, *mixed, *drafting, use(25, 0.0, 60)])).device
    assert found["reference_gpu_utilization"] == pytest.approx((0.5,))
    assert found["reference_gpu_power"] == pytest.approx((200,))
    assert found["reference_energy_per_token"] == pytest.approx((200 * 10 / 100,))
    assert found["gpu_utilization"] == pytest.approx((0.9,))
    assert found["gpu_utilization_p95"] == pytest.approx((0.99,))
    assert found["gpu_utilization_spread"] == pytest.approx((0.18,))
    assert found["gpu_power"] == pytest.approx((410,))
    assert found["energy_per_token"] == pytest.approx((41.0,))


def test_every_round_has_its_value_and_the_run_its_mean() -> None:
    uses = [use(at + 0.5, 0.25 * (1 + at // 20), None) for at in range(40)]
    reduced = reduce(taken(uses, rounds=2))
    assert reduced.device["gpu_utilization"] == pytest.approx((0.25, 0.5))
    assert reduced.scalars["gpu_utilization"] == pytest.approx(0.375)
    assert "gpu_power" not in reduced.device


def test_calls_too_short_to_be_told_apart_are_unmeasured() -> None:
    uses = [use(at / 4, 0.9, 400) for at in range(40)]
    assert _candidate(reduce(taken(uses, rounds=8, seconds=0.6)).device) == {}
    assert reduce(taken([])).device == {}


def _candidate(device: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    return {name: values for name, values in device.items() if not name.startswith("reference_")}
