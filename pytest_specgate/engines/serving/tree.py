"""Which processes a server consists of; part of :mod:`keeper`, so of the standard library alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

LINUX = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def descendants(root: int, group: int) -> list[int]:
    """Processes below ``root``, and those of the process group, ``root`` apart.

    Zombies count until they are waited for: a process looks like one while its last threads still hold its memory.
    """
    table = _by_proc() if LINUX else _by_ps()
    below, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in table.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return sorted((below | {pid for pid, (_, of) in table.items() if of == group}) - {root})


def _by_proc() -> dict[int, tuple[int, int]]:
    """Parent and process group of all, by pid."""
    found: dict[int, tuple[int, int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a Path for every process is slow
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_bytes()
                _, parent, group = stat.rpartition(b")")[2].split()[:3]
                found[int(entry)] = (int(parent), int(group))
    return found


def _by_ps() -> dict[int, tuple[int, int]]:
    """The same where there is no ``/proc``; ``ps`` itself is a child of ours and does not count."""
    with subprocess.Popen(["/bin/ps", "-axo", "pid=,ppid=,pgid="], stdout=subprocess.PIPE, text=True) as ps:
        rows = [line.split() for line in ps.communicate()[0].splitlines()]
    found = [(int(pid), int(parent), int(group)) for pid, parent, group in rows]
    return {pid: (parent, group) for pid, parent, group in found if pid != ps.pid}


def become_subreaper() -> None:
    """Have what our descendants leave behind become our children (Linux)."""
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> Callable[[], None] | None:
    """What a child runs before its program: it is killed when the thread that started it ends (Linux)."""
    if not LINUX:
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
