"""The kinds of value that a suite is written in, each with its JSON Schema: names, numbers, sizes, times, limits.

``Strict`` is the base of every part that is made of them.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from pytest_specgate import units
from pytest_specgate.metrics import METRICS


class Strict(BaseModel):
    """Base of all parts: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
_NAME_SCHEMA: dict[str, Any] = {"type": "string", "pattern": _NAME, "maxLength": 60}
Name = Annotated[str, Field(pattern=_NAME, max_length=60)]
#: Text in which spaces and line ends mean something: "\n\n" is a stop string, and not the empty one.
Verbatim = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1)]

# Strict, for pydantic would otherwise take "4", 4.0 and even true for a number, and 1 for a boolean.
Whole = Annotated[int, Field(strict=True)]
Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]

_NUMBER = r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?"


def _written(pattern: str, number: str | None = None, **bounds: float) -> WithJsonSchema:
    """The JSON Schema of a quantity: a string of this pattern, or a bare number where one is taken."""
    text: dict[str, Any] = {"type": "string", "pattern": pattern}
    return WithJsonSchema({"anyOf": [text, {"type": number, **bounds}]} if number else text)


Bytes = Annotated[int, _written(rf"^\s*{_NUMBER}\s*([kKmMgGtT][iI]?)?[bB]?\s*$", "integer", minimum=1)]
Seconds = Annotated[float, _written(rf"^\s*{_NUMBER}\s*(ns|us|µs|ms|s|min|h)\s*$", "number", exclusiveMinimum=0)]
Limit = Annotated[units.Limit, _written(r"^\s*((>=|<=|==)\s*\S.*|\S.*\.\.\s*\S.*)$")]
Allowance = Annotated[units.Allowance, _written(r"^\s*[0-9.][^+]*(\+[^+]+)*$", "number", minimum=0)]
MetricName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(METRICS)})]


def _one_or_more(value: object) -> object:
    return (value,) if isinstance(value, str) else value


#: Names of which one may stand without brackets.
Chosen = Annotated[
    tuple[Name, ...],
    Field(min_length=1),
    BeforeValidator(_one_or_more),
    WithJsonSchema(
        {"anyOf": [_NAME_SCHEMA, {"type": "array", "items": _NAME_SCHEMA, "minItems": 1}]},
    ),
]
Packages = Annotated[
    tuple[str, ...],
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
