"""Let go of what a finished request leaves behind on purpose, so that what stays is a leak."""

from __future__ import annotations

import gc
import sys
from typing import Any

from pytest_specgate.engines.base import Drains, Engine


def drain(engine: Engine) -> None:
    """Have the engine give its caches back, collect garbage, and empty torch's own store of device memory."""
    if isinstance(engine, Drains):
        engine.drain()
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
