"""Each GPU rule on recorded shapes: one that breaks it, one that holds, one that is unknown. No GPU is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.measure.nvml import INSTALL
from pytest_specgate.measure.readings import NO_DEVICE, NOT_GPU, Gpu, GpuSample, Observed, Readings, Unknown
from pytest_specgate.records import Arm, Finding, Pair
from tests.unit.observing import finding, seen, trace

MIB = 2**20
OURS = 41


def sample(at: float = 0.5, **fields: Any) -> GpuSample:
    """A quiet one, within a call of ours."""
    quiet = GpuSample(int(at * 1e9), 0, 1980, 900 * MIB, {OURS: 800 * MIB}, 300 * MIB)
    return replace(quiet, **fields)


def gpu(*samples: GpuSample, own: frozenset[int] = frozenset({OURS}), before: frozenset[int] | None = None) -> Readings:
    return Readings(gpu=Gpu(samples, own, before))


# --- clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "held", "noted", "detail"),
    [
        ((0, 0, 0x01), True, False, "no slowdown in 3 samples"),
        ((0, 0x04, 0x04), True, True, "power cap in 2 of 3 samples"),
        ((0, 0x08), False, False, "the GPU slowed down: hardware slowdown in 1 of 2 samples (none is allowed)"),
        ((0x20,), False, False, "the GPU slowed down: software thermal in 1 of 1 samples (none is allowed)"),
        ((0x40,), False, False, "the GPU slowed down: hardware thermal in 1 of 1 samples (none is allowed)"),
        ((0x80,), False, False, "the GPU slowed down: power brake in 1 of 1 samples (none is allowed)"),
        (
            (0x88, 0x84),
            False,
            False,
            "the GPU slowed down: hardware slowdown in 1 of 2 samples, power brake in 2 of 2 samples (none is allowed)",
        ),
        ((None, None), True, False, "cannot be told: NVML tells no clock events of this device"),
    ],
)
def test_clock_events(bits: tuple[int | None, ...], held: bool, noted: bool, detail: str) -> None:
    found = seen("GPU clock events", gpu(*(sample(reasons=one) for one in bits)))
    assert found == Finding("GPU clock events", held, detail, noted)


@pytest.mark.parametrize(
    ("mhz", "held", "detail"),
    [
        ((1980,) * 19 + (1800,), True, "SM clock 1971-1980 MHz in timed calls, a factor of 1.00 (at most 1.10)"),
        ((1980, 1500) * 10, False, "SM clock 1500-1980 MHz in timed calls, a factor of 1.32 (at most 1.10)"),
        ((1980,) * 4, True, "cannot be told: 4 samples in timed calls, 5 are needed"),
        ((None,) * 9, True, "cannot be told: 0 samples in timed calls, 5 are needed"),
    ],
)
def test_sm_clock(mhz: tuple[int | None, ...], held: bool, detail: str) -> None:
    found = seen("SM clock", gpu(*(sample(sm_mhz=one) for one in mhz)))
    assert found == Finding("SM clock", held, detail)


def test_the_sm_clock_between_calls_and_of_an_idle_device_is_no_concern() -> None:
    calls = [Pair("q", "q", 0, "AB", trace(Arm.REFERENCE, 1.0, 10.0), trace(Arm.CANDIDATE, 0.5, 12.0))]
    timed = [sample(at, sm_mhz=1980) for at in (10.1, 10.5, 10.9, 12.1, 12.4)]
    between = [sample(at, sm_mhz=300) for at in (9.9, 11.5, 12.6)]
    idle = [sample(10.2, sm_mhz=300, reasons=0x01)]
    found = finding("SM clock", Observed(calls, gpu(*timed, *between, *idle)))
    assert found == Finding("SM clock", True, "SM clock 1980-1980 MHz in timed calls, a factor of 1.00 (at most 1.10)")
    assert not finding("SM clock", Observed(calls, gpu(*timed, *(replace(s, counter_ns=10**10) for s in between)))).held


def test_traces_on_a_clock_of_their_own_leave_all_samples_in() -> None:
    found = seen("SM clock", gpu(*(sample(at, sm_mhz=1000 + at) for at in range(1000, 2000, 100))))
    assert not found.held


# --- others -----------------------------------------------------------------------------------------------------


def test_alone_on_the_device() -> None:
    found = seen("foreign GPU work", gpu(sample(), sample(used=1900 * MIB, memory={OURS: 1790 * MIB})))
    detail = "no other process seen on the GPU, memory that is not ours grew by 10 MiB (at most 64)"
    assert found == Finding("foreign GPU work", True, detail)


@pytest.mark.parametrize("first", [{OURS: 1, 77: 1}, {OURS: 1}])
def test_another_process_breaks_whenever_it_is_there(first: Mapping[int, int]) -> None:
    found = seen("foreign GPU work", gpu(sample(memory=first), sample(memory={OURS: 1, 77: 1}), sample()))
    assert found == Finding("foreign GPU work", False, "other processes compute on the GPU: pid 77 (none is allowed)")


def test_our_children_are_ours() -> None:
    found = seen("foreign GPU work", gpu(sample(memory={OURS: 1, 77: 1}), own=frozenset({OURS, 77})))
    assert found.held


@pytest.mark.parametrize(("more", "held"), [(64, True), (65, False)])
def test_memory_that_somebody_unseen_takes(more: int, held: bool) -> None:
    found = seen("foreign GPU work", gpu(sample(), sample(used=(900 + more) * MIB), sample()))
    detail = f"no other process seen on the GPU, memory that is not ours grew by {more} MiB (at most 64)"
    assert found == Finding("foreign GPU work", held, detail)


CONTAINER = frozenset({7})


def test_in_a_container_the_only_process_is_ours() -> None:
    first, later = sample(), sample(used=1900 * MIB, memory={OURS: 1800 * MIB})
    assert seen("foreign GPU work", gpu(first, later, own=CONTAINER)).held


def test_in_a_container_one_of_several_processes_is_ours() -> None:
    found = seen("foreign GPU work", gpu(sample(memory={OURS: 1, 77: 1}), own=CONTAINER))
    assert found == Finding(
        "foreign GPU work",
        False,
        "2 processes compute on the GPU, one of which is ours (none but ours is allowed)",
    )


def test_in_a_container_with_children_only_a_newcomer_is_surely_foreign() -> None:
    family = frozenset({7, 8})
    both = sample(memory={OURS: 1, 42: 1})
    assert seen("foreign GPU work", gpu(both, both, own=family)).held
    found = seen("foreign GPU work", gpu(both, sample(memory={OURS: 1, 42: 1, 77: 1}), own=family))
    assert found.detail == "other processes compute on the GPU: pid 77 (none is allowed)"


def test_what_was_there_before_us_and_still_is_is_foreign() -> None:
    family = frozenset({7, 8})
    both = sample(memory={OURS: 1, 42: 1, 77: 1})
    assert seen("foreign GPU work", gpu(both, own=family, before=frozenset({5}))).held
    found = seen("foreign GPU work", gpu(both, own=family, before=frozenset({5, 77})))
    assert found.detail == "other processes compute on the GPU: pid 77 (none is allowed)"


def test_a_server_that_is_no_child_of_ours_is_what_is_measured() -> None:
    server = sample(memory={900: 700 * MIB}, reserved=0)
    assert seen("foreign GPU work", gpu(server, server)).held


def test_where_no_process_is_listed_torch_knows_what_is_ours() -> None:
    unlisted = sample(memory={})
    assert seen("foreign GPU work", gpu(unlisted, replace(unlisted, used=1000 * MIB, reserved=400 * MIB))).held
    assert not seen("foreign GPU work", gpu(unlisted, replace(unlisted, used=1000 * MIB))).held


@pytest.mark.parametrize(
    ("one", "detail"),
    [
        (sample(memory=None, used=None), "cannot be told: NVML tells no processes and no memory of this device"),
        (sample(used=None), "no other process on the GPU; its memory cannot be told"),
        (sample(memory=None), "no other process seen on the GPU, memory that is not ours grew by 0 MiB (at most 64)"),
    ],
)
def test_a_device_that_tells_little(one: GpuSample, detail: str) -> None:
    assert seen("foreign GPU work", gpu(one, one)) == Finding("foreign GPU work", True, detail)


@pytest.mark.parametrize("rule", ["GPU clock events", "SM clock", "foreign GPU work"])
@pytest.mark.parametrize("unknown", [NOT_GPU, NO_DEVICE, INSTALL])
def test_what_is_unknown_holds_and_says_why(rule: str, unknown: Unknown) -> None:
    assert seen(rule, Readings(gpu=unknown)) == Finding(rule, True, unknown.why)
