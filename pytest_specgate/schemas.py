"""JSON Schemas of the files that hold records, drawn from the records' own types as the codec writes them."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any, cast

Schema = dict[str, Any]

_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number"}


def file_schema(kind: type, title: str, version: int) -> Schema:
    """The schema (draft 2020-12) of a file of this dataclass, whose field ``schema`` is its version."""
    definitions: dict[str, Schema] = {}
    top = _record(kind, definitions)
    top["properties"]["schema"] = {"const": version}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _record(kind: type, definitions: dict[str, Schema]) -> Schema:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(cast("Any", kind))]
    return {
        "description": (kind.__doc__ or "").strip().split("\n")[0],
        "type": "object",
        "properties": {name: _schema(hints[name], definitions) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _schema(kind: Any, definitions: dict[str, Schema]) -> Schema:
    if dataclasses.is_dataclass(kind):
        return _reference(cast("type", kind), definitions)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(part, definitions) for part in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is frozenset:
        return {"type": "array", "items": _schema(arguments[0], definitions), "uniqueItems": True}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments, definitions)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": "null" if kind is type(None) else _SCALARS[kind]}


def _mapping(arguments: tuple[Any, ...], definitions: dict[str, Schema]) -> Schema:
    keys, values = arguments
    found: Schema = {"type": "object", "additionalProperties": _schema(values, definitions)}
    return found if keys is str else {**found, "propertyNames": _schema(keys, definitions)}


def _reference(kind: type, definitions: dict[str, Schema]) -> Schema:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # holds the place, for a record may hold itself
        definitions[name] = _record(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}
