"""The child process of the memory pass: read an order from standard input, run one arm, print its peak as JSON."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from pytest_specgate.codec import decode, encode
from pytest_specgate.engines.registry import create
from pytest_specgate.measure.capacity import measure_capacity
from pytest_specgate.measure.child import decode_context, serve
from pytest_specgate.measure.resident import peak_resident_bytes
from pytest_specgate.measure.soak import soak
from pytest_specgate.records import Arm, MemoryReading, Request


def run(order: dict[str, Any]) -> MemoryReading:
    """Start the one arm, generate, and read what the engine and the operating system say; soak and search if asked."""
    engine = create(decode_context(order["context"]))
    arms = [Arm(arm) for arm in order["context"]["arms"]]
    engine.start()
    try:
        requests = [decode(Request, request) for request in order["requests"]]
        for start in range(0, len(requests), order["concurrency"]):
            engine.generate(requests[start : start + order["concurrency"]], arms[0])
        reading = engine.memory(arms)
        if reading.host_rss is None:
            reading = replace(reading, host_rss=peak_resident_bytes())
        if order["soak"]:
            soaked = soak(engine, requests[: order["concurrency"]], arms[0], order["soak"])
            reading = replace(reading, soak=soaked)
        gpu = engine.subject().get("device", "").startswith("cuda")
        bound = None if gpu else order["memory"]
        if order["most"] and (gpu or bound is not None):  # elsewhere running out of memory is no error
            found = measure_capacity(engine, requests, arms[0], order["most"], bound, again=gpu)
            reading = replace(reading, capacity=found)
    finally:
        engine.close()
    return reading


if __name__ == "__main__":
    sys.exit(serve(lambda order: encode(run(order))))
