"""Processes of a server whose watchdog was killed: they are known by a mark that they inherited in their environment.

Each server has a mark of its own. Everything that it starts bears it in its environment, also what left its parent, its
process group and its session, and its watchdog in its command line, which whoever sees a process may read. So a process
with a mark of this machine that no watchdog bears any more is one that we started and nobody ends; no other process is
ever touched. A mark names the machine and the processes' namespace, for launchers carry environments to other machines
(``srun``, ``mpirun``) and into containers, from where the watchdog is not seen. Linux tells environments; elsewhere,
and of programs that overwrite theirs, nothing is known.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

#: The variable of what a server consists of, and the word in its watchdog's command line. Whoever changes how either is
#: read has to rename both, or versions of specgate that run side by side sweep each other's servers.
MARK, KEEPER = "SPECGATE_SERVER_MARK", "SPECGATE_SERVER_WATCHDOG"
#: Seconds that SIGKILL may take.
PATIENCE = 5.0
_BRIEF = 0.02


def a_mark() -> str:
    """A mark that nobody else has."""
    return f"{here()}/{secrets.token_hex(16)}"


def here() -> str:
    """The machine since it was started, and the namespace in which we see its processes; empty where it tells less."""
    try:
        boot, space = Path("/proc/sys/kernel/random/boot_id").read_text(), Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{boot.strip()}/{space}"


def watchdog(mark: str) -> str:
    """The word by which this server's watchdog is known."""
    return f"{KEEPER}={mark}"


def bearers(mark: str) -> list[int]:
    """Processes with this server's mark."""
    return [pid for pid, own in _marked().items() if own == mark]


def orphans() -> list[int]:
    """Processes with a mark that no watchdog bears, other than that of a server which we are a part of ourselves."""
    place = here()
    if not place:
        return []
    ours = os.environ.get(MARK)
    marked = {pid: mark for pid, mark in _marked().items() if mark != ours and mark.startswith(f"{place}/")}
    if not marked:
        return []
    # After the others: a watchdog is there before its server, and as long.
    watched = {word for _, words in _words("cmdline") for word in words}
    return [pid for pid, mark in marked.items() if watchdog(mark).encode() not in watched]


def end(mark: str) -> None:
    """End what bears this mark, whose watchdog is gone."""
    _end(lambda: bearers(mark))


def sweep() -> str:
    """End what earlier runs left behind; what there was in a sentence, empty where there was nothing."""
    found = orphans()
    # Twice: a watchdog that ends just now took its server along, but not in the moment of one look.
    found = [pid for pid in orphans() if pid in found] if found else []
    if not found:
        return ""
    left = _end(lambda: [pid for pid in orphans() if pid in found])
    what = f"an earlier run's watchdog was killed, and processes of its server were still running ({_listed(found)})"
    if left:
        return f"{what}; {_listed(left)} could not be ended — end them by hand before you believe a time"
    return f"{what}: they were ended"


def _listed(pids: list[int]) -> str:
    return f"process{'es' * (len(pids) != 1)} {', '.join(map(str, pids))}"


def _end(alive: Callable[[], list[int]]) -> list[int]:
    """Kill them until none is left, or the time is over; those that are."""
    until = time.monotonic() + PATIENCE
    while (left := alive()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_BRIEF)
    return left


def _marked() -> Mapping[int, str]:
    """The mark in each process's environment, of those that have one and let us look."""
    name = f"{MARK}=".encode()
    found = ((pid, next((word for word in words if word.startswith(name)), b"")) for pid, words in _words("environ"))
    return {pid: word[len(name) :].decode("ascii", "replace") for pid, word in found if word}


def _words(file: str) -> Iterator[tuple[int, list[bytes]]]:
    """The words of each process's file of this name, of those that let us look."""
    with contextlib.suppress(OSError):
        for entry in os.listdir("/proc"):  # noqa: PTH208 - a Path for every process is slow
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    yield int(entry), Path(f"/proc/{entry}/{file}").read_bytes().split(b"\0")
