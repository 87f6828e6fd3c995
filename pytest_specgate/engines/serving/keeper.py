"""The process between pytest and a server that specgate started: it runs the server, keeps its log, and ends it.

It ends the server with everything that the server started as soon as its standard input closes, which is also what
happens when pytest is killed; when its parent changes, in case a fork of pytest still holds that pipe; on SIGTERM,
SIGINT or SIGHUP; and when the server itself exits. On Linux it is the subreaper of all that the server starts, so that
what left the server's process group is found too, and the server dies with it. Elsewhere a process that left both its
parent and its group is not found.

It reads one JSON line, the order, then commands, and writes events, one JSON line each.
Order: ``argv``, ``env``, ``folder``, ``parent`` (pytest's pid), ``log`` (a file), ``limit`` (bytes of all log files),
``grace`` (seconds from SIGTERM to SIGKILL), ``hide`` (texts that no log may show). Commands: ``tail``, ``stop``.
Events: ``started`` (pid), ``failed`` (errno, why, folder: whether that is what is missing), ``tail`` (lines),
``exited`` (status, lines), ``stopped`` (left: pids that even SIGKILL did not end).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from pytest_specgate.engines.serving.ringlog import RingLog
from pytest_specgate.engines.serving.tree import become_subreaper, descendants, die_with_parent

#: Between two looks at the parent.
LOOK_SECONDS = 0.5
#: Between two looks at what still lives.
_BRIEF = 0.02
#: How long SIGKILL may take: a process in the kernel ends when the kernel lets it.
KILL_SECONDS = 10.0


def main() -> None:
    """Keep the server that the order on standard input names."""
    Keeper(_read_order(0), 0).run()


class Keeper:
    """One server from its start to the end of its last process. Made once in a process of its own, which it ends."""

    def __init__(self, order: dict[str, Any], commands: int) -> None:
        self._order, self._commands = order, commands
        self._log = RingLog(Path(order["log"]), order["limit"], order["hide"])
        self._said, self._says = os.pipe()
        self._woken, self._waker = os.pipe()
        for handle in (self._said, self._woken, self._waker):
            os.set_blocking(handle, False)
        self._pid = 0
        self._status: int | None = None
        self._ending = self._abandoned = False

    def run(self) -> None:
        """Start the server, keep it until there is a reason to end it, and end it."""
        self._take_signals()
        become_subreaper()
        if not self._start():
            return
        while not self._ending and self._status is None and os.getppid() == self._order["parent"]:
            self._wait(LOOK_SECONDS)
        if self._status is not None:
            self._read_rest()
            _tell("exited", status=self._status, lines=self._lines())
        left = self._end()
        self._log.close()
        if self._abandoned or os.getppid() != self._order["parent"]:
            self._log.remove()
        _tell("stopped", left=left)

    def _take_signals(self) -> None:
        """Ask to end instead of dying, and wake up when a child ends."""
        signal.set_wakeup_fd(self._waker)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask_to_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _ask_to_end(self, *_: object) -> None:
        self._ending = True

    def _start(self) -> bool:
        order = self._order
        try:
            child = subprocess.Popen(  # noqa: S603 - the suite names the command
                order["argv"],
                stdin=subprocess.DEVNULL,
                stdout=self._says,
                stderr=self._says,
                cwd=order["folder"],
                env=order["env"],
                start_new_session=True,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - this process has one thread
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            number = error.errno if isinstance(error, OSError) else None
            folder = number == errno.ENOENT and not Path(order["folder"]).is_dir()
            _tell("failed", errno=number, why=str(error), folder=folder)
            return False
        child.returncode = 0  # it is waited for among all that are inherited, not by Popen
        self._pid = child.pid
        os.close(self._says)
        _tell("started", pid=self._pid)
        return True

    # --- waiting ------------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        """Sleep until something happens: keep the log, obey commands, bury the dead."""
        waiting_for = [self._woken, self._said] + ([] if self._ending else [self._commands])
        ready, _, _ = select.select(waiting_for, [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 512)
        if self._said in ready and not self._read_some():
            time.sleep(_BRIEF)  # nobody holds the other end, and select would return at once for ever
        if self._commands in ready:
            self._obey()
        self._bury()

    def _read_some(self) -> bool:
        """Keep what was said; False where there is nothing, or nobody left to say anything."""
        try:
            data = os.read(self._said, 1 << 16)
        except BlockingIOError:
            return False
        self._log.write(data)
        return bool(data)

    def _read_rest(self) -> None:
        """What was said so far, up to a full log: others may still be talking."""
        for _ in range(self._order["limit"] >> 16 or 1):
            if not self._read_some():
                return

    def _obey(self) -> None:
        commands = os.read(self._commands, 512)
        if not commands or b"stop" in commands:
            # Nobody said stop: pytest is gone, and with it whoever would have been told where the log is.
            self._abandoned = not commands
            self._ending = True
        elif b"tail" in commands:
            _tell("tail", lines=self._lines())

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._status = os.waitstatus_to_exitcode(status)

    def _lines(self) -> list[str]:
        return [line.decode("utf-8", "replace") for line in self._log.tail]

    # --- ending -------------------------------------------------------------------------------------------------

    def _end(self) -> list[int]:
        """SIGTERM to all, time to obey, SIGKILL to all until none is left; returns those that are."""
        self._ending = True
        self._signal_all(signal.SIGTERM)
        if left := self._wait_for_the_end(self._order["grace"]):
            left = self._wait_for_the_end(KILL_SECONDS, kill=True)
        self._read_rest()
        return left

    def _wait_for_the_end(self, seconds: float, *, kill: bool = False) -> list[int]:
        until = time.monotonic() + seconds
        while (left := self._alive()) and time.monotonic() < until:
            if kill:  # again and again, for a tree may grow while it is cut
                self._signal_all(signal.SIGKILL)
            self._wait(_BRIEF)
        return left

    def _alive(self) -> list[int]:
        self._bury()
        return descendants(os.getpid(), self._pid)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _tell(event: str, **facts: object) -> None:
    """Write one event; nobody may be left to read it."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps({"event": event, **facts}).encode() + b"\n")


def _read_order(handle: int) -> dict[str, Any]:
    """The first line, byte by byte: what follows it are commands, which select must see."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(handle, 1)
        if not byte:
            raise SystemExit("no order")
        line += byte
    order: dict[str, Any] = json.loads(line)
    return order
