"""A server that answered, and the library that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specgate.engines.serving.failures import EXTRA
from pytest_specgate.engines.serving.identity import unlike
from pytest_specgate.errors import MissingPackage
from pytest_specgate.records import Arm

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.dialects import Dialect, Probe
    from pytest_specgate.engines.serving.dialects.rooms import Rooms


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answered: its arm, address and model, its software, and what it said of itself.

    ``rooms`` is what it set aside, ``weights`` tells its model's from others; empty where nothing does.
    """

    arm: Arm
    url: str
    model: str
    dialect: Dialect
    probe: Probe
    rooms: Rooms
    weights: str

    @property
    def software(self) -> str:
        """``vLLM 0.32.0``."""
        return f"{self.dialect.shown} {self.dialect.version(self.probe)}".strip()


def unlike_targets(servers: Mapping[Arm, Server]) -> str:
    """Why the two may not run one target; empty where nothing says so."""
    if len(servers) < len(Arm):
        return ""
    return unlike(servers[Arm.REFERENCE].weights, servers[Arm.CANDIDATE].weights)


def require_library(engine: str) -> None:
    """Raise MissingPackage where nothing can be asked over HTTP."""
    try:
        import aiohttp  # noqa: F401 - asked for here, so that the message is one of ours
    except ImportError:
        raise MissingPackage(engine, "kind openai needs the package aiohttp, which is not installed", EXTRA) from None
