"""What other processes did, from two readings; real processes of ours and of others; the cores' frequency."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from pytest_specgate.measure import host
from pytest_specgate.measure.host import HostReading, available_cores, foreign_cores, frequency, read_host

_SPIN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def test_foreign_cores_are_what_is_busy_beyond_our_own() -> None:
    first, last = HostReading(10.0, 100.0, 5.0), HostReading(14.0, 110.0, 9.0)
    assert foreign_cores(first, last) == pytest.approx(1.5)


def test_foreign_cores_are_never_negative_and_no_time_is_no_load() -> None:
    first = HostReading(10.0, 100.0, 5.0)
    assert foreign_cores(first, HostReading(12.0, 101.0, 7.0)) == 0.0
    assert foreign_cores(first, first) == 0.0


def test_readings_of_this_host_go_up() -> None:
    first = read_host()
    sum(n * n for n in range(100_000))
    last = read_host()
    assert last.wall > first.wall
    assert last.busy >= first.busy
    assert last.own > first.own
    assert available_cores() >= 1


def test_a_childs_work_is_our_own_while_it_runs_and_after_it_ended() -> None:
    first = read_host()
    with subprocess.Popen([sys.executable, "-c", f"{_SPIN}input()"], stdin=subprocess.PIPE) as child:
        while sum(psutil.Process(child.pid).cpu_times()[:2]) < 0.25:
            time.sleep(0.01)
        running = read_host()
        child.communicate(b"\n")
    ended = read_host()
    # Less than was spent: the kernel counts other processes in ticks of its clock.
    assert running.own - first.own >= 0.2
    assert ended.own - first.own >= 0.2


def test_a_process_that_is_not_ours_is_foreign() -> None:
    # A shell that ends at once leaves its background job to init: no child of ours any more.
    command = f'{sys.executable} -c "$0" </dev/null >/dev/null 2>&1 & echo $!'
    ourselves, first = time.process_time(), read_host()
    done = subprocess.run(["/bin/sh", "-c", command, _SPIN], capture_output=True, text=True, check=True)
    stranger = int(done.stdout)
    assert stranger not in {one.pid for one in host.descendants()}
    while _runs(stranger):
        time.sleep(0.02)
    last = read_host()
    waiting_took_us = time.process_time() - ourselves
    assert last.busy - first.busy >= 0.2
    assert last.own - first.own - waiting_took_us < 0.2


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _cores(*mhz: float) -> list[SimpleNamespace]:
    return [SimpleNamespace(current=one) for one in mhz]


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "_CPUS", tmp_path)


def _told(monkeypatch: pytest.MonkeyPatch, mhz: list[SimpleNamespace]) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", lambda percpu: mhz)


@pytest.mark.usefixtures("no_files")
def test_the_fastest_of_our_cores_are_those_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_affinity", lambda: [1, 2, 3])
    _told(monkeypatch, _cores(9000, 800, 3000, 3400))
    assert frequency(1) == 3400
    assert frequency(2) == 3200
    assert frequency(99) == 2400


@pytest.mark.usefixtures("no_files")
@pytest.mark.parametrize("told", [[], _cores(0.0, 0.0), None])
def test_a_system_that_tells_no_frequency(monkeypatch: pytest.MonkeyPatch, told: list[SimpleNamespace]) -> None:
    _told(monkeypatch, told)
    assert frequency(1) is None


@pytest.mark.usefixtures("no_files")
def test_a_system_that_refuses_tells_no_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(percpu: bool) -> None:
        raise NotImplementedError("cannot find current frequency file")

    monkeypatch.setattr(psutil, "cpu_freq", refuse)
    assert frequency(1) is None


@pytest.mark.usefixtures("no_files")
def test_the_kernels_files_are_read_where_there_are_any(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "_affinity", lambda: [0, 4])
    for core, khz in {0: 1_200_000, 4: 3_600_000}.items():
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{khz}\n")
    assert frequency(1) == 3600
    assert frequency(2) == 2400


@pytest.mark.usefixtures("no_files")
def test_fewer_cores_told_than_there_are_leaves_none_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_affinity", lambda: [0, 7])
    _told(monkeypatch, _cores(2400))
    assert frequency(4) == 2400


def _gone(*_: object, **__: object) -> None:
    raise psutil.NoSuchProcess(1)


def test_processes_that_vanish_while_they_are_looked_at_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    vanished = SimpleNamespace(cpu_times=_gone)
    monkeypatch.setattr(host, "descendants", lambda: [vanished])
    assert read_host().own > 0
    monkeypatch.undo()
    monkeypatch.setattr(psutil.Process, "children", _gone)
    assert host.descendants() == []


def test_a_system_without_affinity_gives_us_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    assert available_cores() >= 1
    assert read_host().busy > 0
