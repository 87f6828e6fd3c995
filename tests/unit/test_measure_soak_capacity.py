"""A soak and the search for the largest concurrency, with memory that is really taken, here and in child processes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import OutOfMemory
from pytest_specgate.measure.capacity import largest, measure_capacity
from pytest_specgate.measure.memory import _order, _run_child, measure_memory
from pytest_specgate.measure.resident import bounded, forget_peak, peak_resident_bytes, resident_bytes
from pytest_specgate.measure.soak import soak
from pytest_specgate.records import Arm, Capacity, MemoryReading, Message, Request, Sampling, Soak, Throughput
from pytest_specgate.samples.growth import steps
from pytest_specgate.samples.memory import scalars
from pytest_specgate.suite.model import EngineSpec
from tests import tiny
from tests.unit.leaking import KIB, MIB
from tests.unit.project import context, load, started, write

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's bound on a process's memory")
REQUESTS = [Request(f"q{n}", (Message("user", "Say it."),), 8, Sampling()) for n in range(2)]
GROWTH = {"metric": "host_memory_slope", "limit": "<=64 KiB"}
BATCH = {"metric": "max_batch", "limit": ">=2"}


# --- soak -------------------------------------------------------------------------------------------------------------


def test_a_soak_reads_memory_once_each_block_is_drained(tmp_path: Path) -> None:
    suite, _ = load(write(tmp_path, engines={"tiny": {"kind": "tests.unit.leaking:Keeps"}}))
    engine = started(suite)
    found = soak(engine, REQUESTS, Arm.CANDIDATE, 6)
    assert (found.requests, len(found.host), found.vram) == (2, 6, ())
    assert engine.cache == []


def test_what_an_engine_tells_of_its_cache_is_read_with_it(tmp_path: Path) -> None:
    suite, _ = load(write(tmp_path, engines={"tiny": {"kind": "tests.unit.leaking:Pool"}}))
    assert soak(started(suite), REQUESTS, Arm.CANDIDATE, 4).cache == (2 * KIB, 4 * KIB, 6 * KIB, 8 * KIB)


def test_a_leak_shows_at_its_size_and_a_cache_does_not(tmp_path: Path) -> None:
    leaking, keeping = (_growth(tmp_path, kind) for kind in ("Leaks", "Keeps"))
    assert min(leaking[2:]) > 0
    assert sorted(leaking)[len(leaking) // 2] == pytest.approx(256 * KIB, rel=0.1)
    assert sorted(keeping)[len(keeping) // 2] == pytest.approx(0, abs=32 * KIB)


def _growth(folder: Path, kind: str) -> tuple[float, ...]:
    """Bytes per request from block to block, in a child process."""
    path = write(folder, GROWTH, engines={"tiny": {"kind": f"tests.unit.leaking:{kind}"}}, measure={"soak": 16})
    suite, case = load(path)
    readings = measure_memory(context(suite), case, suite.spec.measure)
    assert readings[Arm.REFERENCE].soak is None
    assert len(readings[Arm.CANDIDATE].soak.host) == 16
    return steps(readings)["host_memory_slope"]


def test_the_first_quarter_of_a_soak_is_for_settling() -> None:
    held = Soak(4, (100, 900, 1700, 1800, 1820, 1840, 1860, 1880), vram=(0, 1, 2, 3, 4, 5, 6, 7), cache=(8,) * 8)
    found = steps({Arm.CANDIDATE: MemoryReading(soak=held), Arm.REFERENCE: MemoryReading()})
    host, vram, cache = (25.0, 5.0, 5.0, 5.0, 5.0), (0.25,) * 5, (0.0,) * 5
    assert found == {"host_memory_slope": host, "vram_slope": vram, "kv_cache_slope": cache}
    assert steps({Arm.CANDIDATE: MemoryReading()}) == steps({}) == {}


def test_without_a_slope_gate_nothing_is_soaked(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, {"metric": "host_memory", "limit": "<=9 GiB"}))
    assert all(reading.soak is None for reading in measure_memory(context(suite), case, suite.spec.measure).values())


# --- capacity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 64])
@pytest.mark.parametrize("true", [0, 1, 2, 3, 5, 8, 63, 64, 100])
def test_the_search_finds_the_largest_that_fits_and_tries_few(most: int, true: int) -> None:
    tried: list[int] = []

    def fits(number: int) -> bool:
        tried.append(number)
        return number <= true

    assert largest(fits, most) == min(most, true)
    assert max(tried) <= most
    assert len(tried) == len(set(tried)) <= 14


@linux
def test_what_does_not_fit_is_caught_and_the_process_goes_on() -> None:
    """In a process of its own, for the bound is the process's."""
    program = (
        "from pytest_specgate.measure.resident import bounded\n"
        "from pathlib import Path\n"
        "status = Path('/proc/self/status').read_text()\n"
        "taken = int(status.split('VmData:')[1].split()[0]) * 1024\n"
        "with bounded(taken + 64 * 2**20):\n"
        "    try:\n"
        "        bytes(256 * 2**20)\n"
        "    except MemoryError:\n"
        "        print('refused', len(bytes(2**20)))\n"
        "print(len(bytes(256 * 2**20)))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["refused", str(2**20), str(256 * 2**20)]


@linux
def test_a_peak_can_be_forgotten() -> None:
    ballast = b"x" * (64 * MIB)
    held = resident_bytes()
    before = peak_resident_bytes()  # read last, for reading takes a page itself
    assert before >= held > len(ballast)
    del ballast
    if forget_peak():
        assert peak_resident_bytes() < before


@linux
def test_the_draft_costs_capacity(tmp_path: Path) -> None:
    """A request takes 24 MiB plainly and 36 MiB with the draft; the bound leaves room for some of them."""
    engines = {"tiny": {"kind": "tests.unit.leaking:Takes"}}
    base = _child_data(tmp_path, engines)
    bound = {"capacity": {"memory": f"{(base + 6 * 36 * MIB + 12 * MIB) // MIB} MiB", "most": 32}}
    suite, case = load(write(tmp_path, BATCH, engines=engines, measure=bound))
    readings = measure_memory(context(suite), case, suite.spec.measure)
    plain, drafting = (readings[arm].capacity for arm in Arm)
    assert plain.exhausted
    assert drafting.exhausted
    # A process of Python takes a little more or less each time.
    assert drafting.max_batch in (5, 6, 7)
    assert 8 <= plain.max_batch <= 10
    assert [rate.concurrency for rate in drafting.rates][:3] == [1, 2, 4]
    assert min(rate.tokens_per_second for rate in plain.rates) > 0
    found = scalars(readings)
    assert found["max_batch"] == drafting.max_batch
    assert found["max_batch_ratio"] == drafting.max_batch / plain.max_batch


def _child_data(folder: Path, engines: object) -> int:
    """What a child that runs no request takes: its resident peak, less what one request took."""
    suite, case = load(write(folder, {"metric": "host_memory", "limit": "<=9 GiB"}, engines=engines))
    alone = replace(context(suite), arms=(Arm.CANDIDATE,))
    return _run_child(alone, _order(case, Arm.CANDIDATE, suite.spec.measure)).host_rss - 36 * MIB


def test_a_search_ends_at_the_most_that_is_to_be_tried(tmp_path: Path) -> None:
    suite, _ = load(write(tmp_path))
    engine = started(suite)
    found = measure_capacity(engine, REQUESTS, Arm.CANDIDATE, 6)
    assert (found.max_batch, found.exhausted) == (6, False)
    assert [rate.concurrency for rate in found.rates] == [1, 2, 4, 6]


def test_without_a_bound_a_cpu_is_not_searched(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, BATCH))
    assert all(one.capacity is None for one in measure_memory(context(suite), case, suite.spec.measure).values())


def test_speed_is_that_of_a_second_run_where_the_first_one_records(tmp_path: Path) -> None:
    suite, _ = load(write(tmp_path, engines={"tiny": {"kind": "tests.unit.leaking:Records"}}))
    slow, fast = (measure_capacity(started(suite), REQUESTS, Arm.CANDIDATE, 4, again=again) for again in (False, True))
    assert slow.max_batch == fast.max_batch == 4
    for first, second in zip(slow.rates, fast.rates):
        assert first.concurrency == second.concurrency
        assert second.tokens_per_second > 2 * first.tokens_per_second


def test_a_gpu_is_searched_without_a_bound_on_the_host(tmp_path: Path) -> None:
    bound = {"capacity": {"memory": "1 MiB", "most": 4}}
    engines = {"tiny": {"kind": "scripted", "options": {"device": "cuda"}}}
    suite, case = load(write(tmp_path, BATCH, engines=engines, measure=bound))
    readings = measure_memory(context(suite), case, suite.spec.measure)
    assert [readings[arm].capacity.max_batch for arm in Arm] == [4, 4]


def test_a_ratio_needs_an_arm_that_runs_at_all() -> None:
    def reading(most: int) -> MemoryReading:
        return MemoryReading(capacity=Capacity(most, True, (Throughput(1, 2.0),)))

    assert scalars({Arm.CANDIDATE: reading(0), Arm.REFERENCE: reading(0)}) == {"max_batch": 0.0}
    assert scalars({Arm.REFERENCE: reading(3)}) == {}


def test_a_bound_below_what_is_taken_is_lifted_again() -> None:
    with bounded(2**40):
        pass
    assert len(bytes(MIB)) == MIB


# --- the native engine ------------------------------------------------------------------------------------------------


@linux
def test_the_native_decoder_runs_out_of_memory_and_goes_on(tmp_path: Path) -> None:
    """Keys and values of a token take 128 KiB here, and a slot of 4,000 tokens half a GiB: sixteen do not fit."""
    target = tiny.model(head_dim=1024)
    target.config.max_position_embeddings = 4096
    tiny.save(tmp_path / "target", target)
    tiny.save(tmp_path / "draft", tiny.blurred(target))
    candidate = {"method": "draft_model", "draft": "draft", "num_draft_tokens": 2}
    spec = EngineSpec(kind="native", target="target", dtype="float64", candidate=candidate)
    engine = create(EngineContext("e", spec, tmp_path))
    engine.start()
    short = [replace(request, max_tokens=6, ignore_eos=True) for request in REQUESTS]
    long = [replace(REQUESTS[0], prompt=f"p{n}", max_tokens=4000, ignore_eos=True) for n in range(16)]
    before = engine.generate(short, Arm.CANDIDATE)
    data = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * KIB
    with bounded(data + 1024 * MIB), pytest.raises(OutOfMemory, match=r"arm failed: out of memory"):
        engine.generate(long, Arm.CANDIDATE)
    assert engine.memory(list(Arm)).kv_cache is None
    after = engine.generate(short, Arm.CANDIDATE)
    assert [trace.token_ids for trace in after] == [trace.token_ids for trace in before]

    found = soak(engine, short, Arm.CANDIDATE, 8)
    assert len(found.host) == 8
    assert engine.memory(list(Arm)).kv_cache is None
    searched = measure_capacity(engine, short, Arm.CANDIDATE, 3)
    assert (searched.max_batch, searched.exhausted) == (3, False)
    engine.close()
