"""The process that runs a model's code: limits first, then ``answer.py``, then the seal that says that it is done.

Arguments: seconds, bytes of memory, bytes of a file, open files; the seal comes on standard input. It imports nothing
but the standard library.
"""

from __future__ import annotations

import os
import runpy
import sys


def limit(seconds: int, memory: int, file_size: int, open_files: int) -> None:
    """Lower what this process may use, for good."""
    import resource

    for kind, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    seal = sys.stdin.readline().strip()
    os.close(0)
    limit(*map(int, sys.argv[1:5]))
    sys.argv = ["answer.py"]
    runpy.run_path("answer.py", run_name="__main__")
    sys.stdout.write(f"\n{seal}\n")
