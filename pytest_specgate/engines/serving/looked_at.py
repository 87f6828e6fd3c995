"""What an engine over servers says of their memory: looks while they work, how many requests fit, and peaks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_specgate.engines.serving.footprint import peak_resident
from pytest_specgate.engines.serving.hosts import Hosts
from pytest_specgate.engines.serving.launching import arm_server
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, MemoryReading, Request
from pytest_specgate.suite.servers import ServerSpec

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.client import Client, Post
    from pytest_specgate.engines.serving.gpus import Unseen
    from pytest_specgate.engines.serving.loop import LoopThread
    from pytest_specgate.engines.serving.members import Members
    from pytest_specgate.engines.serving.watching import Watched


class ServedMemory(ABC):
    """The part of the engine that looks at its servers; whose they are and how they are asked is the engine's part."""

    _hosts: Hosts
    _name: str
    _spec: ServerSpec

    @abstractmethod
    def _connected(self) -> tuple[LoopThread, Client]:
        """The loop and the client of a started engine."""

    @abstractmethod
    def _posts(self, requests: Sequence[Request], server: Any) -> list[Post]:
        """The requests as this server takes them."""

    @abstractmethod
    def _server(self, arm: Arm) -> Any:
        """The arm's server, running."""

    @abstractmethod
    def _telling(self, arm: Arm, url: str) -> AbstractContextManager[None]:
        """Tell what fails meanwhile in the engine's name, with the server's."""

    def watch(self, blocks: Sequence[Sequence[Request]], arm: Arm, soak: int = 0) -> MemoryReading:
        """Run the blocks, and look at the server's processes and gauges meanwhile. Raises EngineError."""
        from pytest_specgate.engines.serving.watching import watch

        (loop, client), server = self._connected(), self._server(arm)
        watched = self._watched(server)
        with self._telling(arm, server.url):
            posts = [self._posts(requests, server) for requests in blocks]
            return loop.run(watch(client, watched, posts, soak))

    def crowd(self, requests: Sequence[Request], arm: Arm) -> float | None:
        """Return tokens per second of all requests at once, None where the server had some wait. Raises EngineError."""
        from pytest_specgate.engines.serving.crowd import crowd

        (loop, client), server = self._connected(), self._server(arm)
        on = "ignore_eos" in server.dialect.keys
        with self._telling(arm, server.url):
            posts = self._posts([replace(one, ignore_eos=on or one.ignore_eos) for one in requests], server)
            return loop.run(crowd(client, self._watched(server), posts))

    def _watched(self, server: Any) -> Watched:
        from pytest_specgate.engines.serving.watching import Watched

        return Watched(server.arm, server.url, server.dialect, self._members(server), server.rooms)

    def _members(self, server: Any) -> Members | Unseen:
        """The server's processes: those started here, named in the suite, or listening on this machine."""
        from pytest_specgate.engines.serving.members import listening, named

        pid = arm_server(self._spec, server.arm).pid
        return self._hosts.members(server.arm) or (listening(server.url) if pid is None else named(pid))

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Return the resident peak of servers that were started here; others may be on other machines.

        Raises EngineError for those.
        """
        ours = [self._hosts.members(arm) for arm in arms]
        peaks = [peak_resident(members.pids()) if members else None for members in ours]
        if peaks and None not in peaks:
            return MemoryReading(host_rss=sum(peak for peak in peaks if peak is not None))
        names = " and ".join(arm.value for arm in arms)
        what = f"the memory of the {names} server cannot be measured over HTTP"
        raise EngineError(self._name, what, "remove the memory gates of this engine")
