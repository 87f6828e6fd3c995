"""A loss planted into servers: what cannot be done to a process of somebody else's is done to what is read of it.

Times are stretched and temperatures raised as in any engine. Of a server, memory and leaks stand in what was read of
its processes, its pool is twice as full, each of its requests takes the room of two; and where it tells totals of
drafts and no rounds, these lose acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_specgate.engines.planted import Planted
from pytest_specgate.engines.plants import heavier, leaking
from pytest_specgate.records import Arm, MemoryReading, Request, Trace


class PlantedServers(Planted):
    """The engine protocol over an engine of servers, its candidate arm worse by one plant."""

    _inner: Any  # an engine that watches, crowds and identifies, as kind openai does

    @property
    def shapes(self) -> bool:
        """Whether the wrapped engine's scores follow what a request does to them."""
        return bool(self._inner.shapes)

    def identify(self, requests: Sequence[Request], traces: Sequence[Trace]) -> list[Trace]:
        """Return the wrapped engine's traces with their token ids."""
        found: list[Trace] = self._inner.identify(requests, traces)
        return found

    def watch(self, blocks: Sequence[Sequence[Request]], arm: Arm, soak: int = 0) -> MemoryReading:
        """Return what the wrapped engine reads, of the candidate arm with the loss."""
        reading: MemoryReading = self._inner.watch(blocks, arm, soak)
        if arm is Arm.CANDIDATE and self._plant.kind == "memory":
            return heavier(reading, int(self._plant.size))
        if arm is Arm.CANDIDATE and self._plant.kind == "leak":
            return leaking(reading, int(self._plant.size))
        return reading

    def crowd(self, requests: Sequence[Request], arm: Arm) -> float | None:
        """Return what the wrapped engine finds, of the candidate arm with a second request beside each."""
        more = [_beside(one) for one in requests] if arm is Arm.CANDIDATE and self._plant.kind == "memory" else []
        rate: float | None = self._inner.crowd([*requests, *more], arm)
        return rate

    def _refuse(self) -> None:
        """Nothing: what servers tell of their drafts shows when they answer, and is unmeasured where they do not."""

    def _take_memory(self, *, before: bool) -> None:
        """Nothing: this process is no server."""

    def _leak(self, requests: int) -> None:
        """Nothing: it stands in what is read."""


def _beside(request: Request) -> Request:
    """A request of the same size that a prefix cache knows nothing of."""
    first, *others = request.messages
    told = replace(first, content=f"Once more. {first.content}")
    return replace(request, prompt=f"{request.prompt}'", messages=(told, *others))
