"""Ask an engine for traces, and refuse an answer that is not what the protocol promises.

An adapter may be anybody's: what it returns is looked at before anything is computed from it, so that a slip in it is
told as one sentence in its own terms.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.engines.base import Engine, Queues
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Chunk, Request, Round, Trace


def ask(engine: Engine, name: str, requests: Sequence[Request], arm: Arm, slots: int | None = None) -> list[Trace]:
    """One trace a request, in order, from the engine that the suite calls ``name``.

    All run at once, or ``slots`` of them where that is given; the engine has a queue then.

    Raises EngineError where the answer holds values of the wrong kind, another number, order or arm of traces, or a
    trace without output.
    """
    traces = list(engine.generate(requests, arm) if slots is None else _queue(engine, name).serve(requests, arm, slots))
    called = "generate()" if slots is None else "serve()"
    if len(traces) != len(requests):
        what = f"{called} returned {len(traces)} traces for {len(requests)} requests"
        raise EngineError(name, what, "return one Trace for each request, in the order of the requests")
    for request, trace in zip(requests, traces):
        if wrong := _misshapen(trace):
            what = f"{request.prompt}: the {arm.value} arm's {wrong}"
            raise EngineError(name, what, "see pytest_specgate.records.Trace for what each field holds")
        if (trace.prompt, trace.arm) != (request.prompt, arm):
            what = f"{called} answered {request.prompt} ({arm.value}) with {trace.prompt} ({trace.arm.value})"
            raise EngineError(name, what, "return the traces in the order of the requests, each with its own arm")
        if not trace.chunks:
            what = f"{request.prompt}: the {arm.value} arm returned no chunks"
            raise EngineError(name, what, "give each Trace a Chunk for every delivery of tokens")
    return traces


def _queue(engine: Engine, name: str) -> Queues:
    if isinstance(engine, Queues):
        return engine
    hint = "add one (pytest_specgate.engines.base.Queues), or take it out of the engine's capabilities"
    raise EngineError(name, "declares Capability.QUEUE and has no serve()", hint)


def _misshapen(trace: object) -> str:
    """What of an answer is of the wrong kind; empty if nothing. A wrong kind would be told by our own arithmetic."""
    if not isinstance(trace, Trace):
        return f"answer is {trace!r:.60}, which is no Trace"
    for field, part in (("token_ids", int), ("chunks", Chunk), ("rounds", Round)):
        value: object = getattr(trace, field)
        if field == "rounds" and value is None:
            continue
        if not isinstance(value, tuple) or not all(isinstance(one, part) for one in value):
            return f"{field} is {value!r:.60}, which is no tuple of {part.__name__}"
    text: object = trace.text
    if not isinstance(text, str):
        return f"text is {text!r:.60}, which is no str"
    for field in ("prompt_tokens", "submit_ns", "prefill_tokens", "max_tokens"):
        value = getattr(trace, field)
        if not isinstance(value, int) or value < 0:
            return f"{field} is {value!r:.60}, which is no whole number from 0 on"
    return ""
