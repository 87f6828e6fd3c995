"""Which processes an arm's server consists of: those below one that we started, that the suite names, or that listens.

Whoever listens at a server's address on this machine may only pass its traffic on (a tunnel, a container's proxy). Such
a process holds no GPU memory, so that can be looked for below it; host memory is believed where the process is named.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from pytest_specgate.engines.serving import footprint
from pytest_specgate.engines.serving.gpus import Board, Unseen

#: Besides all of 127.0.0.0/8; whoever asks for "any address" gets this machine.
_OURSELVES = frozenset({"::1", "::", "0.0.0.0"})  # noqa: S104 - nothing is bound
_NAME_IT = "name the server's process with 'pid', or remove the gate"


@dataclass(frozen=True, slots=True)
class Members:
    """A server on this machine: the processes below ``root``, and ``root`` itself where it ``counts``.

    ``sure`` is whether all of these are the server, and not somebody between us. ``arrived`` are NVML's numbers of what
    came to the GPUs while it was started; None where we did not start it.
    """

    root: int
    counts: bool
    sure: bool
    arrived: frozenset[int] | None = None

    def pids(self) -> tuple[int, ...]:
        """Its processes now."""
        below = footprint.tree(self.root)
        return (self.root, *below) if self.counts else below

    def holds(self, boards: tuple[Board, ...]) -> Mapping[str, int] | Unseen:
        """Bytes that it holds on each of these GPUs, by UUID, or why that cannot be told."""
        pids = frozenset(self.pids())
        if not footprint.listed(pids, boards) and self.arrived is not None:
            pids = self.arrived
        if (found := footprint.vram(pids, boards)) is not None:
            return found
        if footprint.listed(pids, boards):
            hint = "run specgate as the server's user, on the host"
            return Unseen("NVML does not tell what its processes hold", hint)
        why = "none of its processes is on a GPU that NVML lists"
        return Unseen(why, "use host_memory on a CPU" if self.arrived is not None else _NAME_IT)


def named(pid: int) -> Members | Unseen:
    """The server whose first process this is."""
    if not psutil.pid_exists(pid):
        return Unseen(f"no process {pid} runs on this machine", "correct 'pid'")
    return Members(pid, counts=True, sure=True)


def listening(url: str) -> Members | Unseen:
    """The server that listens at this address, if that is on this machine and ours to see."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
    if not is_here(host):
        return Unseen(f"it runs on another machine ({host})", "run specgate there, or remove the gate")
    try:
        open_ones = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return Unseen("the system does not tell who listens at its port", _NAME_IT)
    waiting = [one for one in open_ones if one.status == psutil.CONN_LISTEN]
    known = [one.pid for one in waiting if one.pid and getattr(one.laddr, "port", None) == port]
    if not known:
        return Unseen("the system does not tell who listens at its port", _NAME_IT)
    return Members(min(known), counts=True, sure=False)


def is_here(host: str) -> bool:
    """Whether a name or address is one of this machine's."""
    if host.lower() in ("localhost", socket.gethostname().lower()):
        return True
    try:
        wanted = {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):  # nobody has this name, or nobody can
        return False
    own = {address.address.partition("%")[0] for card in psutil.net_if_addrs().values() for address in card}
    return any(one in own or one.startswith("127.") or one in _OURSELVES for one in wanted)
