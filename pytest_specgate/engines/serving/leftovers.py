"""Processes of a server whose watchdog was killed: they are known by a mark that they inherited in their environment.

Each server has a mark of its own. Its watchdog bears it under one name, and everything that the server starts under
another, also what left its parent, its process group and its session. So a process with a mark that no watchdog bears
any more is one that we started and nobody ends; no other process is ever touched. Linux tells environments; elsewhere,
and of programs that overwrite theirs, nothing is known.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

#: Variables of what a server consists of, and of its watchdog.
MARK, KEEPER = "SPECGATE_SERVER", "SPECGATE_SERVER_WATCHDOG"
#: Seconds that SIGKILL may take.
PATIENCE = 5.0
_BRIEF = 0.02


def a_mark() -> str:
    """A mark that nobody else has."""
    return secrets.token_hex(16)


def bearers(mark: str) -> list[int]:
    """Processes with this server's mark."""
    return [pid for pid, names in _environments().items() if names.get(MARK) == mark]


def orphans() -> list[int]:
    """Processes with a mark that no watchdog bears, other than that of a server which we are a part of ourselves."""
    seen = _environments()
    watched = {names[KEEPER] for names in seen.values() if KEEPER in names} | {os.environ.get(MARK)}
    return [pid for pid, names in seen.items() if MARK in names and names[MARK] not in watched]


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


def _environments() -> Mapping[int, Mapping[str, str]]:
    """The marks in each process's environment, of those that have any and let us look."""
    found: dict[int, dict[str, str]] = {}
    wanted = (MARK.encode() + b"=", KEEPER.encode() + b"=")
    with contextlib.suppress(OSError):
        for entry in os.listdir("/proc"):  # noqa: PTH208 - a Path for every process is slow
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                    marks = [word.decode("ascii", "replace") for word in words if word.startswith(wanted)]
                    if marks:
                        found[int(entry)] = {name: mark for name, _, mark in (one.partition("=") for one in marks)}
    return found
