"""Records ↔ plain JSON values, driven by the records' own types: lossless, strict, and without code of its own per record.

Decoding refuses unknown and missing keys and wrong types with ValueError naming the path (``pairs[3].candidate.chunks``).
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import math
import types
import typing
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A record, or any nest of records, as JSON can carry it. Raises ValueError on NaN and infinity."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in _fields(type(value))}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, collections.abc.Mapping):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(encode(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be stored — a number that is not finite was measured")
    return value


def decode(kind: type[T], data: Any, path: str = "") -> T:
    """The inverse of :func:`encode` for a value of this type."""
    return cast("T", _decode(kind, data, path))


def _decode(kind: Any, data: Any, path: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _decode_record(cast("type", kind), data, path)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        (inner,) = [a for a in arguments if a is not type(None)]
        return _decode(inner, data, path)
    if origin is tuple:
        items = _expect(list, data, path)
        return tuple(_decode(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(items))
    if origin is frozenset:
        return frozenset(_decode(arguments[0], item, path) for item in _expect(list, data, path))
    if origin is collections.abc.Mapping:
        pairs = _expect(dict, data, path).items()
        return {_decode(arguments[0], k, path): _decode(arguments[1], v, f"{path}.{k}") for k, v in pairs}
    return _decode_scalar(kind, data, path)


def _decode_scalar(kind: Any, data: Any, path: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError:
            raise ValueError(f"{path or 'value'}: {data!r} is no {kind.__name__}") from None
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _expect(kind, data, path)


def _decode_record(kind: type, data: Any, path: str) -> Any:
    given = _expect(dict, data, path)
    hints, names = _hints(kind), {field.name for field in _fields(kind)}
    for key in given:
        if key not in names:
            raise ValueError(f"{path + '.' if path else ''}{key}: unknown key")
    for field in _fields(kind):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in given:
            raise ValueError(f"{path + '.' if path else ''}{field.name}: missing")
    return kind(**{key: _decode(hints[key], value, f"{path}.{key}" if path else key) for key, value in given.items()})


def _expect(kind: type, data: Any, path: str) -> Any:
    wrong_bool = isinstance(data, bool) and kind is not bool
    if wrong_bool or not isinstance(data, kind):
        raise ValueError(f"{path or 'value'}: expected {kind.__name__}, got {type(data).__name__}")
    return data


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@lru_cache(maxsize=64)
def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)
