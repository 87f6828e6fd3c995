"""Start a server from a command, wait until it gives a token, watch it, and end it with all that it started.

A command is a list of arguments, never a line for a shell. ``${port}`` in it, in the environment and in the URL stands
for a loopback port that was free a moment ago; if another process takes it meanwhile, the server is started again with
another. An argument ``pkg://PACKAGE/FILE`` stands for that file. Whatever goes wrong is an EngineError of one line with
the server's last words, secrets masked; see :mod:`keeper` for how no process is left behind.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from pytest_specgate.engines.serving.kept import CannotStart, Kept, Order
from pytest_specgate.engines.serving.ready import Probe, wait_until_ready
from pytest_specgate.engines.serving.ringlog import files_of
from pytest_specgate.errors import Ended, EngineError
from pytest_specgate.masking import masker, secrets

#: Starts with another port each, where the port that was free is taken when the server wants it.
ATTEMPTS = 3
#: Last lines of the log that an error quotes.
QUOTED = 6
_BRIEF = 0.02
_LOOK = "look at why it ended"
_KILLED = "look at what kills processes here, most likely want of memory"
_PORT = "${port}"
_TAKEN = re.compile(r"address already in use|EADDRINUSE|could ?n.t bind|failed to bind|cannot bind", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one server.

    ``engine`` is the engine's name in the suite and ``who`` the server's in messages ("the reference server").
    ``health`` is a path that answers 200 once the server is up, or None; ``folder`` is where the command runs;
    ``seconds`` may pass until the first token; ``grace`` seconds between SIGTERM and SIGKILL; ``log_limit`` bytes on
    disk.
    """

    engine: str
    who: str
    command: tuple[str, ...]
    folder: Path
    url: str = f"http://127.0.0.1:{_PORT}"
    health: str | None = "/health"
    env: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 120.0
    grace: float = 10.0
    log_limit: int = 16 << 20

    @property
    def picks_port(self) -> bool:
        """Whether specgate chooses the port."""
        return _PORT in self.url

    def at(self, port: int) -> Launch:
        """The same with the port filled in."""
        put = str(port)
        return replace(
            self,
            command=tuple(argument.replace(_PORT, put) for argument in self.command),
            url=self.url.replace(_PORT, put),
            env={name: value.replace(_PORT, put) for name, value in self.env.items()},
        )


class Server:
    """A server that answers. Made by :func:`start`."""

    def __init__(self, launch: Launch, kept: Kept, log: Path) -> None:
        self.url, self._launch, self._kept, self._log = launch.url, launch, kept, log
        self._stopped = self._log_named = False

    @property
    def pid(self) -> int:
        """The first process of the server, which leads a process group of its own."""
        return self._kept.pid

    @property
    def keeper_pid(self) -> int:
        """The process that every process of the server is below."""
        return self._kept.keeper_pid

    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._stopped and self._kept.alive()

    def check(self, when: str = "while it was measured", patience: float = 0.0) -> None:
        """Raise Ended with its last words if it has ended.

        A broken connection is seen before the end of the process: ``patience`` seconds are waited for word of it.
        """
        until = time.monotonic() + patience
        while self.alive() and time.monotonic() < until:
            time.sleep(_BRIEF)
        if not self.alive():
            hint = _LOOK if self._kept.status is not None else _KILLED
            raise self._trouble(f"{_how(self._kept.status)} {when}", hint, Ended)

    def late(self, why: str) -> EngineError:
        """The error of a server that did not get ready in time."""
        what = f"was not ready in {self._launch.seconds:g} s: {why}"
        return self._trouble(what, "raise ready_timeout, or look at what it waits for")

    def tail(self) -> list[str]:
        """Its last lines, secrets masked."""
        hide = masker({**os.environ, **self._launch.env})
        return [hide(" ".join(line.split())) for line in self._kept.tail()]

    def log(self) -> list[str]:
        """All lines that its log still holds, the oldest first."""
        return [line for path in files_of(self._log) if path.is_file() for line in _lines(path)]

    def stop(self) -> None:
        """End it with all that it started, and remove its log unless an error named it; may be called twice."""
        if self._stopped:
            return
        self._stopped = True
        left = self._kept.stop()
        if not self._log_named:
            shutil.rmtree(self._log.parent, ignore_errors=True)
        if left:
            who = f"{self._launch.who}'s processes {', '.join(map(str, left))}"
            raise EngineError(self._launch.engine, f"{who} outlived SIGKILL", "end them by hand before measuring again")

    def _trouble(self, what: str, hint: str, kind: type[EngineError] = EngineError) -> EngineError:
        lines = self.tail() or self.log()[-QUOTED:]  # a watchdog that was killed tells no last lines
        self._log_named = self._log_named or bool(lines)
        found = trouble(self._launch, what, hint, lines, self._log)
        if kind is EngineError or type(found) is not EngineError:
            return found
        # What a server says of its own end may be long, and its reason lies far above the last of it.
        hide = masker({**os.environ, **self._launch.env})
        reason = first_error([hide(line) for line in self.log()[-LAST_WORDS:]])
        told = f": {reason}" if reason and not any(reason in line for line in lines[-QUOTED:]) else ""
        return kind(found.engine, f"{found.what}{told}", found.hint)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # it was turned over just now
        return []


#: An error as most languages' runtimes name it, with what it says; not one that is spoken of in quotes.
_ERROR = re.compile(r"(?<![\w.`'\"])(?:[A-Z]\w*(?:Error|Exception)|terminate called[^:]*|panicked at[^:]*): *\S.*")
#: Lines from a log's end in which the reason of that end is looked for, and letters of it that are shown.
LAST_WORDS, _SHOWN = 500, 300


def first_error(lines: Sequence[str]) -> str:
    """The first error that these lines name, for those after it are mostly its consequences; empty where none does."""
    told = (line for line in lines if "WARN" not in line)
    found = next((match for line in told if (match := _ERROR.search(line))), None)
    return " ".join(found[0].split())[:_SHOWN] if found else ""


def start(launch: Launch, probe: Probe) -> Server:
    """Start it and wait until it is healthy and ``probe`` has had a token; see :mod:`ready`. Raises EngineError."""
    _refuse_strays(launch)
    if not launch.picks_port:
        _refuse_taken(launch)
        return _start_once(launch, probe)
    for _ in range(ATTEMPTS - 1):
        try:
            return _start_once(launch.at(free_port()), probe)
        except PortTaken:  # noqa: PERF203 - trying again is what the loop is for
            continue
    return _start_once(launch.at(free_port()), probe)


class PortTaken(EngineError):
    """Another process took the server's port first."""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def trouble(launch: Launch, what: str, hint: str, lines: Sequence[str], log: Path) -> EngineError:
    """The error of a server: what happened, what to do, and its last words."""
    said = f"; its last lines: {' | '.join(lines[-QUOTED:])} (all of {log})" if lines else "; it said nothing"
    kind = PortTaken if any(_TAKEN.search(line) for line in lines) else EngineError
    return kind(launch.engine, f"{launch.who} {what}", f"{hint}{said}")


def _start_once(launch: Launch, probe: Probe) -> Server:
    log = Path(tempfile.mkdtemp(prefix="specgate-server-")) / "server.log"
    environment = {**os.environ, **launch.env}
    order = Order(
        argv=launch.command,
        env=environment,
        folder=str(launch.folder),
        log=str(log),
        limit=launch.log_limit,
        grace=launch.grace,
        hide=secrets(environment),
    )
    try:
        server = Server(launch, Kept(order), log)
    except CannotStart as error:
        shutil.rmtree(log.parent, ignore_errors=True)
        raise _cannot_start(launch, error) from None
    try:
        wait_until_ready(server, launch, probe)
    except BaseException:
        server.stop()
        raise
    return server


def _refuse_strays(launch: Launch) -> None:
    """A port that specgate picks must reach the server, and one that it does not pick cannot."""
    told = any(_PORT in text for text in (*launch.command, *launch.env.values()))
    if told and not launch.picks_port:
        what = f"{launch.who}'s command has {_PORT} and its url has not"
        raise EngineError(launch.engine, what, f"write {_PORT} in both, or leave url out")
    if launch.picks_port and not told:
        what = f"{launch.who}'s command does not say which port to listen on"
        raise EngineError(launch.engine, what, f'pass "{_PORT}" to it, or write url with the port that it listens on')


def _refuse_taken(launch: Launch) -> None:
    address = urlsplit(launch.url)
    host, port = address.hostname or "127.0.0.1", address.port or (443 if address.scheme == "https" else 80)
    try:
        with socket.create_connection((host, port), timeout=1.0):
            pass
    except OSError:
        return
    what = f"{launch.who} cannot listen on {host}:{port}, where another server answers"
    raise PortTaken(launch.engine, what, f"stop that one, or write {_PORT} for a free port")


def _cannot_start(launch: Launch, error: CannotStart) -> EngineError:
    program, hide = launch.command[0], masker({**os.environ, **launch.env})
    if error.folder:
        return EngineError(launch.engine, f"no folder {launch.folder}", "start from one that is there")
    if error.errno == errno.ENOENT:
        what = f"{launch.who}'s command {program!r} was not found"
        return EngineError(launch.engine, what, "install it, put it on PATH, or write its path")
    if error.errno == errno.EACCES:
        what = f"{launch.who}'s command {program!r} may not be run"
        return EngineError(launch.engine, what, "name a program, and make it executable")
    return EngineError(launch.engine, f"{launch.who} cannot start: {hide(str(error))}", "check its command")


def _how(status: int | None) -> str:
    if status is None:
        return "lost its watchdog, a process of specgate's own, and was ended with it"
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    memory = ", most likely for want of memory" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"
