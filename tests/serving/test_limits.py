"""Answers that are no streams: one without an end, or too large, or of no known form is told and holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from pytest_specgate.engines.serving import client as client_module
from pytest_specgate.engines.serving import watching
from pytest_specgate.engines.serving.client import Client
from pytest_specgate.engines.serving.dialects.llamacpp import LLAMACPP
from pytest_specgate.engines.serving.dialects.rooms import Rooms
from pytest_specgate.engines.serving.dialects.vllm import VLLM
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.gpus import Unseen
from pytest_specgate.records import Arm

T = TypeVar("T")
LOG = "look at the server's log"


def against(body: Callable[[], bytes], use: Callable[[Client, str], Awaitable[T]]) -> T:
    """Use a client of a server that sends one such piece of its body after another, until an empty one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
            while data := body():
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            pass  # the client left
        finally:
            writer.close()

    async def both() -> T:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = Client({}, secure=False)
        await client.open()
        try:
            return await use(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        finally:
            await client.close()
            server.close()

    return asyncio.run(both())


def test_an_answer_that_drips_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # A quarter of a second for all of it, and a minute of silence: however slow this machine, silence is not what ends.
    monkeypatch.setattr(client_module, "PAGE_SECONDS", -59.75)

    with pytest.raises(Failure) as raised:
        against(lambda: b" ", lambda client, url: client.call(f"{url}/tokenize", {}, 60.0))

    assert str(raised.value) == f"did not come to the end of its answer in 0.25 s — {LOG}, or raise 'timeout'"


@pytest.mark.parametrize("name", ["PAGE_BYTES", "ANSWER_BYTES"])
def test_what_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(client_module, name, 2**20)

    async def use(client: Client, url: str) -> Any:
        return await (client.text(f"{url}/metrics") if name == "PAGE_BYTES" else client.call(url, {}, 60.0))

    with pytest.raises(Failure) as raised:
        against(lambda: b" " * 2**18, use)

    assert str(raised.value) == f"answers with more than 1 MiB — {LOG}, and check 'url'"


def test_nesting_without_end_is_no_json() -> None:
    pieces = iter([b"[" * 200_000, b""])
    with pytest.raises(Failure, match="answers with what is no JSON"):
        against(lambda: next(pieces), lambda client, url: client.call(url, {}, 60.0))

    again = iter([b"[" * 200_000, b""])
    found = against(lambda: next(again, b""), lambda client, url: client.pages(url, ["/info"]))
    assert found == {"/info": "[" * 200_000}


@pytest.mark.parametrize("said", [None, [], {}, {"content": "a"}, {"content": 5, "tokens": [1]}, {"tokens": ["x"]}])
def test_an_answer_asked_again_that_is_none_is_told(said: Any) -> None:
    assert LLAMACPP.retold is not None
    assert LLAMACPP.retold.read({"content": "a", "tokens": [1, 2]}) == ("a", [1, 2])

    with pytest.raises(Failure, match="answers /completion with something that is no text with its token ids"):
        LLAMACPP.retold.read(said)


def test_a_look_that_fails_stops_no_pass() -> None:
    class Refusing(Client):
        async def text(self, url: str) -> str | None:
            raise Failure("cannot be reached", "start the server")

        async def ask(self, posts: Any) -> Any:
            await asyncio.sleep(0.1)
            return []

    unseen = Unseen("not ours", "name its process")
    watched = watching.Watched(Arm.CANDIDATE, "http://127.0.0.1:1", VLLM, unseen, Rooms())

    found = asyncio.run(watching.watch(Refusing({}), watched, [[]]))

    assert found.served is not None
    assert found.served.kv_cache_usage == ()
