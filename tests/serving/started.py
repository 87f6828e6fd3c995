"""The fake server as a program of its own, for suites that start their servers: ``started.py PORT SCRIPT``.

``SCRIPT`` is JSON: the fields of :class:`tests.serving.script.Script`; ``die_after`` requests, or after
a prompt of ``die_on`` ids, it kills itself, it loses ``leak`` bytes with every request, and it says ``log`` first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.target import pages


def main(port: int, script: dict[str, object]) -> None:
    """Answer until killed."""
    die_after, log = script.pop("die_after", None), script.pop("log", "")
    die_on, leak, lost = script.pop("die_on", None), int(str(script.pop("leak", 0))), list[bytearray]()
    os.write(2, str(log).encode())
    with FakeServer(Script(**script), port=port) as server:  # type: ignore[arg-type]
        server.posts = dict(pages(server.script))
        server.pages["/health"] = (200, "text/plain", "fine")

        def die() -> None:
            lost.append(bytearray(b"x" * leak))
            prompt = server.requests[-1].get("prompt")
            if len(server.requests) == die_after or (isinstance(prompt, list) and len(prompt) == die_on):
                os.write(2, b"CUDA error: an illegal memory access was encountered\n")
                os.kill(os.getpid(), signal.SIGKILL)

        server.after_reply = die
        signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
