"""A fake streaming server on a loopback port: HTTP by hand, so that it can do wrong what real servers do wrong.

It runs on an event loop in a thread of its own, and counts as vLLM does. Everything that it sends follows its script,
which may be changed between requests. Nothing of it outlives its ``with`` block.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from types import TracebackType
from typing import Any

from tests.serving.script import Piece, Reply, Script, endless, prompt_ids, reply, words_of

Page = tuple[int, str, str]


@dataclass
class Counters:
    """Totals since the start, as vLLM counts them."""

    requests: int = 0
    tokens: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    accepted_at: list[int] = field(default_factory=list)
    preempted: int = 0
    running: int = 0
    waiting: int = 0
    prompts: list[list[str]] = field(default_factory=list)

    def cached(self, words: list[str]) -> int:
        """Words at the beginning that an earlier prompt began with too, all but the last at most; keeps the prompt."""
        alike = [len(list(takewhile(lambda pair: pair[0] == pair[1], zip(words, old)))) for old in self.prompts]
        self.prompts.append(words)
        return min(max(alike, default=0), len(words) - 1)

    def add(self, made: Reply, k: int) -> None:
        """Count a finished answer."""
        self.requests += 1
        self.tokens += made.tokens
        if not k:
            return
        self.accepted_at = self.accepted_at or [0] * k
        for emitted in made.rounds:
            self.drafts += 1
            self.drafted += k
            self.accepted += emitted - 1
            for position in range(emitted - 1):
                self.accepted_at[position] += 1

    def page(self, script: Script) -> str:
        """``/metrics`` in vLLM's form, the counts spread over ``labels`` engines."""
        lines = []
        families = {"request_success": self.requests, "generation_tokens": self.tokens}
        families |= {"num_preemptions": self.preempted}
        if script.k:
            spec = {"num_drafts": self.drafts, "num_draft_tokens": self.drafted, "num_accepted_tokens": self.accepted}
            families |= {f"spec_decode_{name}": value for name, value in spec.items()}
        for name, value in families.items():
            lines.append(f"# TYPE vllm:{name} counter")
            for engine in range(script.labels):
                share = value // script.labels + (value % script.labels if engine == 0 else 0)
                label = f'{{engine="{engine}",model_name="smol"}}'
                lines.append(f"vllm:{name}_total{label} {share}.0")
                lines.append(f"vllm:{name}_created{label} 1.7e+09")
        for position, value in enumerate(self.accepted_at if script.k else ()):
            label = f'{{engine="0",model_name="smol",position="{position}"}}'
            lines.append(f"vllm:spec_decode_num_accepted_tokens_per_pos_total{label} {value}.0")
        if script.slots or script.room:
            lines += [f"vllm:num_requests_{name} {getattr(self, name)}.0" for name in ("running", "waiting")]
        return "\n".join([*lines, script.gauges]) + "\n"


class FakeServer:
    """``with FakeServer(Script(...)) as server:`` answers at ``server.url`` until the block ends.

    ``requests`` are the bodies that were asked; ``key`` is demanded as a bearer token where it is set; ``pages``
    replace or add answers to GET requests, ``posts`` are answers to POST requests that want no stream.
    Nothing is answered before ``together`` requests were asked.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = "",
        tls: ssl.SSLContext | None = None,
        owner: str = "vllm",
        port: int = 0,
    ) -> None:
        self.script = script or Script()
        self.counters = Counters()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.connections = 0
        self.pages: dict[str, Page] = {}
        self.posts: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
        self.together = self._looks = 0
        self._uncounted: list[Reply] = []
        self.after_reply: Callable[[], None] = lambda: None
        self._key, self._tls, self._owner = key, tls, owner
        self._writers: set[asyncio.StreamWriter] = set()
        self._used: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-server", daemon=True)
        self.port = port

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def stop(self) -> None:
        """Close the port and break every connection, as a server that dies does."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(60)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # the other side left
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays open."""
        first = await reader.readexactly(1)
        if first == b"\x16":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # a TLS handshake is no HTTP
            await writer.drain()
            return False
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        if self._key and headers.get("authorization") != f"Bearer {self._key}":
            refusal = json.dumps({"error": {"message": f"wrong key {headers.get('authorization')}"}})
            return await _send(writer, (401, "application/json", refusal))
        if method == "GET":
            return await _send(writer, self._page(path))
        if self.script.unkept and writer in self._used:
            return False
        self._used.add(writer)
        body = json.loads(data)
        if path in self.posts and not body.get("stream"):
            return await _send(writer, (200, "application/json", json.dumps(self.posts[path](body))))
        self.requests.append(body)
        script = self.script
        if script.lacks and script.lacks in body:
            said = json.dumps({"error": {"message": f"{script.lacks} is not yet supported with speculative decoding"}})
            return await _send(writer, (400, "application/json", said))
        if script.window and not 0 < len(prompt_ids(script, body)) <= script.window - int(body["max_tokens"]):
            said = json.dumps({"error": {"message": f"the window is {script.window} tokens"}})
            return await _send(writer, (400, "application/json", said))
        self.headers.append(headers)
        if script.drips:
            await _drip(writer)
        return await self._in_turn(writer, self.requests[-1])

    async def _in_turn(self, writer: asyncio.StreamWriter, body: Mapping[str, Any]) -> bool:
        """Answer when there is a slot for it."""
        counters, script = self.counters, self.script
        full = 0 < script.slots <= counters.running
        if full and script.beyond and not (script.beyond == "later" and self.requests.count(body) > 1):
            return await _refuse(writer, 429, script.retry_after)
        self._looks = 0
        counters.waiting += not script.beyond
        while script.slots and counters.running >= script.slots:
            await asyncio.sleep(0.001)
        counters.waiting -= not script.beyond
        counters.running += 1
        counters.preempted += int(0 < script.room < counters.running)
        while script.held and body.get("ignore_eos") and self._looks < 2:
            await asyncio.sleep(0.001)
        try:
            return await self._answer(writer, body)
        finally:
            counters.running -= 1

    def _model(self) -> dict[str, Any]:
        room = {"max_model_len": self.script.window} if self.script.window else {}
        return {"id": "smol", "object": "model", "owned_by": self._owner, **room}

    def _page(self, path: str) -> Page:
        script = self.script
        self._looks += path == "/metrics"
        uncounted, self._uncounted = (self._uncounted, []) if path == "/metrics" else ([], self._uncounted)
        models = {"object": "list", "data": [self._model()]}
        own: dict[str, Page] = {"/v1/models": (200, "application/json", json.dumps(models))}
        if self._owner == "vllm":
            own["/version"] = (200, "application/json", json.dumps({"version": script.version}))
            if script.counters:
                own["/metrics"] = (200, "text/plain; version=0.0.4", self.counters.page(script))
        for made in uncounted:
            self.counters.add(made, script.k)
        return {**own, **self.pages}.get(path, (404, "application/json", '{"detail":"Not Found"}'))

    def _count(self, made: Reply) -> None:
        if self.script.tardy:
            self._uncounted.append(made)
        else:
            self.counters.add(made, self.script.k)
        self.counters.preempted += self.script.preempts

    async def _answer(self, writer: asyncio.StreamWriter, body: Mapping[str, Any]) -> bool:
        script = self.script
        if script.status != 200 and (not script.busy or len(self.requests) <= script.busy):
            return await _refuse(writer, script.status, script.retry_after)
        while len(self.requests) < self.together:
            await asyncio.sleep(0.001)
        _head(writer, 200, script.content_type, {"Transfer-Encoding": "chunked"})
        if script.endless:
            for piece in endless(script):
                await _write(writer, piece, script)
        made = reply(script, body, self.counters.cached(words_of(body)) if script.caches else None)
        for number, piece in enumerate(made.pieces):
            if number == script.drop_after:
                writer.transport.abort()
                return False
            if number == script.hang_after:
                await _hang(writer, comments=script.comments)
            if number == script.error_after:
                piece = Piece(0.0, b'data: {"error": {"message": "engine died", "code": %d}}\n\n' % script.error_code)
            await _write(writer, piece, script)
            if number == script.error_after:
                break
        self._count(made)
        self.after_reply()
        await _end(writer, script)
        return True


async def _end(writer: asyncio.StreamWriter, script: Script) -> None:
    """End the body, unless the script goes on with lines that say nothing."""
    if script.lingers:
        await _hang(writer, comments=True)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _drip(writer: asyncio.StreamWriter) -> None:
    """Begin headers, and end none."""
    writer.write(b"HTTP/1.1 200 Scripted\r\nX-Padding: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _hang(writer: asyncio.StreamWriter, *, comments: bool) -> None:
    """Be silent, or say nothing but that the connection is alive."""
    while True:
        await asyncio.sleep(0.01)
        if comments:
            writer.write(b"e\r\n: keep-alive\n\n\r\n")
            await writer.drain()


async def _write(writer: asyncio.StreamWriter, piece: Piece, script: Script) -> None:
    """Send a piece after its time, in chunks of the transfer coding as small as the script wants them."""
    if piece.after:
        await asyncio.sleep(piece.after)
    data = (b": keep-alive\n\n" if script.comments else b"") + piece.data
    step = script.split or len(data)
    for start in range(0, len(data), step):
        part = data[start : start + step]
        writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        await writer.drain()
        if script.split:
            await asyncio.sleep(0)


def _head(writer: asyncio.StreamWriter, status: int, kind: str, headers: Mapping[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Scripted", *([f"Content-Type: {kind}"] if kind else [])]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


async def _refuse(writer: asyncio.StreamWriter, status: int, retry_after: str) -> bool:
    said = json.dumps({"error": {"message": "scripted refusal"}})
    return await _send(writer, (status, "application/json", said), {"Retry-After": retry_after} if retry_after else {})


async def _send(writer: asyncio.StreamWriter, page: Page, headers: Mapping[str, str] | None = None) -> bool:
    status, kind, text = page
    data = text.encode()
    _head(writer, status, kind, {"Content-Length": str(len(data)), **(headers or {})})
    writer.write(data)
    await writer.drain()
    return True
