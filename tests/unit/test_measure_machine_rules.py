"""Each rule about host and software, with a reading that breaks it, one that holds, and one that is unknown."""

from __future__ import annotations

import pytest

from pytest_specgate.measure.readings import NOT_CPU, NOT_GPU, Allocations, Instant, Load, Readings, Unknown
from pytest_specgate.records import Finding
from tests.unit.observing import seen


@pytest.mark.parametrize(
    ("load", "held", "allowed"),
    [
        (Load(1.25, 2, 1), True, "1.25 beside 1 compute thread"),
        (Load(1.26, 2, 1), False, "1.25 beside 1 compute thread"),
        (Load(0.5, 2, 2), True, "0.50 beside 2 compute threads"),
        (Load(0.51, 2, 2), False, "0.50 beside 2 compute threads"),
        (Load(12.9, 16, 4), True, "13.00 beside 4 compute threads"),
        (Load(13.1, 16, 4), False, "13.00 beside 4 compute threads"),
        (Load(0.6, 2, 8), False, "0.50 beside 8 compute threads"),
    ],
)
def test_others_may_use_what_our_threads_leave_free_and_a_share_of_ours(load: Load, held: bool, allowed: str) -> None:
    detail = f"other processes used {load.foreign:.2f} of {load.cores} cores (at most {allowed})"
    assert seen("foreign load", Readings(load=load)) == Finding("foreign load", held, detail)


@pytest.mark.parametrize(
    ("mhz", "held", "noted", "detail"),
    [
        ((3000.0, 3010.0) * 6, True, False, "CPU at 3000-3010 MHz, +0% from first to last quarter"),
        ((3000.0,) * 4 + (2900.0,) * 4, True, False, "CPU at 2900-3000 MHz, -3% from first to last quarter"),
        (
            (3000.0,) * 4 + (2350.0,) * 4,
            False,
            False,
            "CPU at 2350-3000 MHz, -22% from first to last quarter (at most -20%)",
        ),
        ((3000.0, 2000.0) * 8, True, True, "CPU at 2000-3000 MHz, +0% from first to last quarter"),
        ((2000.0,) * 4 + (3000.0,) * 4, True, True, "CPU at 2000-3000 MHz, +50% from first to last quarter"),
        ((2596.1,) * 20, True, False, "cannot be told: 2596 MHz in every sample, as virtual machines report it"),
        ((3000.0, 1000.0), True, False, "cannot be told: 2 samples, 8 are needed"),
    ],
)
def test_a_cpu_that_slows_down_breaks_and_one_that_wavers_is_noted(
    mhz: tuple[float, ...], held: bool, noted: bool, detail: str
) -> None:
    assert seen("CPU frequency", Readings(cpu_mhz=mhz)) == Finding("CPU frequency", held, detail, noted)


@pytest.mark.parametrize(
    ("clocks", "noted", "detail"),
    [
        (((0.0, 100.0), (0.5, 100.5), (1.0, 101.2)), False, "wall clock within 0.200 s of the monotonic clock"),
        (
            ((0.0, 100.0), (0.5, 3700.5), (1.0, 3701.0)),
            True,
            "the wall clock jumped by +3600.0 s: it was set, or the machine slept; durations use the monotonic clock",
        ),
        (
            ((0.0, 100.0), (0.5, 98.5), (1.0, 99.0)),
            True,
            "the wall clock jumped by -2.0 s: it was set, or the machine slept; durations use the monotonic clock",
        ),
        (((5.0, 100.0), (4.75, 100.5)), True, "the monotonic clock went back by 0.25 s"),
        (((5.0, 100.0),), False, "cannot be told: the clocks were not read"),
    ],
)
def test_clock_steps_are_noted(clocks: tuple[tuple[float, float], ...], noted: bool, detail: str) -> None:
    readings = Readings(clocks=tuple(Instant(*both) for both in clocks))
    assert seen("clock steps", readings) == Finding("clock steps", True, detail, noted)


@pytest.mark.parametrize(
    ("compiled", "held", "detail"),
    [
        ({"frames compiled": 0, "tuning runs": 0}, True, "nothing was compiled in the timed region"),
        (
            {"frames compiled": 3, "tuning runs": 0, "graph inputs captured": 2},
            False,
            "3 frames compiled, 2 graph inputs captured in the timed region (none is allowed: warm-up has to cover it)",
        ),
    ],
)
def test_whatever_is_compiled_while_timed_breaks(compiled: dict[str, int], held: bool, detail: str) -> None:
    assert seen("compilation", Readings(compiled=compiled)) == Finding("compilation", held, detail)


@pytest.mark.parametrize(("calls", "retries", "held"), [(0, 0, True), (2, 0, False), (0, 1, False)])
def test_any_memory_fetched_from_the_device_while_timed_breaks(calls: int, retries: int, held: bool) -> None:
    detail = f"{calls} device allocations and {retries} retries in the timed region (none is allowed)"
    found = seen("device allocations", Readings(allocations=Allocations(calls, retries)))
    assert found == Finding("device allocations", held, detail)


@pytest.mark.parametrize(
    ("rule", "readings", "why"),
    [
        ("foreign load", Readings(load=NOT_CPU), "the device is not the CPU"),
        ("CPU frequency", Readings(cpu_mhz=NOT_CPU), "the device is not the CPU"),
        ("compilation", Readings(compiled=Unknown("no torch")), "no torch"),
        ("device allocations", Readings(allocations=NOT_GPU), "the device is not a GPU"),
    ],
)
def test_what_is_unknown_holds_and_says_why(rule: str, readings: Readings, why: str) -> None:
    assert seen(rule, readings) == Finding(rule, True, why)
