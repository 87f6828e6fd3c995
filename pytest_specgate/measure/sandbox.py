"""Run tests on code that a model wrote, in a process of its own with little to do harm with.

The process has a folder of its own that goes away, an empty environment, limits on time, memory, file size and open
files, and no network where the machine lets an ordinary user take it away. This keeps accidents small; it is no wall
against an attacker, which is why nothing runs unasked.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_CHILD = Path(__file__).with_name("sandbox_child.py")
MEMORY = 1 << 30
FILE_SIZE = 1 << 20
OPEN_FILES = 64


def run_tests(code: str, tests: str, seconds: float) -> tuple[bool, str]:
    """Whether the tests run to their end after the code, and the last line of what went wrong."""
    # What stands behind the tests is known to nobody who wrote the code: leaving early is no pass.
    seal = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="specgate-code-") as folder:
        place = Path(folder)
        (place / "answer.py").write_text(f"{code}\n\n{tests}\n", encoding="utf-8")
        limits = [str(int(seconds) + 1), str(MEMORY), str(FILE_SIZE), str(OPEN_FILES)]
        command = [*_without_network(), sys.executable, "-I", "-B", str(_CHILD), *limits]
        return _judged(command, place, seal, seconds)


def _judged(command: list[str], place: Path, seal: str, seconds: float) -> tuple[bool, str]:
    said = place / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and child
            command,
            cwd=place,
            env={"PATH": os.defpath, "HOME": str(place), "TMPDIR": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.communicate(seal.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            return False, f"not done after {seconds:g} s"
        finally:
            _end(process)
    lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    if process.returncode == 0 and lines and lines[-1] == seal:
        return True, "passed"
    return False, (lines[-1] if lines else f"ended with status {process.returncode} before the tests' end")[:120]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@lru_cache(maxsize=1)
def _without_network() -> tuple[str, ...]:
    """The command that takes the network away, where the machine has one that works."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    command = (unshare, "--map-root-user", "--net")
    tried = subprocess.run([*command, sys.executable, "-I", "-c", ""], capture_output=True, check=False)  # noqa: S603
    return command if tried.returncode == 0 else ()
