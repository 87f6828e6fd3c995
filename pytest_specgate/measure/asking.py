"""Ask an engine for traces, and refuse an answer that is not what the protocol promises.

An adapter may be anybody's: what it returns is looked at before anything is computed from it, so that a slip in it is
told as one sentence in its own terms.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.engines.base import Engine
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Request, Trace


def ask(engine: Engine, name: str, requests: Sequence[Request], arm: Arm) -> list[Trace]:
    """One trace a request, in order, from the engine that the suite calls ``name``.

    Raises EngineError where the answer has another number, another order, another arm, or a trace without output.
    """
    traces = list(engine.generate(requests, arm))
    if len(traces) != len(requests):
        what = f"generate() returned {len(traces)} traces for {len(requests)} requests"
        raise EngineError(name, what, "return one Trace for each request, in the order of the requests")
    for request, trace in zip(requests, traces):
        if (trace.prompt, trace.arm) != (request.prompt, arm):
            what = f"generate() answered {request.prompt} ({arm.value}) with {trace.prompt} ({trace.arm.value})"
            raise EngineError(name, what, "return the traces in the order of the requests, each with its own arm")
        if not trace.chunks:
            what = f"{request.prompt}: the {arm.value} arm returned no chunks"
            raise EngineError(name, what, "give each Trace a Chunk for every delivery of tokens")
    return traces
