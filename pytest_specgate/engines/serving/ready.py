"""Wait until a server is up: healthy first, then able to give a token, and alive all the while."""

from __future__ import annotations

import http.client
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.process import Launch, Server


class NotReady(Exception):
    """The server cannot answer yet; the message says what it did instead."""


#: Gets one token from the server at this URL within so many seconds; raises NotReady to be asked again, and
#: EngineError where waiting does not help: a wrong model name, a refused key.
Probe = Callable[[str, float], None]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_LONGEST_CALL = 5.0
_MOMENT = 0.5


def wait_until_ready(server: Server, launch: Launch, probe: Probe) -> None:
    """Return once ``probe`` had its token. Raises EngineError: it ended, or was not ready in time, or the probe's."""
    until = time.monotonic() + launch.seconds
    if launch.health is not None:
        health = server.url + launch.health
        _repeat(server, until, lambda left: _within(min(left, _LONGEST_CALL), lambda: _ask_health(health, left)))
    _repeat(server, until, lambda left: _within(left, lambda: probe(server.url, left)))


def _repeat(server: Server, until: float, ask: Callable[[float], None]) -> None:
    """Ask until it answers, once at least; between two questions the server must be alive, and time left."""
    pause, why = _FIRST_PAUSE, ""
    while True:
        server.check("before it was ready")
        left = until - time.monotonic()
        if left <= 0 and why:
            raise server.late(why)
        try:
            return ask(max(left, _FIRST_PAUSE))
        except NotReady as reason:
            why = str(reason)
        time.sleep(min(pause, max(until - time.monotonic(), 0.0)))
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _within(seconds: float, ask: Callable[[], None]) -> None:
    """Ask in a thread that is left behind where no answer is whole in time: a socket's limit begins with every byte."""
    said: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            ask()
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            said.put(error)
        else:
            said.put(None)

    threading.Thread(target=work, name="specgate-ready", daemon=True).start()
    try:
        # A moment more than the socket's own limit, which knows better what was missing.
        error = said.get(timeout=seconds + _MOMENT)
    except queue.Empty:
        raise NotReady(f"its answer did not come to an end in {seconds:.3g} s") from None
    if error is not None:
        raise error


def _ask_health(url: str, left: float) -> None:
    try:
        # Straight to the address: a proxy of the environment knows no loopback servers.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(url, timeout=min(left, _LONGEST_CALL)) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        error.close()
        status = error.code
    except (OSError, http.client.HTTPException) as error:
        raise NotReady(f"{url} gave no answer ({getattr(error, 'reason', None) or error})") from None
    if status != 200:
        raise NotReady(f"{url} answered {status}")
