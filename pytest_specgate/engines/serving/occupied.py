"""Which GPUs of this machine servers take while they are measured, as an engine that computes here would name them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from pytest_specgate.engines.serving.footprint import visible
from pytest_specgate.engines.serving.gpus import look_once
from pytest_specgate.engines.serving.launching import arm_server
from pytest_specgate.engines.serving.members import is_here
from pytest_specgate.records import Arm
from pytest_specgate.suite.servers import ServerSpec

_GPU = re.compile(r"nvidia|cuda|gpu|geforce|tesla|\brtx\b|\b(a|b|h|l)\d{2,3}\b", re.IGNORECASE)


def taken(spec: ServerSpec, arms: Iterable[Arm]) -> frozenset[str]:
    """The GPUs of this machine that the arms' servers compute on, where the suite's place says that they are GPUs."""
    if spec.place is None or not is_gpu(spec.place.device):
        return frozenset()
    found: set[str] = set()
    for server in (arm_server(spec, arm) for arm in arms):
        if server.command:
            found |= gpus({**os.environ, **server.env})
        elif is_here(urlsplit(server.url or "").hostname or ""):
            found |= gpus({})  # whoever started it, it may be on any
    return frozenset(found)


def is_gpu(device: str) -> bool:
    """Whether a place's device, in the suite's words, is a GPU."""
    return _GPU.search(device) is not None


def gpus(env: Mapping[str, str]) -> frozenset[str]:
    """``cuda:N`` of each GPU that a server with this environment may use; the first one where that cannot be told.

    N counts those that this process may use, as PyTorch counts them; any other GPU has its number on the bus.
    """
    boards = look_once()
    if not boards:
        words = [word.strip() for word in env.get("CUDA_VISIBLE_DEVICES", "").split(",")]
        if env.get("CUDA_VISIBLE_DEVICES") == os.environ.get("CUDA_VISIBLE_DEVICES"):
            return frozenset(f"cuda:{number}" for number in range(len(words)))
        return frozenset(f"cuda:{int(word)}" for word in words if word.isdigit()) or frozenset({"cuda:0"})
    ours = [board.uuid for board in visible(boards, os.environ)]
    found = visible(boards, env) or boards
    return frozenset(f"cuda:{ours.index(one.uuid) if one.uuid in ours else one.index}" for one in found)
