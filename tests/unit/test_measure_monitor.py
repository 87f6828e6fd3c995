"""The monitor on this machine and on stand-ins; what torch compiled and allocated, from its own counters."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pytest_specgate.measure import host
from pytest_specgate.measure import monitor as monitor_module
from pytest_specgate.measure.environment import examine
from pytest_specgate.measure.monitor import Monitor
from pytest_specgate.measure.readings import (
    NO_DEVICE,
    NOT_CPU,
    NOT_GPU,
    Allocations,
    Gpu,
    Load,
    Observed,
    Readings,
    Unknown,
    gpu_use,
)
from pytest_specgate.measure.software import NO_TORCH, allocations_since, compile_totals, compiled_since
from tests.unit.nvml_library import Library, install
from tests.unit.observing import pairs

CPU = {"device": "cpu", "threads": "1"}


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at their interval, whatever a busy machine makes of each."""
    monkeypatch.setattr(monitor_module, "LARGEST_COST", 100.0)


def _until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not reached() and time.monotonic() < end:
        time.sleep(0.005)
    assert reached()


@pytest.mark.usefixtures("_eager")
def test_a_cpu_is_watched_while_its_owner_works() -> None:
    with Monitor(CPU, interval=0.01) as monitor:
        _until(lambda: len(monitor._clocks) > 5)
        readings = monitor.readings()
    assert isinstance(readings.load, Load)
    assert (readings.load.cores, readings.load.threads) == (host.available_cores(), 1)
    assert readings.load.foreign >= 0
    assert len(readings.clocks) > 5
    assert list(readings.clocks) == sorted(readings.clocks, key=lambda clock: clock.monotonic)
    assert isinstance(readings.cpu_mhz, Unknown) or len(readings.cpu_mhz) == len(readings.clocks)
    assert (readings.gpu, readings.allocations) == (NOT_GPU, NOT_GPU)
    assert monitor.spent > 0
    assert len(examine(Observed(pairs((1.0, 0.5)), readings))) > 0


def test_it_ends_with_its_block_and_lets_errors_pass() -> None:
    def fail() -> None:
        with Monitor(CPU, interval=0.01):
            assert _watchers() == 1
            raise KeyError("the measurement's own")

    with pytest.raises(KeyError):
        fail()
    assert _watchers() == 0


def _watchers() -> int:
    return [thread.name for thread in threading.enumerate()].count("specgate-monitor")


def test_readings_may_be_asked_for_again_and_grow() -> None:
    with Monitor({"device": "cpu"}, interval=60) as monitor:
        first, second = monitor.readings(), monitor.readings()
    assert (len(first.clocks), len(second.clocks)) == (2, 3)
    assert isinstance(second.load, Load)
    assert second.load.threads == host.available_cores()


def test_a_slow_look_makes_for_a_long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    # A look of 50 ms may be taken every 25 s: the one on entry and one by the thread, whatever the interval says.
    def slow(threads: int) -> float:
        time.sleep(0.05)
        return 2000.0

    monkeypatch.setattr(host, "frequency", slow)
    with Monitor(CPU, interval=0.001) as monitor:
        _until(lambda: len(monitor._clocks) == 2)
        time.sleep(0.3)
        assert len(monitor._clocks) == 2


def test_a_system_without_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "frequency", lambda threads: None)
    with Monitor(CPU) as monitor:
        assert monitor.readings().cpu_mhz == Unknown("cannot be told: the system does not tell the CPU's frequency")


@pytest.mark.parametrize(
    ("subject", "cpu", "gpu"),
    [({"device": "simulated"}, NOT_CPU, NOT_GPU), ({"device": "mps"}, NOT_CPU, NOT_GPU), ({}, NO_DEVICE, NO_DEVICE)],
)
def test_other_devices_are_told_apart(subject: dict[str, str], cpu: Unknown, gpu: Unknown) -> None:
    with Monitor(subject) as monitor:
        readings = monitor.readings()
    assert (readings.load, readings.cpu_mhz) == (cpu, cpu)
    assert (readings.gpu, readings.allocations) == (gpu, gpu)


@pytest.mark.parametrize("told", ["", "0", "many", "-2"])
def test_threads_that_are_not_told_are_all_cores(told: str) -> None:
    with Monitor({"device": "cpu", "threads": told}) as monitor:
        load = monitor.readings().load
    assert isinstance(load, Load)
    assert load.threads == host.available_cores()


# --- GPU --------------------------------------------------------------------------------------------------------


class _Cuda:
    """torch.cuda as far as it is asked."""

    def __init__(self) -> None:
        self.stats = {"num_device_alloc": 10, "num_alloc_retries": 1}

    def is_initialized(self) -> bool:
        return True

    def memory_stats(self, device: str) -> dict[str, int]:
        return dict(self.stats)

    def memory_reserved(self, device: str) -> int:
        return 1

    def get_device_properties(self, device: str) -> SimpleNamespace:
        return SimpleNamespace(uuid="a")


@pytest.mark.usefixtures("_eager")
def test_a_gpu_is_sampled_by_uuid_and_the_library_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    library, cuda = Library(), _Cuda()
    install(monkeypatch, library, SimpleNamespace(cuda=cuda))
    before = {"GPU-a": frozenset({5}), "GPU-b": frozenset({6})}
    with Monitor({"device": "cuda:0"}, before, interval=0.01) as monitor:
        _until(lambda: len(monitor._gpu_samples) > 3)
        cuda.stats |= {"num_device_alloc": 12}
        readings = monitor.readings()
    assert isinstance(readings.gpu, Gpu)
    assert len(readings.gpu.samples) > 3
    assert {one.sm_mhz for one in readings.gpu.samples} == {1900}
    assert readings.gpu.before == frozenset({5})
    assert readings.allocations == Allocations(2, 0)
    assert (readings.load, readings.cpu_mhz) == (NOT_CPU, NOT_CPU)
    assert library.open == 0


def test_a_gpu_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    with Monitor({"device": "cuda"}) as monitor:
        readings = monitor.readings()
    assert readings.gpu == Unknown("cannot be told: install nvidia-ml-py")
    assert readings.allocations == readings.compiled == NO_TORCH


# --- torch's counters -------------------------------------------------------------------------------------------


def _counters(monkeypatch: pytest.MonkeyPatch) -> defaultdict[str, Counter[str]]:
    counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))  # type: ignore[arg-type]
    return counters


def test_what_was_compiled_since(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = _counters(monkeypatch)
    counters["frames"]["total"] = 5
    first = compile_totals()
    counters["frames"]["total"] += 2
    counters["inductor"] += Counter({"select_algorithm_autotune": 1, "benchmarking.Timer.benchmark": 3, "pattern": 9})
    counters["inductor"]["cudagraph_recorded_non_static_inputs"] += 4
    since = compiled_since(first, compile_totals())
    assert since == {"frames compiled": 2, "tuning runs": 4, "graph inputs captured": 4}


def test_looking_adds_no_counter_and_a_reset_counts_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = _counters(monkeypatch)
    assert compile_totals() == {"frames compiled": 0, "tuning runs": 0, "graph inputs captured": 0}
    assert dict(counters) == {}
    last = {"frames compiled": 1}
    assert compiled_since({"frames compiled": 7}, last) == last
    assert compiled_since(None, last) == last
    assert compiled_since(None, None) == NO_TORCH


def test_torch_without_dynamo_has_compiled_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _counters(monkeypatch)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", None)  # type: ignore[arg-type]
    assert set((compile_totals() or {"": 1}).values()) == {0}


def test_an_allocator_that_was_not_there_tells_nothing() -> None:
    assert allocations_since(None, Allocations(1, 1)) == NO_TORCH
    assert allocations_since(Allocations(3, 1), Allocations(8, 1)) == Allocations(5, 0)


def test_torch_itself_counts_the_frames_that_it_compiles() -> None:
    torch = pytest.importorskip("torch")
    first = compile_totals()
    doubled = torch.compile(lambda x: x * 2, backend="eager")
    assert doubled(torch.ones(2)).tolist() == [2.0, 2.0]
    once = compile_totals()
    doubled(torch.ones(2))
    twice = compile_totals()
    compiled, again = compiled_since(first, once), compiled_since(once, twice)
    assert not isinstance(compiled, Unknown)
    assert compiled["frames compiled"] >= 1
    assert again == {"frames compiled": 0, "tuning runs": 0, "graph inputs captured": 0}


def test_what_a_gpu_did_reaches_the_measurement_through_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Library(), SimpleNamespace(cuda=_Cuda()))
    with Monitor({"device": "cuda:0"}, {}, interval=60) as monitor:
        told = gpu_use(monitor.readings())
    assert [(one.utilization, one.watts) for one in told] == [(0.87, 412.5)] * 2
    silent = frozenset({"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"})
    install(monkeypatch, Library(unsupported=silent), SimpleNamespace(cuda=_Cuda()))
    with Monitor({"device": "cuda:0"}, {}, interval=60) as monitor:
        assert gpu_use(monitor.readings()) == ()
    assert gpu_use(Readings()) == ()
