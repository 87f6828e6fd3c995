"""Pytest's end of a :mod:`keeper`: orders go down one pipe, events come up the other.

The first pipe is the server's life line: the keeper ends the server when it closes, however this process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest_specgate
from pytest_specgate.engines.serving import leftovers

#: More than a keeper needs for anything but ending a server.
_ANSWER_SECONDS = 20.0
_BRIEF = 0.05
_BOOT = "import sys; sys.path.append(sys.argv[1]); from pytest_specgate.engines.serving.keeper import main; main()"


@dataclass(frozen=True, slots=True)
class Order:
    """What a keeper is told; see there."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str
    log: str
    limit: int
    grace: float
    hide: Sequence[str] = ()


class CannotStart(Exception):
    """The command could not be run at all: ``errno`` where the system gave one, ``folder`` if that is missing."""

    def __init__(self, why: str, number: int | None = None, *, folder: bool = False) -> None:
        super().__init__(why)
        self.errno, self.folder = number, folder


class Kept:
    """A running server and its keeper. May be used by several threads."""

    def __init__(self, order: Order) -> None:
        """Start both. Raises CannotStart."""
        self._grace, self._mark = order.grace, leftovers.a_mark()
        self._lock = threading.RLock()
        self._unread = b""
        self._tail: list[str] = []
        self._left: list[int] | None = None
        self.status: int | None = None
        self.pid = 0
        self._keeper = subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-I", "-S", "-c", _BOOT),
                *(str(Path(pytest_specgate.__file__).parent.parent), leftovers.watchdog(self._mark)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for pytest, which then says how to end
        )
        env = {**order.env, leftovers.MARK: self._mark}
        self._send(json.dumps({**asdict(order), "env": env, "parent": os.getpid()}))
        try:
            self.pid = self._started()
        except BaseException:
            self.stop()
            raise

    def _started(self) -> int:
        until = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < until:
            event = self._next(_BRIEF)
            if event.get("event") == "started":
                return int(event["pid"])
            if event.get("event") == "failed":
                raise CannotStart(event["why"], event["errno"], folder=event["folder"])
            if event.get("event") == "closed":
                break
        raise CannotStart(self._tail[-1] if self._tail else "its watchdog gave no answer")

    @property
    def keeper_pid(self) -> int:
        """The process that everything which the server starts is below."""
        return self._keeper.pid

    def alive(self) -> bool:
        """Whether the server's first process still runs; once it does not, ``status`` says how it ended."""
        with self._lock:
            while self._take_event(0.0) not in ("", "closed"):
                pass
            return self.status is None and self._left is None and self._keeper.poll() is None

    def tail(self) -> list[str]:
        """The last lines that the server said, the newest last."""
        with self._lock:
            if self.alive():
                self._send("tail")
                until = time.monotonic() + _ANSWER_SECONDS
                while time.monotonic() < until and (name := self._take_event(_BRIEF)) != "tail":
                    if name == "closed":
                        break
            return list(self._tail)

    def stop(self) -> list[int]:
        """End the server and all that it started; returns the pids that nothing could end. May be called twice."""
        with self._lock:
            self._send("stop")
            with contextlib.suppress(OSError):
                self._pipe_down.close()
            until = time.monotonic() + self._grace + _ANSWER_SECONDS
            while self._left is None and time.monotonic() < until and self._take_event(_BRIEF) != "closed":
                pass
            if self._left is None:
                self._end_by_hand()
            self._keeper.kill()
            self._keeper.wait()
            self._pipe_up.close()
            return list(self._left or [])

    # --- how ----------------------------------------------------------------------------------------------------

    def _end_by_hand(self) -> None:
        """The keeper was killed, or hangs: end the server's own process group, and whoever left it with its mark."""
        self._keeper.kill()
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        leftovers.end(self._mark)
        self._left = []

    @property
    def _pipe_down(self) -> Any:
        return self._keeper.stdin

    @property
    def _pipe_up(self) -> Any:
        return self._keeper.stdout

    def _send(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._pipe_down.write(line.encode() + b"\n")
            self._pipe_down.flush()

    def _take_event(self, seconds: float) -> str:
        """Take in the next event within this time; its name, "closed" where no more will come, or nothing."""
        event = self._next(seconds)
        name = str(event.get("event", ""))
        if name in ("tail", "exited"):
            self._tail = event["lines"]
        if name == "exited":
            self.status = event["status"]
        if name == "stopped":
            self._left = event["left"]
        return name

    def _next(self, seconds: float) -> dict[str, Any]:
        """The next event, or none in this time. What is no JSON is a keeper's last words: they become the tail."""
        until = time.monotonic() + seconds
        while b"\n" not in self._unread:
            if self._pipe_up.closed or not self._read(max(until - time.monotonic(), 0.0)):
                return {"event": "closed"} if self._keeper.poll() is not None else {}
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            self._tail.append(line.decode("utf-8", "replace"))
            return {"event": "said", "why": self._tail[-1]}
        return event

    def _read(self, seconds: float) -> bool:
        if not select.select([self._pipe_up], [], [], seconds)[0]:
            return False
        data = os.read(self._pipe_up.fileno(), 1 << 16)
        self._unread += data
        return bool(data)
