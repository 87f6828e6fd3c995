"""Servers that specgate starts itself: real small processes, with children that hide, and parents that are killed."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pytest_specgate.engines.serving import leftovers, ready
from pytest_specgate.engines.serving.process import Launch, Server, first_error, free_port, start
from pytest_specgate.engines.serving.ready import NotReady
from pytest_specgate.errors import Ended, EngineError

SMALL = str(Path(__file__).with_name("small_server.py"))
PATIENCE = 120.0
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux gives runaways back")


def a_launch(folder: Path, *options: str, **changes: object) -> Launch:
    command = (sys.executable, SMALL, "${port}", *options)
    return Launch(
        **{
            "engine": "tiny",
            "who": "the reference server",
            "command": command,
            "folder": folder,
            "grace": 0.3,
            "seconds": 120.0,
            **changes,
        }
    )  # type: ignore[arg-type]


def no_probe(_url: str, _seconds: float) -> None:
    return None


@contextmanager
def running(launch: Launch, probe: Callable[[str, float], None] = no_probe) -> Iterator[Server]:
    server = start(launch, probe)
    try:
        yield server
    finally:
        server.stop()


def answer(server: Server) -> str:
    with urllib.request.urlopen(f"{server.url}/x", timeout=30) as response:  # noqa: S310
        return response.read().decode()


def until_it_listens(url: str) -> None:
    """However busy the machine is."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(url, timeout=30).close()  # noqa: S310
        except OSError:  # noqa: PERF203 - asking again is what the loop is for
            assert time.monotonic() < until
            time.sleep(0.01)
        else:
            return


def pids_in(note: Path) -> list[int]:
    until = time.monotonic() + PATIENCE
    while not note.exists():
        assert time.monotonic() < until, "the family was never founded"
        time.sleep(0.01)
    return [int(word) for word in note.read_text().split()]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def hear_interrupts() -> None:
    """Let a child hear Ctrl-C: a shell that runs the tests in the background ignores it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def all_gone(pids: list[int]) -> bool:
    until = time.monotonic() + PATIENCE
    while not all(map(gone, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def error_of(launch: Launch, probe: Callable[[str, float], None] = no_probe) -> str:
    with pytest.raises(EngineError) as raised:
        start(launch, probe).stop()
    return str(raised.value)


@pytest.fixture(autouse=True)
def logs_of_failures_go_with_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "logs-of-servers"
    logs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(logs))


# --- life -----------------------------------------------------------------------------------------------------------


def test_a_server_is_up_when_start_returns_and_gone_when_stop_does(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        assert int(answer(server)) == server.pid
        assert server.alive()
        assert os.getpgid(server.pid) == server.pid != os.getpgid(0)

    # Not even as zombies: a server that looks dead may still hold its memory.
    assert not psutil.pid_exists(server.pid)
    assert not psutil.pid_exists(server.keeper_pid)
    assert not server.alive()
    server.stop()


def test_two_servers_run_side_by_side(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as one, running(a_launch(tmp_path)) as other:
        assert one.url != other.url
        assert {answer(one), answer(other)} == {str(one.pid), str(other.pid)}


@linux
def test_children_that_hide_and_refuse_end_with_the_server(tmp_path: Path) -> None:
    with running(a_launch(tmp_path, "stubborn", f"family={tmp_path / 'pids'}")) as server:
        family = pids_in(tmp_path / "pids")
        assert not any(map(gone, family))

    assert server.pid in family
    assert not any(map(psutil.pid_exists, family))


@linux
def test_children_end_when_the_server_dies_by_itself(tmp_path: Path) -> None:
    with running(a_launch(tmp_path, f"family={tmp_path / 'pids'}")) as server:
        os.kill(server.pid, signal.SIGKILL)

        assert all_gone(pids_in(tmp_path / "pids"))


def test_the_environment_and_the_folder_are_the_suites(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import os; print(os.getcwd(), os.environ['WORD'], os.environ['AT'])", "${port}")

    said = error_of(a_launch(tmp_path, command=command, env={"WORD": "hello", "AT": "p${port}"}))

    assert f"{tmp_path} hello p" in said
    assert "${port}" not in said


# --- ready ----------------------------------------------------------------------------------------------------------


def test_health_then_a_token_are_waited_for(tmp_path: Path) -> None:
    asked: list[str] = []

    def probe(url: str, seconds: float) -> None:
        asked.append(url)
        assert 0 < seconds <= 120
        if len(asked) < 3:
            raise NotReady("still loading")

    with running(a_launch(tmp_path, "unhealthy=3"), probe) as server:
        assert asked == [server.url] * 3


def test_without_a_health_path_the_token_alone_decides(tmp_path: Path) -> None:
    with running(a_launch(tmp_path, "unhealthy=1000000", health=None)) as server:
        assert server.alive()


def test_what_waiting_cannot_mend_ends_it_at_once(tmp_path: Path) -> None:
    def refused(url: str, seconds: float) -> None:
        raise EngineError("tiny", "no model 'x'", "choose a model that it serves")

    note = tmp_path / "pids"

    assert (
        error_of(a_launch(tmp_path, f"family={note}"), refused) == "tiny: no model 'x' — choose a model that it serves"
    )
    assert all_gone(pids_in(note)[:2])


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    assert error_of(a_launch(tmp_path, command=("no-such-server", "${port}"))) == (
        "tiny: the reference server's command 'no-such-server' was not found — "
        "install it, put it on PATH, or write its path"
    )


def test_a_command_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("GGUF")

    assert error_of(a_launch(tmp_path, command=("./model.gguf", "${port}"))) == (
        "tiny: the reference server's command './model.gguf' may not be run — name a program, and make it executable"
    )


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "gone"

    assert error_of(a_launch(folder)) == f"tiny: no folder {folder} — start from one that is there"


def test_a_server_that_exits_before_it_is_ready_is_quoted_without_secrets(tmp_path: Path) -> None:
    secret = "sk-0123456789"

    said = error_of(a_launch(tmp_path, f"die=no layer 7 for {secret}", env={"SMALL_API_KEY": secret}))

    what, _, log = said.partition(" (all of ")
    assert what == (
        "tiny: the reference server exited with status 3 before it was ready — look at why it ended; "
        "its last lines: no layer 7 for ********"
    )
    assert secret not in Path(log.rstrip(")")).read_text()


def test_a_server_that_is_not_ready_in_time_says_what_it_did_instead(tmp_path: Path) -> None:
    def loading(url: str, seconds: float) -> None:
        until_it_listens(url)
        raise NotReady("the model is loading")

    said = error_of(a_launch(tmp_path, seconds=0.7, health=None), loading)

    assert said.startswith(
        "tiny: the reference server was not ready in 0.7 s: the model is loading — raise ready_timeout, "
        "or look at what it waits for; its last lines: listening, key None (all of "
    )


def test_a_silent_server_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    said = error_of(a_launch(tmp_path, "silent", seconds=0.5))

    assert "gave no answer" in said
    assert said.endswith("; it said nothing")
    # No message names its log.
    assert not list((tmp_path / "logs-of-servers").iterdir())


def test_headers_without_an_end_are_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_MOMENT", 0.1)
    ended = threading.Event()

    def drip() -> None:
        asking, _ = listener.accept()
        with asking:
            asking.sendall(b"HTTP/1.1 200 OK\r\nX-Padding: ")
            while not ended.wait(0.01):
                asking.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/health"
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(NotReady, match=r"^its answer did not come to an end in 0\.2 s$"):
            ready._within(0.2, lambda: ready._ask_health(url, 60))
        ended.set()
        thread.join(PATIENCE)


@pytest.mark.parametrize("raised", [NotReady("busy"), EngineError("tiny", "what", "hint")])
def test_what_is_wrong_with_an_answer_is_told_as_it_is(raised: Exception) -> None:
    def ask() -> None:
        raise raised

    with pytest.raises(type(raised)) as found:
        ready._within(5.0, ask)

    assert found.value is raised


def test_a_port_of_another_server_is_refused(tmp_path: Path) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        port = other.server_address[1]
        command = (sys.executable, SMALL, str(port))

        assert error_of(a_launch(tmp_path, command=command, url=f"http://127.0.0.1:{port}")) == (
            f"tiny: the reference server cannot listen on 127.0.0.1:{port}, where another server answers — "
            "stop that one, or write ${port} for a free port"  # noqa: RUF027
        )


def test_a_port_of_ones_own_is_taken_as_it_is(tmp_path: Path) -> None:
    port = free_port()
    command = (sys.executable, SMALL, str(port))

    with running(a_launch(tmp_path, command=command, url=f"http://127.0.0.1:{port}")) as server:
        assert int(answer(server)) == server.pid


def test_a_free_port_that_is_taken_meanwhile_is_replaced_by_another(tmp_path: Path) -> None:
    with running(a_launch(tmp_path, f"taken={tmp_path / 'once'}")) as server:
        assert (tmp_path / "once").exists()
        assert int(answer(server)) == server.pid


@pytest.mark.parametrize(
    ("command", "url", "expected"),
    [
        (
            ("serve",),
            "http://127.0.0.1:${port}",
            (
                "command does not say which port to listen on — "
                'pass "${port}" to it, or write url with the port that it listens on'
            ),
        ),
        (
            ("serve", "${port}"),
            "http://127.0.0.1:8000",
            "command has ${port} and its url has not — write ${port} in both, or leave url out",
        ),
    ],
)
def test_a_port_must_reach_both_ends(tmp_path: Path, command: tuple[str, ...], url: str, expected: str) -> None:
    assert error_of(a_launch(tmp_path, command=command, url=url)) == f"tiny: the reference server's {expected}"


def test_a_server_that_dies_while_it_is_measured(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        server.check()
        os.kill(server.pid, signal.SIGSEGV)

        with pytest.raises(EngineError) as raised:
            server.check(patience=PATIENCE)

    assert str(raised.value).startswith(
        "tiny: the reference server was ended by SIGSEGV while it was measured — look at why it ended; its last lines: "
    )


def test_the_first_error_of_a_log_is_the_reason_of_those_after_it() -> None:
    told = [
        "INFO ready",
        "WARNING This may end in OSError: too many open files",
        "INFO Errors like `OSError: too many open files` are rare",
        "(Worker pid=7) ERROR 11-30 RuntimeError: index -15 is   out of bounds for dimension 1",
        "(Engine pid=6) ERROR EngineDeadError: see above",
        "INFO shutting down",
    ]
    assert first_error(told) == "RuntimeError: index -15 is out of bounds for dimension 1"
    assert first_error(["Error: 0", "1 error", "KeyError"]) == ""
    assert len(first_error([f"ValueError: {'x' * 999}"])) == 300


def test_a_server_that_dies_tells_a_reason_that_its_last_lines_do_not(tmp_path: Path) -> None:
    with running(a_launch(tmp_path, "blamed")) as server:
        os.kill(server.pid, signal.SIGUSR1)
        with pytest.raises(Ended) as raised:
            server.check(patience=PATIENCE)

    assert "exited with status 1 while it was measured: RuntimeError: index -15 is out of bounds — " in str(
        raised.value
    )


# --- logs -----------------------------------------------------------------------------------------------------------


def size_of(file: Path) -> int:
    """Nothing of one that was turned over just now."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def test_a_log_without_end_stays_small(tmp_path: Path) -> None:
    limit = 64 << 10
    with running(a_launch(tmp_path, "chatty", log_limit=limit)) as server:
        sizes = []
        until = time.monotonic() + PATIENCE
        while not server._log.with_name("server.log.1").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        for _ in range(20):
            sizes.append(sum(map(size_of, server._log.parent.iterdir())))
            time.sleep(0.005)
        assert server.tail()[-1] == "x" * 400

    assert max(sizes) <= limit
    assert not server._log.parent.exists()


def test_all_that_is_kept_of_a_log_can_be_read_the_oldest_line_first(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        assert server.tail() == ["listening, key None"]  # so its watchdog has read it
        assert server.log() == ["listening, key None"]
        server._log.with_name("server.log.1").write_text("before\nthat\n", encoding="utf-8")

        assert server.log() == ["before", "that", "listening, key None"]
    assert server.log() == []


def test_a_log_that_cannot_be_written_harms_nobody(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        assert server.tail() == ["listening, key None"]  # so its watchdog writes no more
        for file in server._log.parent.iterdir():
            file.unlink()
        server._log.parent.rmdir()

        assert server.tail() == ["listening, key None"]
        assert int(answer(server)) == server.pid


# --- the end of pytest ----------------------------------------------------------------------------------------------

PARENT = """
import os, sys, tempfile, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pytest_specgate.engines.serving import leftovers
from tests.unit.test_serving_process import a_launch, no_probe, start
if sys.argv[3] == "unwatched":
    leftovers.MARK, leftovers.KEEPER = os.environ["SMALL_MARK"], os.environ["SMALL_KEEPER"]
tempfile.tempdir = os.path.join(sys.argv[2], "logs")
os.mkdir(tempfile.tempdir)
server = start(a_launch(Path(sys.argv[2]), "family=" + sys.argv[2] + "/pids"), no_probe)
def note(name, pid):  # whole, or not there
    scratch = Path(sys.argv[2], name + ".part")
    scratch.write_text(str(pid))
    scratch.replace(scratch.with_suffix(""))
if sys.argv[3] == "fork" and os.fork() == 0:
    note("fork", os.getpid())
    time.sleep(600)
note("keeper", server.keeper_pid)
time.sleep(600)
"""


@contextmanager
def a_parent(folder: Path, how: str = "") -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process that has started a server, in a process group of its own, and the pids of all below it."""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", PARENT, root, str(folder), how]
    with subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.DEVNULL, preexec_fn=hear_interrupts
    ) as parent:
        try:
            yield parent, [*pids_in(folder / "pids"), *pids_in(folder / "keeper")]
        finally:
            parent.kill()


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_a_pytest_that_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    with a_parent(tmp_path) as (parent, below):
        assert len(below) == 4
        assert not any(map(gone, below))

        # As a terminal does it: to the whole foreground group.
        assert list((tmp_path / "logs").iterdir())
        os.killpg(parent.pid, number)

        assert all_gone(below)
        assert not list((tmp_path / "logs").iterdir())


@linux
def test_a_fork_that_holds_the_life_line_does_not_keep_the_server_alive(tmp_path: Path) -> None:
    with a_parent(tmp_path, "fork") as (parent, below):
        (fork,) = pids_in(tmp_path / "fork")
        try:
            parent.kill()

            assert all_gone(below)
            assert not gone(fork)
        finally:
            os.kill(fork, signal.SIGKILL)


@linux
def test_a_server_dies_with_its_watchdog(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        assert server.tail() == ["listening, key None"]  # it has read and written that
        os.kill(server.keeper_pid, signal.SIGKILL)

        assert all_gone([server.pid])
        with pytest.raises(EngineError) as raised:
            server.check(patience=PATIENCE)

    assert "lost its watchdog, a process of specgate's own, and was ended with it while it was measured" in str(
        raised.value
    )
    assert "look at what kills processes here, most likely want of memory; its last lines: listening" in str(
        raised.value
    )


@linux
def test_who_left_a_server_ends_with_it_though_its_watchdog_was_killed(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    with running(a_launch(tmp_path, f"family={note}")) as server:
        family = pids_in(note)
        os.kill(server.keeper_pid, signal.SIGKILL)

    assert all_gone(family)


@linux
def test_what_outlived_its_watchdog_and_pytest_is_found_and_ended_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Under names of its own: whatever else runs on this machine neither sweeps these processes nor is swept here.
    mine = {"MARK": f"TRIAL_{os.getpid()}", "KEEPER": f"TRIAL_WATCHDOG_{os.getpid()}"}
    for name, value in mine.items():
        monkeypatch.setattr(leftovers, name, value)
        monkeypatch.setenv(f"SMALL_{name}", value)
    assert leftovers.sweep() == ""
    with a_parent(tmp_path, "unwatched") as (parent, below):
        assert leftovers.orphans() == []  # it is watched
        os.kill(below[3], signal.SIGSTOP)  # so that it ends nothing while its parent goes
        parent.kill()
        parent.wait()
        os.kill(below[3], signal.SIGKILL)
        assert all_gone([below[0], below[3]])  # the server dies with its watchdog, and what left it does not
        left = sorted(pid for pid in below[1:3] if not gone(pid))
        assert sorted(leftovers.orphans()) == left

        told = leftovers.sweep()

        assert all_gone(below)
    named = " ".join(["process" if len(left) == 1 else "processes", ", ".join(map(str, left))])
    assert told == (
        "an earlier run's watchdog was killed, and processes of its server were still running "
        f"({named}): they were ended"
    )
    assert leftovers.sweep() == ""


@linux
@pytest.mark.parametrize(
    ("machine", "watched", "swept"),
    [("{here}", False, True), ("{here}", True, False), ("another start/pid:[1]", False, False), ("", False, False)],
)
def test_only_marks_of_this_machine_without_a_watchdog_are_swept(
    monkeypatch: pytest.MonkeyPatch, machine: str, watched: bool, swept: bool
) -> None:
    # srun and mpirun carry the environment to machines, and podman into namespaces, that see no watchdog of ours.
    monkeypatch.setattr(leftovers, "MARK", f"TRIAL_{os.getpid()}")
    mark = f"{machine.format(here=leftovers.here())}/{os.getpid()}"
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    watchdog = ended(subprocess.Popen([*sleep, *([leftovers.watchdog(mark)] if watched else [])]))
    with watchdog, ended(subprocess.Popen(sleep, env={**os.environ, leftovers.MARK: mark})) as marked:
        assert leftovers.orphans() == ([marked.pid] if swept else [])


@linux
def test_nothing_is_swept_where_a_machine_tells_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "here", lambda: "")
    monkeypatch.setattr(leftovers, "MARK", f"TRIAL_{os.getpid()}")
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with ended(subprocess.Popen(sleep, env={**os.environ, leftovers.MARK: leftovers.a_mark()})):
        assert leftovers.orphans() == []


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, killed in the end."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_a_watchdog_that_is_asked_to_end_ends_the_server_first(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        os.kill(server.keeper_pid, signal.SIGTERM)

        assert all_gone([server.pid])


def test_an_interrupt_while_waiting_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(url: str, seconds: float) -> None:
        raise KeyboardInterrupt

    note = tmp_path / "pids"
    with pytest.raises(KeyboardInterrupt):
        start(a_launch(tmp_path, f"family={note}"), interrupted)

    assert all_gone(pids_in(note)[:2])


def test_the_watchdog_is_of_the_standard_library_alone() -> None:
    script = "import sys; import pytest_specgate.engines.serving.keeper; print(*sys.modules)"
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({root!r}); {script}"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    ours = {name for name in loaded if name.startswith("pytest_specgate")}
    assert ours == {
        "pytest_specgate",
        *(
            f"pytest_specgate.engines{part}"
            for part in ("", ".serving", ".serving.keeper", ".serving.ringlog", ".serving.tree")
        ),
    }
    assert {name.partition(".")[0] for name in loaded} - {"pytest_specgate"} <= {*sys.stdlib_module_names, "__main__"}


def test_threads_may_ask_at_the_same_time(tmp_path: Path) -> None:
    with running(a_launch(tmp_path)) as server:
        said: list[list[str]] = []
        threads = [threading.Thread(target=lambda: said.append(server.tail())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)

    assert said == [["listening, key None"]] * 8
