"""GPU memory of servers, on a stand-in for NVML: whose processes they are, on which GPUs, and why it is not told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from pytest_specgate.engines.serving import footprint, gpus, members
from pytest_specgate.engines.serving.gpus import Board, Gpus, Unseen, look_once, open_gpus
from pytest_specgate.engines.serving.members import Members, listening, named
from tests.unit.nvml_library import MIB, Library, install

A = Board("GPU-aaaa", 0, "H200", 10, {7: 100, 9: 1})
B = Board("GPU-bbbb", 1, "H200", 20, {8: 20})


def on(board: Board, held: Mapping[int, int | None]) -> Board:
    return replace(board, held=held)


# --- what NVML lists ---------------------------------------------------------------------------------------------


def seen(monkeypatch: pytest.MonkeyPatch, library: Library) -> tuple[Board, ...]:
    install(monkeypatch, library)
    found = open_gpus()
    assert isinstance(found, Gpus)
    boards = found.look()
    found.close()
    assert library.open == 0
    return boards


def test_every_gpu_is_listed_with_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(held=lambda uuid: {7: 5 * MIB} if uuid == "GPU-a" else {7: 3 * MIB, 8: None})

    assert seen(monkeypatch, library) == (
        Board("GPU-a", 0, "NVIDIA H200", 9 * MIB, {7: 5 * MIB}),
        Board("GPU-b", 1, "NVIDIA H200", 9 * MIB, {7: 3 * MIB, 8: None}),
    )


def test_a_divided_gpu_is_its_parts_and_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"GPU-a": {7: 9}, "GPU-b": {7: 5, 8: 4}, "MIG-1": {7: 5}, "MIG-2": {8: 4}}
    library = Library(parts={"GPU-b": ("MIG-1", None, "MIG-2")}, held=held.__getitem__)

    boards = seen(monkeypatch, library)

    assert [(board.uuid, board.index) for board in boards] == [("GPU-a", 0), ("MIG-1", 1), ("MIG-2", 1)]
    assert footprint.vram([7], boards) == {"GPU-a": 9, "MIG-1": 5}


def test_a_gpu_that_tells_no_processes_lists_none(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = frozenset({"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMemoryInfo"})

    assert seen(monkeypatch, Library(uuids=("GPU-a",), unsupported=silent))[0].held == {}
    assert seen(monkeypatch, Library(uuids=("GPU-a",), unsupported=silent))[0].used is None


def test_without_the_library_or_a_driver_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    assert open_gpus() == gpus.NOT_INSTALLED
    assert look_once() == ()
    install(monkeypatch, Library(unsupported=frozenset({"nvmlInit"})))
    no_driver = "use host_memory on a machine without an NVIDIA GPU"
    assert open_gpus() == Unseen("NVML does not start (Not Supported)", no_driver)
    library = Library(unsupported=frozenset({"nvmlDeviceGetCount"}))
    install(monkeypatch, library)
    assert open_gpus() == Unseen("NVML does not list the GPUs (Not Supported)", no_driver)
    assert library.open == 0


# --- whose they are ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pids", "boards", "expected"),
    [
        ((7,), (A, B), {"GPU-aaaa": 100}),
        ((7, 8), (A, B), {"GPU-aaaa": 100, "GPU-bbbb": 20}),  # tensor parallel: a process a GPU
        ((7,), (A, on(B, {7: 20})), {"GPU-aaaa": 100, "GPU-bbbb": 20}),  # or one on both
        ((6,), (A, B), None),
        ((), (A, B), None),
        ((7,), (), None),
        ((7, 8), (A, on(B, {8: None})), None),
    ],
)
def test_a_servers_memory_is_added_up_over_gpus_or_unmeasured(
    pids: tuple[int, ...], boards: tuple[Board, ...], expected: Mapping[str, int] | None
) -> None:
    assert footprint.vram(pids, boards) == expected


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ["GPU-aaaa", "GPU-bbbb"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["GPU-bbbb"]),
        ({"CUDA_VISIBLE_DEVICES": "1, 0"}, ["GPU-bbbb", "GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bb"}, ["GPU-bbbb"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-cc,-1"}, []),
    ],
)
def test_the_gpus_that_a_server_may_use(env: dict[str, str], expected: list[str]) -> None:
    assert [board.uuid for board in footprint.visible((A, B), env)] == expected


def test_a_number_names_a_gpu_only_in_the_order_of_the_bus() -> None:
    boards = (A, replace(B, name="RTX 4090"))

    assert footprint.visible(boards, {"CUDA_VISIBLE_DEVICES": "1"}) == boards
    assert footprint.visible(boards, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == boards[1:]


def test_a_part_of_a_gpu_is_named_by_its_uuid() -> None:
    parts = (replace(A, uuid="MIG-1111"), replace(A, uuid="MIG-2222"))

    assert footprint.visible(parts, {"CUDA_VISIBLE_DEVICES": "MIG-2222"}) == parts[1:]


#: No system counts processes so high: what the host of a container calls one of it.
FAR = 2**22 + 7


def test_in_a_container_what_came_since_the_start_is_the_server() -> None:
    before, now = (on(A, {9: 1}), B), (on(A, {9: 1, FAR: 100}), on(B, {8: 20, FAR + 1: 30}))
    server = Members(os.getpid(), counts=False, sure=True, arrived=footprint.arrived(before, now))

    assert server.holds(now) == {"GPU-aaaa": 100, "GPU-bbbb": 30}
    assert server.holds((on(A, {FAR: 150, FAR + 2: 7}), B)) == {"GPU-aaaa": 150}


def test_a_process_that_this_system_knows_and_that_is_not_below_us_is_somebody_elses() -> None:
    now = (on(A, {os.getppid(): 100}), B)
    server = Members(os.getpid(), counts=False, sure=True, arrived=footprint.arrived((B,), now))

    assert server.arrived == frozenset()
    assert server.holds(now) == Unseen("none of its processes is on a GPU that NVML lists", "use host_memory on a CPU")


def test_what_nvml_does_not_tell_of_a_process_is_unmeasured() -> None:
    server = Members(os.getpid(), counts=True, sure=True)

    found = server.holds((on(A, {os.getpid(): None}), B))

    assert found == Unseen(
        "NVML does not tell what its processes hold", "run specgate as the server's user, on the host"
    )


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_on_this_machine_is_found_by_its_port(port: int) -> None:
    found = listening(f"http://localhost:{port}")

    assert found == Members(os.getpid(), counts=True, sure=False)
    assert isinstance(found, Members)
    assert found.holds((on(A, {os.getpid(): 5}), B)) == {"GPU-aaaa": 5}
    assert found.holds((A, B)) == Unseen(
        "none of its processes is on a GPU that NVML lists", "name the server's process with 'pid', or remove the gate"
    )


def test_a_server_on_another_machine_is_not_looked_for() -> None:
    assert listening("http://192.0.2.7:8000") == Unseen(
        "it runs on another machine (192.0.2.7)", "run specgate there, or remove the gate"
    )


def test_nobody_listens_or_the_system_does_not_tell_who(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Unseen(
        "the system does not tell who listens at its port", "name the server's process with 'pid', or remove the gate"
    )
    assert listening("http://127.0.0.1:1") == unknown

    def denied(_: str) -> list[object]:
        raise members.psutil.AccessDenied

    monkeypatch.setattr(members.psutil, "net_connections", denied)
    assert listening("http://127.0.0.1:1") == unknown


def test_a_server_is_named_by_its_process() -> None:
    assert named(os.getpid()) == Members(os.getpid(), counts=True, sure=True)
    assert named(FAR) == Unseen(f"no process {FAR} runs on this machine", "correct 'pid'")


def test_what_is_resident_is_at_most_the_peak() -> None:
    now, peak = footprint.resident([os.getpid()]), footprint.peak_resident([os.getpid()])

    assert now is not None
    assert peak is not None
    assert 1 << 20 < now <= peak
