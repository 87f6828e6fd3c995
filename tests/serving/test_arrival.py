"""When bytes came is the kernel's word: what keeps the client from reading does not delay the times."""

from __future__ import annotations

import gc
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_specgate.engines.serving import arrival
from pytest_specgate.engines.serving.arrival import Stamped
from pytest_specgate.records import Arm
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.script import Script

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells when bytes came")
READS: dict[str, Callable[[Stamped], bytes]] = {
    "recv": lambda own: own.recv(100),
    "recv_into": lambda own: _into(own, bytearray(100)),
    "recv_into a part": lambda own: _into(own, bytearray(100), 5),
}


def _into(own: Stamped, buffer: bytearray, *size: int) -> bytes:
    return bytes(buffer[: own.recv_into(buffer, *size)])


@pytest.fixture
def pair() -> Iterator[tuple[Stamped, socket.socket]]:
    """A client's socket and the other end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own: Any = arrival._socket(socket.AF_INET, socket.SOCK_STREAM, 0)
        with own:
            own.connect(listener.getsockname())
            with listener.accept()[0] as other:
                yield own, other


@needs_linux
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_bytes_are_as_old_as_their_coming_and_not_as_their_being_read(
    pair: tuple[Stamped, socket.socket], read: Callable[[Stamped], bytes]
) -> None:
    own, other = pair
    for _ in range(100):  # Linux begins to stamp a moment after the first socket of a machine asks for it
        sent = time.perf_counter_ns()
        other.sendall(b"hello")
        time.sleep(0.01)
        before_reading = time.perf_counter_ns()
        assert read(own) == b"hello"
        assert sent <= own.last() <= time.perf_counter_ns()
        if own.last() <= before_reading:
            return

    pytest.fail("never told")


@needs_linux
def test_the_end_of_a_connection_is_read_like_any(pair: tuple[Stamped, socket.socket]) -> None:
    own, other = pair
    other.shutdown(socket.SHUT_WR)

    assert own.recv(100) == b""


def test_without_a_socket_of_ours_the_time_is_now() -> None:
    assert arrival.clock() is time.perf_counter_ns


def test_a_socket_that_was_read_past_us_tells_now() -> None:
    with Stamped() as unread:
        assert time.perf_counter_ns() <= unread.last() <= time.perf_counter_ns()


@needs_linux
def test_a_client_that_is_kept_from_reading_tells_when_tokens_came(arms: Arms) -> None:
    engine, _, fast = arms(Script(pattern=(1,), gap=0.02))
    engine.generate([ask()], Arm.CANDIDATE)
    assert engine._loop is not None
    loop = engine._loop._loop
    asleep, answered, woken = threading.Event(), threading.Event(), list[int]()

    def sleep() -> None:
        asleep.set()
        answered.wait(120)
        woken.append(time.perf_counter_ns())

    class Told(list[Any]):
        def append(self, request: Any) -> None:
            super().append(request)
            loop.call_soon_threadsafe(sleep)
            asleep.wait(120)

    fast.requests, fast.after_reply = Told(), answered.set
    (trace,) = engine.generate([ask()], Arm.CANDIDATE)

    assert trace.chunks
    assert all(trace.submit_ns <= chunk.t_ns <= woken[0] for chunk in trace.chunks)


def test_the_collector_leaves_alone_what_was_there_before_until_the_client_is_closed(arms: Arms) -> None:
    engine, _, _ = arms()
    while_open = gc.get_freeze_count()

    engine.close()

    assert while_open > 0
    assert gc.get_freeze_count() == 0
