"""The child process of the memory pass: read an order from standard input, run one arm, print its peak as JSON."""

from __future__ import annotations

import resource
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_specgate.engines.registry import create
from pytest_specgate.measure.child import decode_context, serve
from pytest_specgate.records import Arm, MemoryReading, Message, Request, Sampling


def decode_request(data: dict[str, Any]) -> Request:
    """The inverse of ``dataclasses.asdict`` on a request."""
    messages = tuple(Message(**message) for message in data["messages"])
    return Request(
        **{**data, "messages": messages, "sampling": Sampling(**data["sampling"]), "stop": tuple(data["stop"])}
    )


def peak_resident_bytes() -> int:
    """Peak resident memory of this process since it runs this program; Linux counts in KiB, macOS in bytes.

    Linux carries getrusage's peak over from the process that started this one, which may have held both models; the
    peak of the address space itself begins anew.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def run(order: dict[str, Any]) -> MemoryReading:
    """Start the one arm, generate, and read what the engine and the operating system say."""
    engine = create(decode_context(order["context"]))
    arms = [Arm(arm) for arm in order["context"]["arms"]]
    engine.start()
    try:
        requests = [decode_request(request) for request in order["requests"]]
        for start in range(0, len(requests), order["concurrency"]):
            engine.generate(requests[start : start + order["concurrency"]], arms[0])
        reading = engine.memory(arms)
    finally:
        engine.close()
    return reading if reading.host_rss is not None else replace(reading, host_rss=peak_resident_bytes())


if __name__ == "__main__":
    sys.exit(serve(lambda order: asdict(run(order))))
