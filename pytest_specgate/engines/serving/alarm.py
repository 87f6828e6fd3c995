"""Waking up when a request is due: to some ten microseconds, where an event loop's own timers are a millisecond late.

On Linux a timer of the kernel's (``timerfd``) wakes the loop like bytes that came in, with as many requests waiting as
one likes. Elsewhere the loop sleeps until shortly before, and then looks at the clock between whatever else it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import os
import struct
import sys
import time
from functools import cache
from itertools import count

#: Numbers of Linux's: a clock that ``time.perf_counter_ns`` reads too, and a time on it instead of a span.
_MONOTONIC, _ABSOLUTE = 1, 1
#: ``struct itimerspec``: seconds and nanoseconds of the interval, and of the first ring.
_TIMES = struct.Struct("@llll")
#: Seconds before the time from which the clock is looked at, where nothing wakes precisely.
EARLY = 0.002


class Alarm:
    """Wakes coroutines of one running loop at times of ``time.perf_counter_ns``; to be closed."""

    def __init__(self) -> None:
        self._loop, self._numbers = asyncio.get_running_loop(), count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._timer = _timer()
        if self._timer is not None:
            try:
                self._loop.add_reader(self._timer, self._ring)
            except NotImplementedError:  # a loop that watches no files
                os.close(self._timer)
                self._timer = None

    async def at(self, due_ns: int) -> None:
        """Return once this time has come; at once where it has passed."""
        if due_ns <= time.perf_counter_ns():
            return
        if self._timer is None:
            await asyncio.sleep((due_ns - time.perf_counter_ns()) / 1e9 - EARLY)
            while time.perf_counter_ns() < due_ns:
                await asyncio.sleep(0)
            return
        future = self._loop.create_future()
        heapq.heappush(self._waiting, (due_ns, next(self._numbers), future))
        self._set(self._timer)
        await future

    def close(self) -> None:
        """Let go of the timer; whoever still waits is woken no more."""
        if self._timer is not None:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)
            self._timer = None

    def _ring(self) -> None:
        if self._timer is None:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(self._timer, 8)
        while self._waiting and (self._waiting[0][0] <= time.perf_counter_ns() or self._waiting[0][2].done()):
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
        self._set(self._timer)

    def _set(self, timer: int) -> None:
        """Have the timer ring for whoever is due first."""
        if self._waiting:
            seconds, rest = divmod(self._waiting[0][0], 1_000_000_000)
            times = ctypes.create_string_buffer(_TIMES.pack(0, 0, seconds, rest), _TIMES.size)
            _libc().timerfd_settime(timer, _ABSOLUTE, times, None)


def _timer() -> int | None:
    """The handle of a timer that rings never yet; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        made = int(_libc().timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
    except AttributeError:  # a C library without it
        return None
    return made if made >= 0 else None


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
