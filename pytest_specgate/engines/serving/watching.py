"""Look at an arm's server while it works: the GPU memory of its processes, how full its cache is, how many wait.

This is a pass of its own: looking takes the server's and our own time, so nothing is timed meanwhile. What cannot be
looked at is left out with the reason; nothing that goes wrong with looking stops the pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pytest_specgate.engines.serving import footprint, wear
from pytest_specgate.engines.serving.dialects.rooms import Pressure, Rooms
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.gpus import Gpus, Unseen, open_gpus
from pytest_specgate.engines.serving.members import Members
from pytest_specgate.records import Arm, MemoryReading, Served, Soak

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.client import Client, Post
    from pytest_specgate.engines.serving.dialects import Dialect

T = TypeVar("T")
#: Seconds between two looks.
PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """Whom to look at: a server's address and software, its processes or why they are not known, what it set aside."""

    arm: Arm
    url: str
    dialect: Dialect
    members: Members | Unseen
    rooms: Rooms


@dataclass(frozen=True, slots=True)
class Glance:
    """One look: bytes by GPU or why they are not told, bytes in use by anybody there, and how full the server is."""

    held: Mapping[str, int] | Unseen
    used: int | None
    pressure: Pressure


async def watch(client: Client, watched: Watched, posts: Sequence[Sequence[Post]], soak: int = 0) -> MemoryReading:
    """Send each block of posts when the one before is answered, looking all the while; then the first ``soak`` times.

    Raises Failure where the requests fail.
    """
    sight = Watch(watched)
    try:
        for block in posts:
            wear.answers(await sight.during(client, client.ask(block)))
        reading = sight.reading()
        return replace(reading, soak=await sight.soak(client, posts[0], soak)) if soak else reading
    finally:
        sight.close()


class Watch:
    """Looks at one server; to be closed."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._gpus: Gpus | Unseen = open_gpus()
        self._glances: list[Glance] = []

    async def during(self, client: Client, work: Awaitable[T]) -> T:
        """What the work brings, looking all the while."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=PAUSE))[0]:
                pressure = await self._pressure(client)
                if not task.done():  # what ended meanwhile holds its cache no more
                    self._glance(pressure)
            self._glance(Pressure())
            return task.result()
        finally:
            task.cancel()

    @property
    def pressures(self) -> list[Pressure]:
        """How full the server was at each look."""
        return [glance.pressure for glance in self._glances]

    async def soak(self, client: Client, posts: Sequence[Post], blocks: int) -> Soak:
        """Send the posts so many times, and look after each: bytes resident, on GPUs and in the pool, and drafts."""
        members, pool = self._watched.members, self._watched.rooms.kv_cache
        host, vram, cache, drafts = list[int](), list[int](), list[int](), list[wear.Drafts]()
        for _ in range(blocks):
            made = await wear.ask(client, self._watched.url, self._watched.dialect, posts)
            drafts += [] if made is None else [made]
            held, usage = self._on_gpus()[0], (await self._pressure(client)).usage
            now = footprint.resident(members.pids()) if isinstance(members, Members) and members.sure else None
            host += [] if now is None else [now]
            vram += [] if isinstance(held, Unseen) else [sum(held.values())]
            cache += [] if usage is None or pool is None else [round(usage * pool)]
        whole = [tuple(kept) if len(kept) == blocks else () for kept in (host, vram, cache)]
        both = tuple(zip(*drafts)) if len(drafts) == blocks else ((), ())
        return Soak(len(posts), *whole, *both)

    def close(self) -> None:
        """Let go of the GPUs."""
        if isinstance(self._gpus, Gpus):
            self._gpus.close()

    def reading(self) -> MemoryReading:
        """What was seen, and what the server told of itself."""
        members, rooms = self._watched.members, self._watched.rooms
        peak = max((g for g in self._glances if not isinstance(g.held, Unseen)), key=_total, default=None)
        target = rooms.weights_target
        if self._watched.arm is Arm.REFERENCE and target is None:
            target = rooms.weights  # who does not speculate has no other model
        return MemoryReading(
            host_rss=footprint.peak_resident(members.pids()) if isinstance(members, Members) and members.sure else None,
            max_process_vram=None if peak is None else _total(peak),
            max_global_vram=None if peak is None else peak.used,
            weights_target=target,
            weights_draft=rooms.weights_draft or None,
            kv_cache=rooms.kv_cache,
            kv_cache_draft=rooms.kv_cache_draft or None,
            gpus={} if peak is None or isinstance(peak.held, Unseen) else dict(peak.held),
            untold=self._untold(),
            served=_served(rooms, self.pressures),
        )

    # --- how ---------------------------------------------------------------------------------------------

    async def _pressure(self, client: Client) -> Pressure:
        dialect, room = self._watched.dialect, self._watched.rooms.kv_cache_tokens
        try:
            pages = {page: await client.text(self._watched.url + page) or "" for page in dialect.gauges}
        except Failure:
            return Pressure()  # where the server is gone, the requests tell
        told = dialect.pressure(pages)
        if told.usage is None and told.tokens is not None and room:
            return replace(told, usage=min(told.tokens / room, 1.0))
        return told

    def _glance(self, pressure: Pressure) -> None:
        held, used = self._on_gpus()
        self._glances.append(Glance(held, used, pressure))

    def _on_gpus(self) -> tuple[Mapping[str, int] | Unseen, int | None]:
        if isinstance(self._watched.members, Unseen):
            return self._watched.members, None
        if isinstance(self._gpus, Unseen):
            return self._gpus, None
        boards = self._gpus.look()
        held = self._watched.members.holds(boards)
        if isinstance(held, Unseen):
            return held, None
        used = [board.used for board in boards if board.uuid in held]
        return held, None if None in used else sum(one for one in used if one is not None)

    def _untold(self) -> dict[str, str]:
        """Metric → why it was not measured, and what to do."""
        found: dict[str, str] = {}
        whys = [g.held for g in self._glances if isinstance(g.held, Unseen)]
        if whys and len(whys) == len(self._glances):
            found["vram"] = f"{whys[-1].what} — {whys[-1].hint}"
        members = self._watched.members
        if isinstance(members, Unseen):
            found["host_memory"] = f"{members.what} — {members.hint}"
        elif not members.sure:
            found["host_memory"] = "who listens at its port may only pass its traffic on — name its process with 'pid'"
        if not any(g.pressure.usage is not None for g in self._glances):
            found["kv_cache_usage"] = self._no_usage()
        return found

    def _no_usage(self) -> str:
        if len(self._glances) < 2:
            return "the requests were over before anything could be seen — raise max_tokens, or the concurrency"
        dialect = self._watched.dialect
        what = f"the {self._watched.arm.value} server ({dialect.shown}) does not tell how full its cache is"
        if not dialect.fullness:
            return f"{what}, for its software has no such gauge — remove the gate"
        return f"{what} — {dialect.fullness}"


def _total(glance: Glance) -> int:
    return 0 if isinstance(glance.held, Unseen) else sum(glance.held.values())


def _served(rooms: Rooms, pressures: Sequence[Pressure]) -> Served:
    usage = tuple(one.usage for one in pressures if one.usage is not None)
    waiting = [one.waiting for one in pressures if one.waiting is not None]
    return Served(rooms.all_weights, rooms.kv_cache, rooms.kv_cache_tokens, usage, max(waiting, default=None))
