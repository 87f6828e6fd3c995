"""A soak: the same requests block after block: memory once each is drained, and what is kept of drafts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pytest_specgate.engines.base import Engine
from pytest_specgate.measure.drain import drain
from pytest_specgate.measure.resident import resident_bytes
from pytest_specgate.records import Arm, Request, Soak, Trace
from pytest_specgate.samples.acceptance import counts_of


def soak(engine: Engine, requests: Sequence[Request], arm: Arm, blocks: int) -> Soak:
    """Run ``requests`` side by side ``blocks`` times. Raises EngineError, OutOfMemory."""
    host, vram, cache = list[int](), list[int](), list[int]()
    drafts = list[tuple[int, int]]()
    device = engine.subject().get("device", "")
    for _ in range(blocks):
        drafts += drafted([engine.generate(requests, arm)])
        drain(engine)
        host.append(resident_bytes())
        if (held := _device_bytes(device)) is not None:
            vram.append(held)
        if (occupied := engine.memory([arm]).kv_cache) is not None:
            cache.append(occupied)
    vram, cache = (kept if len(kept) == blocks else [] for kept in (vram, cache))
    both = tuple(zip(*drafts)) if len(drafts) == blocks else ((), ())
    return Soak(len(requests), tuple(host), tuple(vram), tuple(cache), *both)


def drafted(blocks: Sequence[Sequence[Trace]]) -> list[tuple[int, int]]:
    """(drafted, accepted) of each block whose answers all tell both."""
    found = list[tuple[int, int]]()
    for traces in blocks:
        told = [counts_of(trace) for trace in traces]
        known = [(one.drafted, one.accepted) for one in told if one is not None and one.drafted is not None]
        if len(known) == len(traces):
            found.append((sum(of for of, _ in known), sum(kept for _, kept in known)))
    return found


def _device_bytes(device: str) -> int | None:
    """What this process holds of the GPU by torch's account, which sees every byte of its own; None without one."""
    torch: Any = sys.modules.get("torch")
    if not device.startswith("cuda") or torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.memory_reserved(device))
