"""What goes wrong between us and a server: each is one sentence with what to do, and the next call works again."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.openai import OpenAIEngine
from pytest_specgate.engines.serving import bodies
from pytest_specgate.engines.serving import client as client_module
from pytest_specgate.engines.serving.hosts import Hosts
from pytest_specgate.engines.serving.traces import WAITED
from pytest_specgate.errors import EngineError, MissingPackage
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script

FINE = Script(pattern=(1, 3, 2), k=4)
LOG = "look at the server's log"
BUSY = "scripted refusal — lower the scenario's concurrency, or wait until the server is free"
SETTINGS = "check the scenario's sampling and 'body', and name the server's software with 'dialect'"
KEY = "name the variable that holds the key with 'api_key_env', and check the key"
MODEL = "check that it serves a model named 'smol', and 'url' and 'endpoint'"
DIED = f"{LOG}: it may have died or run out of memory"
REDIRECTS = "give the address that it redirects to"
PAGE = Script(content_type="text/html", tokens=1, role=False, usage="none", ids=False, done=False)
FAULTS = [
    (Script(status=500), f"refuses the request with status 500: scripted refusal — {LOG}"),
    (Script(status=404), f"refuses the request with status 404: scripted refusal — {MODEL}"),
    (Script(status=400), f"refuses the request with status 400: scripted refusal — {SETTINGS}"),
    (Script(status=401), f"refuses the request with status 401: scripted refusal — {KEY}"),
    (Script(status=429), f"refuses the request with status 429: {BUSY}"),
    (Script(status=503, retry_after="3600"), f"refuses the request with status 503: {BUSY}"),
    (Script(status=307), f"refuses the request with status 307: scripted refusal — {REDIRECTS}"),
    (PAGE, "answers with text/html where a stream of events was asked for: "),
    (Script(drop_after=0), f"closed the connection before the first token — {DIED}"),
    (Script(drop_after=3), f"closed the connection in mid-answer — {DIED}"),
    (Script(error_after=2), f"broke off with an error: engine died — {LOG}"),
    (Script(error_after=2, error_code=400), f"broke off with an error: engine died — {SETTINGS}"),
    (Script(endless=True), f"goes on far beyond its budget of 64 tokens — {LOG}: it does not keep max_tokens"),
    (Script(hang_after=2), f"sent no token for 2 s — {LOG}, or raise 'timeout'"),
    (Script(hang_after=0), f"sent no token for 2 s — {LOG}, or raise 'timeout'"),
]


@pytest.mark.parametrize(("script", "said"), FAULTS, ids=lambda value: str(value)[:60])
def test_a_fault_is_told_in_a_sentence_and_the_next_call_works(arms: Arms, script: Script, said: str) -> None:
    engine, _, fast = arms(script, timeout="60 s" if script.hang_after is None else "2 s")

    with pytest.raises(EngineError) as raised:
        engine.generate([ask("q1"), ask("q2")], Arm.CANDIDATE)
    fast.script = FINE

    assert str(raised.value).startswith(f"pair: candidate server {fast.url} {said}")
    assert engine.generate([ask()], Arm.CANDIDATE)[0].output_tokens == 13


@pytest.mark.parametrize(("usage", "told"), [("final", 513), ("continuous", 501)])
def test_a_count_beyond_the_budget_is_not_believed(arms: Arms, usage: str, told: int) -> None:
    engine, _, fast = arms(replace(FINE, usage=usage, ids=False, claims=500))

    with pytest.raises(EngineError) as raised:
        engine.generate([ask()], Arm.CANDIDATE)

    hint = "look whether it, or a proxy before it, keeps 'max_tokens' and counts right"
    said = f"counts 513 tokens in an answer to a budget of 64, and shows no ids of them — {hint}"
    assert str(raised.value) == f"pair: candidate server {fast.url} {said}"


def test_a_negative_count_is_told(arms: Arms) -> None:
    engine, _, _ = arms(replace(FINE, usage="final", ids=False, claims=-20))

    with pytest.raises(EngineError, match="broke off with an error: a usage of -7 tokens is no number of tokens"):
        engine.generate([ask()], Arm.CANDIDATE)


def test_keep_alive_comments_for_ever_are_silence(arms: Arms) -> None:
    engine, _, _ = arms(Script(hang_after=2, comments=True), timeout="2 s")

    with pytest.raises(EngineError, match=r"sent no token for 2 s"):
        engine.generate([ask()], Arm.CANDIDATE)


def test_headers_without_an_end_are_given_up(arms: Arms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CONNECT_SECONDS", 0.25)
    monkeypatch.setattr(client_module, "PAGE_SECONDS", 0.25)
    engine, _, fast = arms(FINE, timeout="60 s", start=False)
    engine.start()
    engine._spec = engine._spec.model_copy(update={"timeout": 0.5})
    fast.script = replace(FINE, drips=True)

    with pytest.raises(EngineError) as raised:
        engine.generate([ask()], Arm.CANDIDATE)
    fast.script = FINE

    said = f"did not come to the end of its answer's headers in 1 s — {LOG}, and check 'url'"
    assert str(raised.value) == f"pair: candidate server {fast.url} {said}"


def test_keep_alive_comments_after_the_end_hold_nobody_up(arms: Arms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LINGER", 0.05)
    engine, _, fast = arms(replace(FINE, lingers=True))
    before = fast.connections

    found = [engine.generate([ask()], Arm.CANDIDATE)[0] for _ in range(before + 1)]

    assert {one.output_tokens for one in found} == {13}
    assert fast.connections > before  # one that is not at its end is not used again


@pytest.mark.parametrize("script", [replace(FINE, split=3), replace(FINE, comments=True), replace(FINE, done=False)])
def test_split_bytes_comments_and_a_missing_end_mark_change_nothing(arms: Arms, script: Script) -> None:
    engine, _, fast = arms(replace(script, words=("é数", "🎯", "ü")))
    (odd,) = engine.generate([ask()], Arm.CANDIDATE)
    fast.script = replace(FINE, words=("é数", "🎯", "ü"))
    (plain,) = engine.generate([ask()], Arm.CANDIDATE)

    assert (odd.text, odd.token_ids) == (plain.text, plain.token_ids)
    assert "é数 🎯 ü" in odd.text


def test_a_model_that_says_how_a_stream_ends_does_not_end_its_own(arms: Arms) -> None:
    engine, _, _ = arms(replace(FINE, words=("data: [DONE]", "data:[DONE]\n")))

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert found.output_tokens == 13
    assert found.text.count("[DONE]") == 12


def test_what_an_earlier_run_left_behind_is_a_warning_of_every_answer(
    arms: Arms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hosts, "found", "an earlier run left process 7")
    engine, _, _ = arms()

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert found.told is not None
    assert found.told.notes == ("an earlier run left process 7",)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_says_when(arms: Arms, status: int) -> None:
    engine, _, fast = arms(replace(FINE, status=status, retry_after="0", busy=2))

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert len(fast.requests) == 3
    assert found.told is not None
    assert found.told.notes == (WAITED,)


def test_a_wait_that_the_server_asks_for_is_part_of_the_time(arms: Arms) -> None:
    engine, _, _ = arms(replace(FINE, status=429, retry_after="0.25", busy=2))

    found = [trace.ttft_seconds for trace in engine.generate([ask("q1")], Arm.CANDIDATE)]

    assert found[0] >= 0.4  # two waits, whatever the rest takes and however coarse a clock is


def test_a_server_that_stays_busy_is_given_up(arms: Arms) -> None:
    engine, _, fast = arms(Script(status=429, retry_after="0"))

    with pytest.raises(EngineError, match="status 429"):
        engine.generate([ask()], Arm.CANDIDATE)

    assert len(fast.requests) == client_module.MOST_TRIES


def test_an_unreachable_server_is_named(arms: Arms) -> None:
    engine, plain, _ = arms(start=False)
    plain.stop()

    with pytest.raises(EngineError) as raised:
        engine.start()

    reason = "cannot be reached (Connection refused) — start the server, or correct 'url'"
    assert str(raised.value) == f"pair: reference server {plain.url} {reason}"


def test_a_host_that_nobody_knows_is_named(tmp_path: Path) -> None:
    engine = _engine(tmp_path, "http://no-such-host.invalid:1")

    with pytest.raises(EngineError, match=r"reference server http://no-such-host\.invalid:1 cannot be reached \("):
        engine.start()
    engine.close()


def test_a_port_that_speaks_no_http_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def chatter() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):  # who has heard enough hangs up
                    connection.recv(65_536)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")

        thread = threading.Thread(target=chatter, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        engine = _engine(tmp_path, url)
        with pytest.raises(EngineError) as raised:
            engine.start()
        engine.close()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)

    assert str(raised.value).startswith(f"pair: reference server {url} does not speak HTTP as it should (")


def test_a_certificate_that_nobody_trusts_is_told(tmp_path: Path) -> None:
    with FakeServer(tls=_self_signed(tmp_path)) as plain:
        engine = _engine(tmp_path, plain.url)
        with pytest.raises(EngineError) as raised:
            engine.start()
        engine.close()

    hint = "trust its certificate with the environment variable SSL_CERT_FILE, or correct 'url'"
    assert str(raised.value) == f"pair: reference server {plain.url} TLS failed (self-signed certificate) — {hint}"


def test_tls_to_a_server_without_it_is_told(tmp_path: Path) -> None:
    with FakeServer() as plain:
        engine = _engine(tmp_path, plain.url.replace("http:", "https:"))
        with pytest.raises(EngineError, match="TLS failed") as raised:
            engine.start()
        engine.close()

    # Which of these OpenSSL says depends on its version.
    assert "(wrong version number)" in str(raised.value) or "(record layer failure)" in str(raised.value)
    assert str(raised.value).endswith(" — write http://, or give the port that speaks TLS")


def test_a_trusted_certificate_and_a_key_let_us_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = _self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    monkeypatch.setenv("SERVER_ACCESS", "sk-very-secret-1")
    with FakeServer(tls=context, key="sk-very-secret-1") as plain:
        engine = _engine(tmp_path, plain.url.replace("127.0.0.1", "localhost"), api_key_env="SERVER_ACCESS")
        engine.start()
        (found,) = engine.generate([ask()], Arm.REFERENCE)
        engine.close()

    assert found.output_tokens == 13
    assert plain.headers[0]["authorization"] == "Bearer sk-very-secret-1"


def test_a_key_that_the_environment_lacks_is_told(arms: Arms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERVER_ACCESS", raising=False)
    engine, _, _ = arms(api_key_env="SERVER_ACCESS", start=False)

    with pytest.raises(EngineError) as raised:
        engine.start()

    assert str(raised.value) == "pair: environment variable SERVER_ACCESS is not set — set it to the servers' API key"


@pytest.mark.parametrize("status", [401, 403])
def test_a_page_that_is_closed_to_the_key_is_no_page(arms: Arms, status: int) -> None:
    engine, _, fast = arms(start=False)
    refused = (status, "application/json", '{"error": {"message": "not for you"}}')
    fast.pages = dict.fromkeys(("/metrics", "/props", "/version"), refused)

    engine.start()

    assert engine.generate([ask()], Arm.CANDIDATE)[0].output_tokens == 13


def test_a_key_that_the_list_of_models_refuses_is_told_at_the_start(arms: Arms) -> None:
    engine, _, fast = arms(start=False)
    fast.pages["/v1/models"] = (401, "application/json", '{"error": {"message": "no such key"}}')

    with pytest.raises(EngineError) as raised:
        engine.start()

    said = f"refuses the request with status 401: no such key — {KEY}"
    assert str(raised.value) == f"pair: candidate server {fast.url} {said}"


def test_nothing_compressed_is_asked_for_and_what_comes_so_is_told(arms: Arms) -> None:
    engine, _, fast = arms()
    engine.generate([ask()], Arm.CANDIDATE)
    fast.script = replace(FINE, content_type="text/event-stream\r\nContent-Encoding: gzip")

    with pytest.raises(EngineError) as raised:
        engine.generate([ask()], Arm.CANDIDATE)

    assert fast.headers[0]["accept-encoding"] == "identity"
    assert str(raised.value) == (
        f"pair: candidate server {fast.url} answers compressed with gzip, though it was asked not to — "
        "give the server's own 'url', or have the proxy before it compress nothing"
    )


def test_a_compressed_list_of_models_is_told_and_any_other_page_is_none(arms: Arms) -> None:
    engine, _, fast = arms(start=False)
    fast.pages["/metrics"] = fast.pages["/props"] = (200, "text/plain\r\nContent-Encoding: gzip", "\x1f")
    engine.start()
    engine.close()
    fast.pages["/v1/models"] = (200, "application/json\r\nContent-Encoding: br", "?")

    with pytest.raises(EngineError, match="answers compressed with br, though it was asked not to"):
        engine.start()


def test_a_wrong_model_name_is_told_before_anything_is_asked(arms: Arms) -> None:
    engine, plain, _ = arms(model="smoll", start=False)

    with pytest.raises(EngineError) as raised:
        engine.start()

    assert str(raised.value) == (
        f"pair: reference server {plain.url} serves no model 'smoll'; did you mean 'smol'? — it serves smol: "
        "correct 'model'"
    )
    assert plain.requests == []


def test_a_reference_server_that_speculates_is_refused(arms: Arms) -> None:
    engine, plain, _ = arms(reference=FINE)

    with pytest.raises(EngineError) as raised:
        engine.generate([ask()], Arm.REFERENCE)

    assert str(raised.value) == (
        f"pair: reference server {plain.url} speculates too (24 tokens drafted), though it is the reference arm's — "
        "start it without speculation, or swap the two servers"
    )


def test_a_server_that_dies_between_two_calls_is_an_error_of_the_second(arms: Arms) -> None:
    engine, _, fast = arms()
    engine.generate([ask()], Arm.CANDIDATE)
    fast.stop()

    with pytest.raises(EngineError, match=r"cannot be reached \(Connection refused\)"):
        engine.generate([ask()], Arm.CANDIDATE)
    assert engine.generate([ask()], Arm.REFERENCE)[0].output_tokens == 13


def test_connections_are_kept_from_call_to_call(arms: Arms) -> None:
    engine, _, fast = arms()
    engine.generate([ask()], Arm.CANDIDATE)
    before = fast.connections

    for _ in range(5):
        engine.generate([ask()], Arm.CANDIDATE)

    assert fast.connections == before


def test_a_kept_connection_that_the_server_closed_is_opened_anew_and_not_taken_for_a_wait(arms: Arms) -> None:
    engine, _, fast = arms(replace(FINE, unkept=True))

    found = [engine.generate([ask()], Arm.CANDIDATE)[0] for _ in range(3)]

    assert [trace.told and trace.told.notes for trace in found] == [()] * 3
    assert len(fast.requests) == 3


def test_side_by_side_means_at_the_same_time(arms: Arms) -> None:
    engine, _, fast = arms()
    fast.together = 4

    found = engine.generate([ask(f"q{n}") for n in range(4)], Arm.CANDIDATE)

    assert [trace.prompt for trace in found] == ["q0", "q1", "q2", "q3"]


def test_before_the_start_and_after_the_end_nothing_is_asked(arms: Arms) -> None:
    engine, _, _ = arms(start=False)
    with pytest.raises(EngineError) as raised:
        engine.generate([ask()], Arm.CANDIDATE)
    engine.start()
    engine.close()
    engine.close()
    with pytest.raises(EngineError):
        engine.subject()

    assert str(raised.value) == "pair: the engine is not started — call start() before, and not after close()"


def test_memory_of_a_server_is_refused_not_measured_as_ours(arms: Arms) -> None:
    engine, _, _ = arms()

    with pytest.raises(EngineError) as raised:
        engine.memory([Arm.CANDIDATE])

    assert str(raised.value) == (
        "pair: the memory of the candidate server cannot be measured over HTTP — remove the memory gates of this engine"
    )


def test_without_the_library_the_extra_is_named(arms: Arms, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _, _ = arms(start=False)
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)

    with pytest.raises(MissingPackage) as raised:
        engine.start()

    assert str(raised.value) == (
        "pair: kind openai needs the package aiohttp, which is not installed — pip install 'pytest-specgate[http]'"
    )


def test_a_completion_takes_one_message(arms: Arms) -> None:
    engine, _, fast = arms(endpoint="completions")
    two = (Message("system", "Be kind."), Message("user", "Hi."))

    (found,) = engine.generate([ask(text="Once upon")], Arm.CANDIDATE)
    with pytest.raises(EngineError) as raised:
        engine.generate([Request("q2", two, 8, Sampling())], Arm.CANDIDATE)

    assert found.output_tokens == 13
    assert fast.requests[0]["prompt"] == "Once upon"
    assert str(raised.value) == (
        f"pair: candidate server {fast.url} cannot be asked q2 (2 messages): a text completion takes one — "
        "use prompts of one turn without a system message, or endpoint: chat"
    )


def _engine(folder: Path, url: str, **server: object) -> OpenAIEngine:
    """An engine on one address."""
    arms = {"reference": {"url": url}, "candidate": {"url": url}}
    spec = EngineSpec.model_validate({"kind": "openai", "server": {"model": "smol", **arms, **server}})
    return OpenAIEngine(EngineContext("pair", spec, folder))


def _self_signed(folder: Path) -> ssl.SSLContext:
    """A server's context with a certificate for localhost that is its own authority."""
    certificate = Path(__file__).with_name("localhost.pem")
    (folder / "cert.pem").write_text(certificate.read_text(encoding="ascii"), encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
