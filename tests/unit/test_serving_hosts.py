"""The servers of an engine: started when asked for, one at a time where they are apart, and their first token."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from pytest_specgate.engines.serving import footprint, leftovers
from pytest_specgate.engines.serving.first_token import Question, probe
from pytest_specgate.engines.serving.hosts import Hosts
from pytest_specgate.engines.serving.process import Launch
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm
from tests.unit.test_serving_process import (
    PATIENCE,
    a_launch,
    all_gone,
    error_of,
    gone,
    linux,
    logs_of_failures_go_with_the_test,
    no_probe,
    running,
    until_it_listens,
)

__all__ = ["logs_of_failures_go_with_the_test"]
A, B = Arm.REFERENCE, Arm.CANDIDATE
FINE = [200, '{"choices": []}']


def hosts_of(launches: dict[Arm, Launch], *, apart: bool = False) -> Hosts:
    return Hosts(launches, dict.fromkeys(launches, no_probe), apart=apart)


def pid_of(hosts: Hosts, arm: Arm) -> int:
    hosts.url(arm)
    return hosts._up[arm].pid


def pids_of(hosts: Hosts, arm: Arm) -> tuple[int, ...]:
    members = hosts.members(arm)
    assert members is not None
    return members.pids()


def question(**changes: object) -> Question:
    given = {"engine": "tiny", "who": "the reference server", "model": "smol", "endpoint": "chat", "headers": {}}
    return Question(**{**given, **changes})  # type: ignore[arg-type]


def answering(*answers: list[object]) -> str:
    return f"answers={json.dumps(answers)}"


# --- hosts ----------------------------------------------------------------------------------------------------------


def test_nothing_is_started_before_it_is_asked_for(tmp_path: Path) -> None:
    hosts = hosts_of({A: a_launch(tmp_path)})

    assert hosts.runs(A)
    assert not hosts.runs(B)
    assert not hosts.up(A)
    hosts.close()


def test_both_arms_are_up_side_by_side_and_keep_their_servers(tmp_path: Path) -> None:
    hosts = hosts_of({A: a_launch(tmp_path), B: a_launch(tmp_path)})
    try:
        pids = [pid_of(hosts, A), pid_of(hosts, B), pid_of(hosts, A)]

        assert pids[0] == pids[2] != pids[1]
        assert hosts.up(A)
        assert hosts.up(B)
    finally:
        hosts.close()
    assert all(map(gone, pids))
    assert not hosts.up(A)


def test_what_an_earlier_run_left_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept = iter(["process 7 was ended"])
    monkeypatch.setattr(leftovers, "sweep", lambda: next(swept))
    hosts = hosts_of({A: a_launch(tmp_path), B: a_launch(tmp_path)})
    try:
        assert hosts.found == ""
        hosts.url(A)
        hosts.url(B)
        assert hosts.found == "process 7 was ended"
    finally:
        hosts.close()


def test_apart_one_is_started_when_the_other_has_ended(tmp_path: Path) -> None:
    hosts = hosts_of({A: a_launch(tmp_path), B: a_launch(tmp_path)}, apart=True)
    try:
        first = pid_of(hosts, A)
        second = pid_of(hosts, B)
        assert gone(first)
        assert not hosts.up(A)
        hosts.begin(B)
        assert gone(second)
        assert pid_of(hosts, B) != second
    finally:
        hosts.close()


def test_a_server_that_died_is_told_and_started_again(tmp_path: Path) -> None:
    hosts = hosts_of({A: a_launch(tmp_path)})
    try:
        hosts.check(A, 0.0)
        hosts.check(B, 0.0)
        first = pid_of(hosts, A)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(EngineError, match="was ended by SIGKILL, most likely for want of memory while it was"):
            hosts.check(A, PATIENCE)

        assert pid_of(hosts, A) != first
        hosts.check(A, 0.0)
    finally:
        hosts.close()


# --- first token ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "path", "asked"),
    [
        ("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
        ("completions", "/v1/completions", {"prompt": "Hello"}),
    ],
)
def test_one_token_is_asked_for_again_until_it_comes(
    tmp_path: Path, endpoint: str, path: str, asked: dict[str, object]
) -> None:
    echo = [400, "{path} {asked}"]  # noqa: RUF027 - the server fills this in
    launch = a_launch(tmp_path, answering([503, "loading"], [429, "busy"], FINE, echo))

    with running(launch, probe(question(endpoint=endpoint))) as server, pytest.raises(EngineError) as raised:
        probe(question(endpoint=endpoint))(server.url, 30.0)

    said = str(raised.value)
    assert said.startswith(f"tiny: the reference server refused its first request (400: {path} {{")
    assert json.loads(said[said.index("{") : said.index("}) — ") + 1]) == {
        "model": "smol",
        "max_tokens": 1,
        "temperature": 0,
        **asked,
    }
    assert said.endswith(" — correct 'model', or the command")


def test_a_key_that_a_server_quotes_is_masked(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, answering([401, "no such key: abc123"]))

    assert error_of(launch, probe(question(headers={"Authorization": "Bearer abc123"}))) == (
        "tiny: the reference server refused its first request (401: no such key: ********) — "
        "name the variable that holds the key with 'api_key_env', and check the key"
    )


def test_another_kind_of_server_is_told_at_once(tmp_path: Path) -> None:
    assert error_of(a_launch(tmp_path, answering([200, "<html>hi</html>"])), probe(question())) == (
        "tiny: the reference server gave no completion: <html>hi</html> — serve the OpenAI protocol, or correct 'url'"
    )


def test_a_server_that_never_gives_a_token_is_late(tmp_path: Path) -> None:
    def patient(url: str, seconds: float) -> None:
        until_it_listens(url)
        probe(question())(url, PATIENCE)

    launch = a_launch(tmp_path, answering([503, "loading model"]), seconds=0.5, health=None)
    said = error_of(launch, patient)

    assert said.startswith(
        "tiny: the reference server was not ready in 0.5 s: its first token was refused (503: loading model) — "
    )


# --- memory ---------------------------------------------------------------------------------------------------------


@linux
def test_the_memory_of_a_server_is_that_of_all_its_processes(tmp_path: Path) -> None:
    hungry = "import time; held = bytearray(64 << 20); print('held', flush=True); time.sleep(600)"
    script = (
        f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {hungry!r}], stdout=-1); "
        "child.stdout.readline(); sys.argv = sys.argv[1:]; "
        "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    small = a_launch(tmp_path)
    large = a_launch(tmp_path, command=(sys.executable, "-c", script, small.command[1], "${port}"))
    hosts = hosts_of({A: small, B: large})
    try:
        assert hosts.members(A) is None
        pid = pid_of(hosts, B)
        tree = pids_of(hosts, B)
        assert pid in tree
        assert len(tree) == 2
        pid_of(hosts, A)
        least, most = footprint.peak_resident(pids_of(hosts, A)), footprint.peak_resident(tree)
        assert least is not None
        assert most is not None
        assert 64 << 20 < most - least < 160 << 20
    finally:
        hosts.close()
    assert all_gone(list(tree))


def test_a_tree_that_is_gone_has_no_memory() -> None:
    assert footprint.tree(2**22 + 1) == ()
    assert footprint.peak_resident([2**22 + 1]) is None
    assert footprint.resident([2**22 + 1]) is None
