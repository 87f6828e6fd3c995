"""``schema``: the JSON Schema of suites, baselines, reports or histories, for editors and other tools."""

from __future__ import annotations

from typing import TextIO

from pytest_specgate import jsontext


def show(name: str, out: TextIO) -> int:
    """Write the schema of ``suite``, ``baseline``, ``report`` or ``history``; the exit status."""
    if name == "suite":
        from pytest_specgate.suite.schema import json_schema
    elif name == "baseline":
        from pytest_specgate.baseline import json_schema
    elif name == "history":
        from pytest_specgate.history.record import json_schema
    else:
        from pytest_specgate.report.document import json_schema
    out.write(jsontext.dump(json_schema(), indent=2) + "\n")
    return 0
