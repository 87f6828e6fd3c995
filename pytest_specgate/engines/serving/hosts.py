"""The servers that specgate runs for one engine: started when they are first asked for, all ended at the end.

Where the arms do not fit side by side, starting one ends the other. A server that died is started again for the next
case, for other cases go on. Without a command for an arm there is nothing to do here: its server is somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pytest_specgate.engines.serving import leftovers, process
from pytest_specgate.engines.serving.footprint import arrived, visible
from pytest_specgate.engines.serving.gpus import look_once
from pytest_specgate.engines.serving.members import Members
from pytest_specgate.engines.serving.process import Launch, Server
from pytest_specgate.engines.serving.ready import Probe
from pytest_specgate.records import Arm


class Hosts:
    """The servers of those arms that have a command; ``apart`` says that only one of them may be up."""

    def __init__(self, launches: Mapping[Arm, Launch], probes: Mapping[Arm, Probe], *, apart: bool = False) -> None:
        self._launches, self._probes, self._apart = launches, probes, apart
        self._up: dict[Arm, Server] = {}
        self._arrived: dict[Arm, frozenset[int]] = {}
        self._swept: str | None = None

    @property
    def found(self) -> str:
        """What an earlier run had left behind when the first server was started, in a sentence; empty for nothing."""
        return self._swept or ""

    def runs(self, arm: Arm) -> bool:
        """Whether this arm's server is ours to start."""
        return arm in self._launches

    def up(self, arm: Arm) -> bool:
        """Whether this arm's server is ours and alive."""
        return arm in self._up and self._up[arm].alive()

    def url(self, arm: Arm) -> str:
        """The address of this arm's server, which is started unless it is up. Raises EngineError."""
        if not self.up(arm):
            self.begin(arm)
        return self._up[arm].url

    def begin(self, arm: Arm) -> None:
        """Start this arm's server anew. Raises EngineError."""
        if self._swept is None:
            self._swept = leftovers.sweep()
        for other in tuple(self._up) if self._apart else (arm,):
            self._end(other)
        before = look_once()
        self._up[arm] = process.start(self._launches[arm], self._probes[arm])
        # At once: what comes later is the other arm's, or somebody's.
        env = {**os.environ, **self._launches[arm].env}
        self._arrived[arm] = arrived(before, visible(look_once(), env))

    def check(self, arm: Arm, patience: float) -> None:
        """Raise EngineError with its last words if this arm's server has ended; see :meth:`Server.check`."""
        if arm in self._up:
            self._up[arm].check(patience=patience)

    def members(self, arm: Arm) -> Members | None:
        """The processes of this arm's server, if it is ours and alive."""
        if not self.up(arm):
            return None
        return Members(self._up[arm].keeper_pid, counts=False, sure=True, arrived=self._arrived[arm])

    def command(self, arm: Arm) -> tuple[str, ...]:
        """What starts this arm's server, its files found; nothing if it is not ours."""
        return self._launches[arm].command if arm in self._launches else ()

    def log(self, arm: Arm) -> list[str]:
        """What this arm's server said since it started, as far as its log is kept; nothing if it is not ours."""
        return self._up[arm].log() if arm in self._up else []

    def close(self) -> None:
        """End all, whatever ending one of them raises; may be called twice. Raises the first EngineError."""
        try:
            for arm in tuple(self._up):
                self._end(arm)
        finally:
            if self._up:
                self.close()

    def _end(self, arm: Arm) -> None:
        server = self._up.pop(arm, None)
        if server is not None:
            server.stop()
