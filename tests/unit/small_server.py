"""A small real HTTP server for tests of how servers are started and ended: ``small_server.py PORT [OPTION...]``.

``unhealthy=N`` answers 503 to the first N requests; ``stubborn`` ignores SIGTERM; ``family=FILE`` starts a child and a
grandchild that leaves its parent, its session and SIGTERM behind, and writes all pids to FILE; ``chatty`` never stops
writing; ``taken=FILE`` fails to bind once, and leaves FILE; ``die=WORDS`` says so and exits with status 3;
``silent`` never listens; ``answers=JSON`` are the statuses and bodies that POST requests get, the last one for ever, in
which ``{asked}`` and ``{path}`` stand for the request's; ``blamed`` names an error at SIGUSR1,
says much more, and exits.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def main(port: int, options: dict[str, str]) -> None:
    """Do as the options say."""
    if "die" in options:
        say(options["die"])
        sys.exit(3)
    if "taken" in options and not Path(options["taken"]).exists():
        Path(options["taken"]).touch()
        say("bind: Address already in use")
        sys.exit(1)
    if "stubborn" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "family" in options:
        _family(Path(options["family"]))
    if "blamed" in options:
        signal.signal(signal.SIGUSR1, lambda *_: _blamed())
    if "chatty" in options:
        threading.Thread(target=_chat, daemon=True).start()
    if "silent" in options:
        time.sleep(600)
    say(f"listening, key {os.environ.get('SMALL_API_KEY')}")
    answers = [(status, said) for status, said in json.loads(options.get("answers", '[[200, "{}"]]'))]
    handler = _handler(int(options.get("unhealthy", 0)), answers)
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


def _blamed() -> None:
    say("RuntimeError: index -15 is out of bounds")
    for number in range(40):
        say(f"shutting down {number}")
    os._exit(1)


def say(words: str) -> None:
    """One line for the log."""
    os.write(2, words.encode() + b"\n")


def _handler(unhealthy: int, answers: list[tuple[int, str]]) -> type[http.server.BaseHTTPRequestHandler]:
    asked = iter(range(1 << 30))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if next(asked) < unhealthy else 200)
            self.end_headers()
            self.wfile.write(f"{os.getpid()}".encode())

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, said = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(said.replace("{asked}", asked).replace("{path}", self.path).encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _family(note: Path) -> None:
    """A child that stays, and a grandchild that nobody knows any more."""
    received, sends = os.pipe()
    child = os.fork()
    if child == 0:
        _stay()
    middle = os.fork()
    if middle == 0:
        os.setsid()
        runaway = os.fork()
        if runaway == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _stay()
        os.write(sends, str(runaway).encode())
        os._exit(0)
    if hasattr(os, "waitid"):  # wait, and let it stay a zombie
        os.waitid(os.P_PID, middle, os.WEXITED | os.WNOWAIT)
    else:
        os.waitpid(middle, 0)
    runaway_pid = os.read(received, 32).decode()
    scratch = note.with_suffix(".part")
    scratch.write_text(f"{os.getpid()} {child} {runaway_pid}")
    scratch.replace(note)


def _stay() -> None:
    time.sleep(600)
    os._exit(0)


def _chat() -> None:
    while True:
        say("x" * 1000)


if __name__ == "__main__":
    main(int(sys.argv[1]), dict(word.partition("=")[::2] for word in sys.argv[2:]))
