"""Whether anything of a test still runs: all that it starts inherits a variable that names it."""

from __future__ import annotations

import psutil

MARK = "SPECGATE_TEST_MARK"


def alive(mark: str) -> list[str]:
    """Names of the processes with this mark, the own one apart."""
    found = []
    for process in psutil.process_iter(["environ", "name"]):
        environment = process.info["environ"] or {}
        if environment.get(MARK) == mark and process.pid != psutil.Process().pid:
            found.append(process.info["name"])
    return found
