"""The HTTP client: sends requests side by side, and gives back what came with its times.

While answers come in, nothing is done but to read and to stamp them (:mod:`bodies`): events are found and parsed
afterwards, so that one stream's parsing does not delay another's. Connections are kept, so a measured request does not
open one. Built and used on one event loop.
"""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_specgate.engines.serving import arrival, bodies, failures
from pytest_specgate.engines.serving.alarm import Alarm
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.loop import together

if TYPE_CHECKING:
    import aiohttp

#: Times that a request is sent where the server says that it is busy, and the longest wait that it may ask for.
MOST_TRIES = 4
LONGEST_WAIT = 30.0
#: Seconds for a connection, and for a page that a server has of itself.
CONNECT_SECONDS = 10.0
PAGE_SECONDS = 20.0
#: Bytes of such a page, and of an answer that is no stream, at most. The latter may hold the scores of a long prompt.
PAGE_BYTES, ANSWER_BYTES = 2**24, 2**28
#: The page that tells whether a key is let in; any other may be closed to it, though the server answers.
MODELS = "/v1/models"
#: Nothing is to be compressed: a stream that a proxy gathers and squeezes does not come as it was sent.
_HEADERS = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Post:
    """A request to send: where, what, how many tokens it may bring, the longest silence in seconds.

    ``after`` is when it comes, in seconds from the call that sends it. Its stream is closed once ``leave_after`` chunks
    with something in them have come.
    """

    url: str
    body: bytes
    max_tokens: int
    silence: float
    model: str = ""
    after: float = 0.0
    leave_after: int | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came back: when it was sent, every read with its time, how often the server asked to wait before.

    ``late_ns`` is how long after it came a request by the clock was first sent, which is our own doing and no part of
    its time; None where none was set.
    """

    submit_ns: int
    reads: tuple[tuple[int, bytes], ...]
    waits: int = 0
    late_ns: int | None = None


class Client:
    """Keeps connections to all servers of an engine.

    ``headers`` go with every request; ``secure`` is whether any of them is behind TLS, whose certificates take a moment
    to load.
    """

    def __init__(self, headers: Mapping[str, str], *, secure: bool = True) -> None:
        self._headers, self._secure = dict(headers), secure
        self._session: aiohttp.ClientSession | None = None
        self._froze = False

    async def open(self) -> None:
        """Make the session; needs a running loop."""
        import aiohttp

        if not gc.get_freeze_count():
            # The collector would keep us from reading for 100 ms while it looks through an imported torch.
            self._froze = True
            gc.collect()
            gc.freeze()
        self._session = aiohttp.ClientSession(
            headers={**_HEADERS, **self._headers},
            # Made here, for the library's own was made when it was imported, before anybody named a certificate.
            connector=arrival.connector(
                limit=0, keepalive_timeout=300, ssl=ssl.create_default_context() if self._secure else False
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            read_bufsize=2**18,
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._froze:
            self._froze = False
            gc.unfreeze()

    async def pages(self, base: str, pages: Sequence[str]) -> dict[str, Any]:
        """The pages that the server has: JSON where they are, else text. Raises Failure where it cannot be reached."""
        found = await asyncio.gather(*(self._page(base + page) for page in pages))
        return {page: content for page, content in zip(pages, found) if content is not None}

    async def text(self, url: str) -> str | None:
        """A page as text; None where there is none. Raises Failure where the server cannot be reached."""
        found = await self._get(url)
        return found[1] if found is not None else None

    async def _page(self, url: str) -> Any:
        found = await self._get(url)
        if found is None:
            return None
        try:
            return json.loads(found[1])
        except (ValueError, RecursionError):
            return found[1]

    async def _get(self, url: str) -> tuple[int, str] | None:
        import aiohttp

        try:
            limit = aiohttp.ClientTimeout(total=PAGE_SECONDS, sock_connect=CONNECT_SECONDS)
            async with self._opened().get(url, timeout=limit, allow_redirects=False) as response:
                if response.status in (401, 403) and url.endswith(MODELS):
                    raise failures.of_status(response.status, await bodies.said(response), "")
                if response.status != 200:
                    return None
                if coding := bodies.coding(response):
                    if url.endswith(MODELS):
                        raise failures.compressed(coding)
                    return None
                return 200, (await bodies.whole(response, PAGE_BYTES)).decode()
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, UnicodeDecodeError):
            return None  # a page that is no page; the server is there
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            if isinstance(error, asyncio.TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
                return None
            raise failures.of_error(error, PAGE_SECONDS) or error from None

    async def call(self, url: str, body: Mapping[str, Any], silence: float) -> Any:
        """The JSON that a page answers to JSON, begun after so much silence at most, and then ended soon.

        Raises Failure.
        """
        import aiohttp

        whole = silence + PAGE_SECONDS
        limit = aiohttp.ClientTimeout(total=whole, sock_connect=CONNECT_SECONDS, sock_read=silence)
        try:
            async with self._opened().post(url, json=body, timeout=limit, allow_redirects=False) as response:
                if response.status != 200:
                    raise failures.of_status(response.status, await bodies.said(response), "")
                if coding := bodies.coding(response):
                    raise failures.compressed(coding)
                return json.loads(await bodies.whole(response, ANSWER_BYTES))
        except (ValueError, RecursionError):
            raise Failure("answers with what is no JSON", "check 'url' and 'dialect'") from None
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            if isinstance(error, asyncio.TimeoutError) and not isinstance(error, aiohttp.ServerTimeoutError):
                raise failures.unending(whole) from None
            raise failures.of_error(error, silence) or error from None

    async def ask(self, posts: Sequence[Post], at_once: int | None = None) -> list[Exchange]:
        """Send all, each when it comes; the answers in order. Raises the first Failure and gives the others up.

        At most ``at_once`` are under way where that is given: the next in order is sent as soon as one has ended. How
        late a request by the clock was sent is told beside its answer, and is not part of its time.
        """
        alarm, begin = Alarm(), time.perf_counter_ns()
        places = asyncio.Semaphore(at_once or len(posts) or 1)

        async def in_place(post: Post) -> Exchange:
            async with places:
                return await self._in_time(post, alarm, begin)

        try:
            return await together([in_place(post) for post in posts])
        finally:
            alarm.close()

    async def _in_time(self, post: Post, alarm: Alarm, begin: int) -> Exchange:
        if not post.after:
            return await self._exchange(post)
        due = begin + round(post.after * 1e9)
        await alarm.at(due)
        late = time.perf_counter_ns() - due
        return replace(await self._exchange(post), late_ns=late)

    async def _exchange(self, post: Post) -> Exchange:
        """The answer, timed from the first try where the server asked to wait: its caller waits as well."""
        waits, begin = 0, time.perf_counter_ns()
        for sent in range(1, MOST_TRIES + 1):
            found = await self._try(post, sent)
            if isinstance(found, Exchange):
                return replace(found, waits=waits, submit_ns=begin) if waits else found
            if found is not None:
                waits += 1
                await asyncio.sleep(found)
        raise AssertionError  # the last try returns or raises

    async def _try(self, post: Post, sent: int) -> Exchange | float | None:
        """An exchange, or the seconds to wait before the next try. Raises Failure.

        None where a kept connection had been closed by the server meanwhile: the next try opens a new one.
        """
        import aiohttp

        body = bodies.Body(post.max_tokens, post.silence, post.leave_after)
        headers = _Deadline(CONNECT_SECONDS + post.silence + PAGE_SECONDS)
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=post.silence)
        try:
            async with self._opened().post(post.url, data=post.body, timeout=limit, allow_redirects=False) as response:
                headers.met()
                if response.status in (429, 503) and sent < MOST_TRIES and (wait := _wait(response)) is not None:
                    return wait
                if response.status != 200:
                    raise failures.of_status(response.status, await bodies.said(response), post.model)
                if coding := bodies.coding(response):
                    raise failures.compressed(coding)
                if response.content_type != "text/event-stream":
                    raise failures.no_stream(response.content_type, await bodies.said(response))
                await body.read(response.content, arrival.clock())
        except aiohttp.ServerDisconnectedError:
            if sent == 1 and not body.reads:
                return None
            raise failures.cut_short(bool(body.reads)) from None
        except asyncio.CancelledError:
            if headers.missed:
                raise failures.headless(headers.seconds) from None
            raise
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise failures.of_error(error, post.silence, tokens_seen=bool(body.reads)) or error from None
        finally:
            headers.met()
        return Exchange(body.submit_ns, tuple(body.reads))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise Failure("is not connected to", "call start() before, and not after close()")
        return self._session


class _Deadline:
    """Cancels the present task after so many seconds, unless it was met: the library's limits begin with every byte."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.missed, self._task = seconds, False, asyncio.current_task()
        self._bell = asyncio.get_running_loop().call_later(seconds, self._miss)

    def met(self) -> None:
        """Nothing is to be cancelled any more; may be called twice."""
        self._bell.cancel()

    def _miss(self) -> None:
        self.missed = True
        if self._task is not None:
            self._task.cancel()


def _wait(response: Any) -> float | None:
    """Seconds that a busy server asks to wait; None where it does not say, or too many."""
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_WAIT else None
