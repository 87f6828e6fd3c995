"""When bytes came, by the kernel's clock: a busy client, or a busy machine, then delays reading and not the times.

On Linux a TCP socket tells, with what is read, when the newest of it came in (``SO_TIMESTAMPNS``). Where nothing is
told (other systems, an event loop that reads past Python's sockets) it is the time of the read, never an earlier one.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
import weakref
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

#: Linux's number of the option, of the message that answers it, and the message's form; ``socket`` names none of them.
_OPTION = 35
_TIMESPEC = struct.Struct("@ll")
_ROOM = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
#: Bytes of a read, at most: room beyond this is fetched from the system and given back each time, which costs more than
#: all else of a read, and asyncio asks for four times as much.
MOST = 65_536
#: Nanoseconds that bytes can have lain unread; beyond it the wall clock was set, and nothing can be told.
_LONGEST = 10_000_000_000
#: Nanoseconds between two clocks that count as read together, and how often that is tried.
_TOGETHER, _TRIES = 20_000, 3
#: Nanoseconds, monotonic.
Clock = Callable[[], int]


class Stamped(socket.socket):
    """A socket that keeps when the bytes of its latest read came."""

    _arrived = 0

    def last(self) -> int:
        """When they came, as ``time.perf_counter_ns`` counts; now where they were read past this class."""
        return self._arrived or time.perf_counter_ns()

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read, and keep the time."""
        data, told, _, _ = self.recvmsg(min(bufsize, MOST), _ROOM, flags)
        self._arrived = _arrival(told)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer, and keep the time."""
        size, told, _, _ = self.recvmsg_into([memoryview(buffer)[: nbytes or None]], _ROOM, flags)
        self._arrived = _arrival(told)
        return size


#: A task's own: a connection whose answer came whole was given back before anybody can ask for its socket.
_SOURCE: ContextVar[Stamped | None] = ContextVar("source", default=None)


def connector(**options: Any) -> Any:
    """A connector of the HTTP library whose sockets tell; ``options`` are its own."""
    import aiohttp

    made: MutableMapping[int, Stamped] = weakref.WeakValueDictionary()

    def make(address: tuple[Any, ...]) -> socket.socket:
        stamped = _socket(*address[:3])
        if isinstance(stamped, Stamped):
            made[stamped.fileno()] = stamped
        return stamped

    class Connector(aiohttp.TCPConnector):  # type: ignore[misc]
        """Notes for the task that asks for a connection which socket is behind it."""

        async def connect(self, *arguments: Any, **named: Any) -> Any:
            connection = await super().connect(*arguments, **named)
            found = connection.transport.get_extra_info("socket") if connection.transport else None
            _SOURCE.set(made.get(found.fileno()) if found is not None else None)
            return connection

    return Connector(socket_factory=make, **options)


def clock() -> Clock:
    """What tells when the connection that the present task got last was last read from."""
    source = _SOURCE.get()
    return time.perf_counter_ns if source is None else source.last


def _socket(family: int, kind: int, protocol: int) -> socket.socket:
    if not sys.platform.startswith("linux"):
        return socket.socket(family, kind, protocol)
    made = Stamped(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, _OPTION, 1)
    return made


def _arrival(told: list[tuple[int, int, bytes]]) -> int:
    wall, now = _clocks()
    for level, kind, data in told:
        if level == socket.SOL_SOCKET and kind == _OPTION:
            seconds, rest = _TIMESPEC.unpack(data)
            age = int(wall - (seconds * 1_000_000_000 + rest))
            if 0 <= age < _LONGEST:
                return now - age
    return now


def _clocks() -> tuple[int, int]:
    """The wall clock and the monotonic one. What kept us between them makes bytes younger, so it is tried again."""
    for _ in range(_TRIES):
        before = time.perf_counter_ns()
        wall = time.time_ns()
        now = time.perf_counter_ns()
        if now - before < _TOGETHER:
            break
    return wall, now
