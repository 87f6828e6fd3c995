"""Writes the reference from what the code holds: metrics, the suite format, options.

python docs/reference/generate.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_specgate.metrics import METRICS, STATISTICS, Better, Family, Unit
from pytest_specgate.plugin.options import TABLE
from pytest_specgate.suite.schema import json_schema

HERE = Path(__file__).parent
HEAD = "<!-- Made by python docs/reference/generate.py; do not edit. -->\n"
UNITS = {
    Unit.RATIO: "a factor, `1.3x`",
    Unit.FRACTION: "a share, `95%` or `0.95`",
    Unit.TOKENS: "tokens, `2.4`",
    Unit.BYTES: "bytes, `6 GiB`",
    Unit.SECONDS: "a time, `250 ms`",
    Unit.RATE: "`20 tokens/s`",
    Unit.SCORE: "0 to 100",
    Unit.SLOPE: "share per doubling, `-0.02`",
    Unit.REQUESTS: "requests, `8`",
    Unit.WATTS: "watts",
    Unit.JOULES: "joules",
}
BETTER = {Better.HIGHER: "more", Better.LOWER: "less", Better.NEITHER: "neither"}


def metrics() -> Iterator[str]:
    """Every metric with its definition."""
    yield "# Metrics\n"
    yield "One definition each, from `pytest_specgate/metrics.py`. What an engine cannot measure is an ERROR, never 0"
    names = ", ".join(f"`{name}`" for name in STATISTICS)
    yield f"and never a pass. A latency gate may name a statistic: {names} (default: median).\n"
    for family in Family:
        found = [metric for metric in METRICS.values() if metric.family is family]
        if found:
            yield f"## {family.value.capitalize()}\n\n| metric | written as | better | definition |\n|---|---|---|---|"
            for one in found:
                written = UNITS.get(one.unit, one.unit.value)
                yield f"| `{one.name}` | {written} | {BETTER[one.better]} | {cell(one.definition)} |"
            yield ""


def suite() -> Iterator[str]:
    """Every key of a suite, from its JSON Schema."""
    schema = json_schema()
    yield "# Suite format\n"
    yield "Drawn from the schema in `docs/schema/suite.schema.json`. Required keys say so; the rest may be absent.\n"
    yield from _record("A suite", schema)
    for name, part in schema.get("$defs", {}).items():
        if "properties" in part:
            yield from _record(name.removesuffix("Spec"), part)


def _record(title: str, part: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    if told := part.get("description"):
        yield f"{cell(told)}\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    for key, value in part["properties"].items():
        must = "required" if key in part.get("required", ()) else ""
        default = must or (f"`{value['default']}`" if value.get("default") not in (None, "", [], {}) else "")
        yield f"| `{key}` | {cell(_type(value))} | {cell(default)} | {cell(value.get('description', ''))} |"
    yield ""


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2].removesuffix("Spec")
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    for name in ("anyOf", "oneOf"):
        if name in value:
            return " or ".join(dict.fromkeys(_type(one) for one in value[name] if one.get("type") != "null"))
    kind = value.get("type", "any")
    if kind == "array" and isinstance(value.get("items"), Mapping):
        return f"list of {_type(value['items'])}"
    if kind == "object" and isinstance(value.get("additionalProperties"), Mapping):
        return f"name to {_type(value['additionalProperties'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def options() -> Iterator[str]:
    """Every option of the command line with its ini twin."""
    yield "# Options\n"
    yield "Every acting option implies `--specgate`. The command line wins over the ini file.\n"
    yield "| option | ini | meaning |\n|---|---|---|"
    for option in TABLE:
        flag = f"{option.flag} {option.metavar}" if option.metavar else option.flag
        yield f"| `{flag}` | {f'`{option.dest}`' if option.ini else ''} | {cell(option.help)} |"
    codes = "[GPU CI](../guide/ci.md#exit-codes)"
    yield f"\nThe commands beside pytest: `python -m pytest_specgate --help`. Exit codes: {codes}."


def cell(text: str) -> str:
    """Text that breaks no table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


PAGES = {"metrics.md": metrics, "suite.md": suite, "options.md": options}


def text(name: str) -> str:
    """The whole page."""
    return HEAD + "\n".join(PAGES[name]()).rstrip("\n") + "\n"


if __name__ == "__main__":
    for page in PAGES:
        (HERE / page).write_text(text(page), encoding="utf-8")
