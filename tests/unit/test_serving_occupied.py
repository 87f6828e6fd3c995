"""Which devices servers take from everybody else of this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pytest_specgate.engines.openai import OpenAIEngine
from pytest_specgate.engines.serving import occupied
from pytest_specgate.engines.serving.gpus import Board
from pytest_specgate.engines.serving.members import is_here
from tests.unit.test_suite_started_servers import context, load

BOARDS = tuple(Board(f"GPU-{name}", index, "NVIDIA H200", 0, {}) for index, name in enumerate("abcd"))
H200 = {"device": "NVIDIA H200", "count": 2, "dtype": "bfloat16"}


@pytest.fixture(autouse=True)
def _all_gpus_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(occupied, "look_once", lambda: BOARDS)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.2", "localhost", "::1", "::"])  # noqa: S104 - none is bound
def test_this_machine_has_many_names(host: str) -> None:
    assert is_here(host)


def test_a_machine_knows_its_own_name_even_where_no_resolver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    assert is_here(socket.gethostname())
    assert not is_here("elsewhere.example")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (None, None, {"cuda:0", "cuda:1", "cuda:2", "cuda:3"}),
        (None, "1,GPU-d", {"cuda:1", "cuda:3"}),
        ("2,3", "2,3", {"cuda:0", "cuda:1"}),
        ("2,3", "0", {"cuda:0"}),
    ],
)
def test_a_server_takes_the_gpus_that_it_sees(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, expected: set[str]
) -> None:
    if ours is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ours)

    assert occupied.gpus({} if theirs is None else {"CUDA_VISIBLE_DEVICES": theirs}) == expected


@pytest.mark.parametrize(("theirs", "expected"), [(None, {"cuda:0"}), ("1, 2", {"cuda:1", "cuda:2"})])
def test_without_nvml_the_environment_tells(
    monkeypatch: pytest.MonkeyPatch, theirs: str | None, expected: set[str]
) -> None:
    monkeypatch.setattr(occupied, "look_once", tuple)

    assert occupied.gpus({} if theirs is None else {"CUDA_VISIBLE_DEVICES": theirs}) == expected


def test_only_servers_on_a_gpu_of_this_machine_take_gpus(tmp_path: Path) -> None:
    def taken(reference: object, **server: object) -> frozenset[str]:
        suite = load(tmp_path, reference, candidate={"url": "http://10.255.255.1:1"}, **server)
        return OpenAIEngine(context(suite)).occupies()

    started = {"command": ["serve", "${port}"], "env": {"CUDA_VISIBLE_DEVICES": "1"}}

    assert taken(started, place=H200) == {"cuda:1"}
    assert taken({"url": "http://127.0.0.2:1"}, place=H200) == {f"cuda:{number}" for number in range(4)}
    assert taken({"url": "http://10.255.255.1:2"}, place=H200) == frozenset()
    assert taken(started) == frozenset()
    assert taken(started, place={**H200, "device": "AMD EPYC 9654"}) == frozenset()
