"""The child process of :mod:`anew`: start the engine, measure the case, print the measurement."""

from __future__ import annotations

import json
import sys
from typing import Any

from pytest_specgate.codec import encode
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import SpecgateError
from pytest_specgate.measure.anew import decode_case
from pytest_specgate.measure.child import answer, decode_context
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


def main() -> int:
    """Print the measurement, or the error's one line on standard error."""
    try:
        measurement = run(json.load(sys.stdin))
    except SpecgateError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    answer(encode(measurement))
    return 0


if __name__ == "__main__":
    sys.exit(main())
