"""Work in a process of its own: an order goes in on standard input, one marked line of JSON comes out.

What a child says beside that line is its own; its last words on standard error explain a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_specgate import masking
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import SpecgateError
from pytest_specgate.records import Arm
from pytest_specgate.suite.model import EngineSpec

MARK = "specgate-answer "


class ChildFailed(Exception):
    """The child gave no answer; the message says why in a few words."""


def ask(module: str, order: Mapping[str, Any], timeout: float) -> Any:
    """Run ``python -m module``, and return the answer that it printed. Raises ChildFailed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", module]
    try:
        child = subprocess.run(  # noqa: S603 - our own module
            command,
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"it did not finish in {timeout:.0f} s") from None
    for line in child.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])
    raise ChildFailed(_last_words(child))


def _last_words(child: subprocess.CompletedProcess[str]) -> str:
    if child.returncode == -9:
        return "it was killed, most likely for want of memory"
    said = child.stderr.strip().splitlines()
    return said[-1] if said else f"exit status {child.returncode}"


def serve(work: Callable[[dict[str, Any]], Any]) -> int:
    """In the child: do the work that was ordered and print its answer, or the error's one line on standard error."""
    try:
        data = work(json.load(sys.stdin))
    except SpecgateError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{MARK}{json.dumps(data)}\n")
    return 0


def encode_context(context: EngineContext) -> dict[str, Any]:
    """The context as JSON can carry it."""
    return {
        "secrets": masking.learned(),
        "name": context.name,
        "spec": context.spec.model_dump(mode="json", exclude_defaults=True),
        "folder": str(context.folder),
        "device": context.device,
        "allow_remote_code": context.allow_remote_code,
        "allow_pickle": context.allow_pickle,
        "arms": [arm.value for arm in context.arms],
    }


def decode_context(data: dict[str, Any]) -> EngineContext:
    """The inverse of :func:`encode_context`; what is secret is learned too."""
    data = dict(data)
    masking.learn_all(data.pop("secrets"))
    spec = EngineSpec.model_validate(data["spec"])
    arms = tuple(Arm(arm) for arm in data["arms"])
    return EngineContext(**{**data, "spec": spec, "folder": Path(data["folder"]), "arms": arms})
