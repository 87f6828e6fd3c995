"""One timed case on a device at a time, and a word to who has to wait."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from pytest_specgate.errors import StoreError
from pytest_specgate.measure.lock import alone_on


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path))


def test_the_second_waits_for_the_first_and_says_so() -> None:
    order: list[str] = []
    waiting = threading.Event()

    def tell(text: str) -> None:
        order.append(text)
        waiting.set()

    def second() -> None:
        with alone_on("cuda:1", "b", tell):
            order.append("b")

    with alone_on("cuda:1", "a", order.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        order.append("a")
    thread.join(60)
    assert order[:1] == ["b: waiting for another run to leave the device"]
    assert order[-2:] == ["a", "b"]


def test_devices_do_not_wait_for_each_other() -> None:
    with alone_on("cpu", "a", pytest.fail), alone_on("cuda", "b", pytest.fail):
        pass


def test_the_first_gpu_has_two_names(tmp_path: Path) -> None:
    with alone_on("cuda", "a", pytest.fail):
        pass
    with alone_on("cuda:0", "a", pytest.fail):
        pass
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["cuda-0.lock"]


def test_a_cache_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / "file"))
    hint = r"locks: cannot be made .* — set SPECGATE_CACHE to a folder of yours"
    with pytest.raises(StoreError, match=hint), alone_on("cpu", "a", pytest.fail):
        pass


def test_a_server_on_gpus_keeps_engines_of_theirs_waiting(tmp_path: Path) -> None:
    with alone_on("server localhost", "a", pytest.fail, {"cuda:1", "cuda:0"}):
        held = sorted(path.stem for path in (tmp_path / "locks").iterdir())

    assert held == ["cpu", "cuda-0", "cuda-1"]


def test_an_error_inside_gives_the_device_back() -> None:
    with pytest.raises(KeyError), alone_on("cpu", "a", pytest.fail):
        raise KeyError
    with alone_on("cpu", "b", pytest.fail):
        pass


@pytest.mark.parametrize(
    ("device", "locked"),
    [
        ("server 10.0.0.7", ["host-10.0.0.7"]),
        ("server b.example+a.example", ["host-a.example", "host-b.example"]),
        ("server 127.0.0.1", ["cpu"]),
        ("server 127.0.0.2+0.0.0.0", ["cpu"]),
        (f"server {socket.gethostname()}", ["cpu"]),
        ("server localhost+gpu-box", ["cpu", "host-gpu-box"]),
        ("server ../../etc", ["host-.._.._etc"]),
    ],
)
def test_servers_have_their_hosts_and_those_here_our_cpu(tmp_path: Path, device: str, locked: list[str]) -> None:
    with alone_on(device, "a", print):
        held = sorted(path.stem for path in (tmp_path / "locks").iterdir())

    assert held == locked
