"""A server of scripted streams in a process of its own, and its word of what it sent when.

It poses as vLLM, and does what a request asks of it (``return_token_ids``, ``continuous_usage_stats``). What it sends
was encoded before; a chunk is one write, so that a client meets the reads that a decoder makes.
``POST /script`` says how later requests are answered, ``GET /truth`` what was sent since then.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate, cycle, islice
from typing import Any

CHAT = "/v1/chat/completions"
MODEL = "smol"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
PROMPT_TOKENS = 7
#: Digits that stand for the time of a write until it is known, and how much is written before others have their turn.
UNTIMED, TURN = b"0" * 20, 8


@dataclass(frozen=True)
class Script:
    """So many ``chunks``, after a role chunk; the first comes ``first`` seconds after the request.

    ``sizes`` are their numbers of tokens, over and over. They come ``gap`` seconds apart, or at 0 as fast as they are
    taken. Of ``streams`` side by side each begins a little later, so that all together are evenly spaced; with
    ``in_step`` all send at the same moments, as a batch does.
    """

    chunks: int = 200
    sizes: Sequence[int] = (1,)
    first: float = 0.0
    gap: float = 0.0
    streams: int = 1
    in_step: bool = False

    @property
    def tokens(self) -> int:
        """Output tokens of an answer."""
        return sum(self.each)

    @property
    def each(self) -> list[int]:
        """Tokens of each chunk."""
        return list(islice(cycle(self.sizes), self.chunks))


class Frames:
    """The bytes of an answer, one piece a chunk, as a request of this kind gets it."""

    def __init__(self, script: Script, *, ids: bool, growing: bool) -> None:
        self.role = _frame({"role": "assistant", "content": ""}, usage=0 if growing else None)
        self.pieces = [
            _frame(
                {"content": " token" * size},
                ids=range(100, 100 + size) if ids else None,
                usage=total if growing else None,
                finish="length" if total == script.tokens else None,
            )
            for size, total in zip(script.each, accumulate(script.each), strict=True)
        ]
        self.end = _event({**_envelope(), "choices": [], "usage": _usage(script.tokens)}) + _chunk(b"data: [DONE]\n\n")
        self.end += b"0\r\n\r\n"
        self.stamp = [piece.index(UNTIMED) for piece in self.pieces]

    def piece(self, number: int, now_ns: int) -> bytes:
        """A chunk that says when it is written."""
        at, piece = self.stamp[number], self.pieces[number]
        return b"%b%020d%b" % (piece[:at], now_ns, piece[at + len(UNTIMED) :])


class Desk:
    """What all connections share: the script, its bytes, and what was sent."""

    def __init__(self) -> None:
        self.use(Script())

    def use(self, script: Script) -> None:
        """Answer later requests by it, and forget what was sent by another."""
        self.script, self.begun, self.sent = script, 0, list[dict[str, int]]()
        self._frames: dict[tuple[bool, bool], Frames] = {}

    def frames(self, asked: dict[str, Any]) -> Frames:
        """The bytes for a request of this kind."""
        ids = bool(asked.get("return_token_ids"))
        growing = bool((asked.get("stream_options") or {}).get("continuous_usage_stats"))
        if (ids, growing) not in self._frames:
            self._frames[ids, growing] = Frames(self.script, ids=ids, growing=growing)
        return self._frames[ids, growing]

    def offset(self) -> float:
        """Seconds that the next stream's chunks are shifted by."""
        self.begun += 1
        script = self.script
        return 0.0 if script.in_step else script.gap * (self.begun % script.streams) / script.streams


class Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.data, self.taking, self.pouring = desk, b"", True, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport: Any = transport
        self.loop = asyncio.get_running_loop()

    def pause_writing(self) -> None:
        """Wait until the client has taken what was written."""
        self.taking = False

    def resume_writing(self) -> None:
        """Go on."""
        self.taking = True
        if not self.desk.script.gap and not self.pouring:
            self.pour()

    def data_received(self, data: bytes) -> None:
        """Answer once a request is whole."""
        self.data += data
        head, found, rest = self.data.partition(b"\r\n\r\n")
        lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        if found and len(rest) >= sum(lengths):
            self.data = b""
            method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
            self.answer(method, path, rest)

    def answer(self, method: str, path: str, body: bytes) -> None:
        """Answer one request."""
        pages: dict[str, Any] = {"/v1/models": {"object": "list", "data": [{"id": MODEL, "owned_by": "vllm"}]}}
        pages |= {"/version": {"version": "0.32.0"}, "/health": {}}
        if method == "POST" and path == CHAT:
            self.begin(json.loads(body))
        elif method == "POST" and path == "/script":
            self.desk.use(Script(**json.loads(body)))
            self.page(200, {})
        elif path == "/truth":
            self.page(200, self.desk.sent)
        else:
            self.page(200 if path in pages else 404, pages.get(path, {"detail": "Not Found"}))

    def page(self, status: int, content: Any) -> None:
        """Write an answer that is no stream."""
        data = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self.transport.write(head.encode() + data)

    def begin(self, asked: dict[str, Any]) -> None:
        """Begin a stream."""
        script = self.desk.script
        self.frames, self.number = self.desk.frames(asked), 0
        self.truth = {"asked_ns": time.perf_counter_ns(), "tokens": script.tokens, "chunks": script.chunks}
        self.truth["in_first"] = script.each[0]
        self.transport.write(HEAD + self.frames.role)
        self.due = self.loop.time() + script.first + self.desk.offset()
        if script.gap:
            self.loop.call_at(self.due, self.step)
        else:
            self.pour()

    def step(self) -> None:
        """Write the chunk that is due."""
        self.write()
        if self.number < self.desk.script.chunks and not self.transport.is_closing():
            self.due += self.desk.script.gap
            self.loop.call_at(self.due, self.step)

    def pour(self) -> None:
        """Write a few chunks, unless they are not taken, and come again."""
        self.pouring = False
        for _ in range(TURN):
            if not self.taking or self.number == self.desk.script.chunks or self.transport.is_closing():
                return
            self.write()
        self.pouring = True
        self.loop.call_soon(self.pour)

    def write(self) -> None:
        """Write the next chunk, and after the last one the end."""
        now = time.perf_counter_ns()
        self.transport.write(self.frames.piece(self.number, now))
        self.number += 1
        if self.number == 1:
            self.truth["first_ns"] = now
        if self.number == self.desk.script.chunks:
            self.transport.write(self.frames.end)
            self.desk.sent.append({**self.truth, "last_ns": now})


@contextmanager
def running() -> Iterator[str]:
    """The address of a server that runs until the block ends."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(sock,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        sock.close()
        process.terminate()
        process.join()


def script_of(script: Script) -> bytes:
    """The body that asks for a script."""
    return json.dumps(asdict(script)).encode()


def _serve(sock: socket.socket) -> None:
    async def run() -> None:
        desk = Desk()
        parent = os.getppid()
        await asyncio.get_running_loop().create_server(lambda: Connection(desk), sock=sock, backlog=1024)
        while os.getppid() == parent:  # whoever kills the benchmark leaves no server behind
            await asyncio.sleep(1)

    asyncio.run(run())


def _envelope() -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}


def _usage(tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "total_tokens": PROMPT_TOKENS + tokens,
        "completion_tokens": tokens,
    }


def _frame(
    delta: dict[str, str],
    *,
    ids: range | None = None,
    usage: int | None = None,
    finish: str | None = None,
) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    choice |= {} if ids is None else {"token_ids": list(ids)}
    told = {} if usage is None else {"usage": _usage(usage)}
    return _event({**_envelope(), "choices": [choice], **told, "t": UNTIMED.decode()})


def _event(data: dict[str, Any]) -> bytes:
    return _chunk(b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
