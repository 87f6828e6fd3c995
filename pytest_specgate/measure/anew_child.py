"""The child process of :mod:`anew`: start the engine, measure the case, print the measurement."""

from __future__ import annotations

import sys
from typing import Any

from pytest_specgate.codec import encode
from pytest_specgate.engines.registry import create
from pytest_specgate.measure.anew import decode_case
from pytest_specgate.measure.child import decode_context, serve
from pytest_specgate.measure.run import Plan, measure_case
from pytest_specgate.records import Measurement
from pytest_specgate.stats.looks import Looks


def run(order: dict[str, Any]) -> Measurement:
    """Measure as the order says: a fixed number of rounds, for nothing is judged here."""
    plan = Plan(Looks((order["rounds"],)), order["warmup"], None, lambda *_: (), lambda _: None)
    engine = create(decode_context(order["context"]))
    engine.start()
    try:
        return measure_case(engine, decode_case(order["case"]), plan)
    finally:
        engine.close()


if __name__ == "__main__":
    sys.exit(serve(lambda order: encode(run(order))))
