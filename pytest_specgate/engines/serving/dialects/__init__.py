"""Server software by name, and which of it a server is."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_specgate.engines.serving.dialects.base import PAGES, Acceptance, Dialect, Probe
from pytest_specgate.engines.serving.dialects.llamacpp import LLAMACPP
from pytest_specgate.engines.serving.dialects.plain import PLAIN
from pytest_specgate.engines.serving.dialects.sglang import SGLANG
from pytest_specgate.engines.serving.dialects.tgi import TGI
from pytest_specgate.engines.serving.dialects.trtllm import TRTLLM
from pytest_specgate.engines.serving.dialects.vllm import VLLM

__all__ = ["DIALECTS", "PAGES", "Acceptance", "Dialect", "Probe", "recognise"]

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (VLLM, SGLANG, LLAMACPP, TGI, TRTLLM, PLAIN)}


def recognise(probe: Probe) -> Dialect:
    """The first dialect that knows the server; ``plain`` where none does."""
    return next(dialect for dialect in DIALECTS.values() if dialect.recognises(probe))
