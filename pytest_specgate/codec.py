"""Records ↔ plain JSON values, driven by the records' own types: lossless, strict, without code per record.

It knows frozen dataclasses of str, bool, int, float, Enums, ``X | None``, ``tuple[X, ...]``, ``frozenset[X]``
and ``Mapping[str or Enum, X]``. Every field is written and must be there when it is read; what versions of a
file mean is the business of the modules that own the files.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
Path = tuple[str | int, ...]
Decoder = Callable[[Any], Any]

_NOT_FINITE = "cannot be stored — a number that is not finite was measured"
_NAMES = {
    str: "text", bool: "true or false", int: "a whole number", float: "a number",
    list: "a list", dict: "an object",
}  # fmt: skip


class CodecError(ValueError):
    """A value that cannot be written or read; ``path`` leads to it, and the text begins with the path."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{shown(path)}: {what}" if path else what)
        self.path = path
        self.what = what

    def under(self, step: str | int) -> CodecError:
        """The same error, seen from one level further out."""
        return CodecError((step, *self.path), self.what)


def shown(path: Path) -> str:
    """``pairs[3].candidate.chunks``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


# --- writing ---


def encode(value: Any, text: Callable[[str], str] = str) -> Any:
    """A record, or any nest of records, as JSON can carry it.

    ``text`` is applied to every string, keys of mappings included and names of fields not.
    Raises CodecError for NaN and infinities, and for types that :func:`decode` could not give back.
    """
    kind = type(value)
    if kind is str:
        return text(value)
    if value is None or kind is bool or kind is int:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CodecError((), f"{float(value)} {_NOT_FINITE}")
        return float(value)
    if isinstance(value, enum.Enum):
        return value.value
    if names := _field_names(cast("Any", kind)):
        return _encode_items([(name, getattr(value, name)) for name in names], text)
    return _encode_collection(value, text)


def _encode_collection(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return _encode_items([(str(encode(key, text)), item) for key, item in value.items()], text)
    if isinstance(value, frozenset):
        return sorted(encode(item, text) for item in value)
    if isinstance(value, (list, tuple)):
        return [_encode_at(index, item, text) for index, item in enumerate(value)]
    raise CodecError((), f"{type(value).__name__} cannot be stored — convert it first")


def _encode_items(items: list[tuple[str, Any]], text: Callable[[str], str]) -> dict[str, Any]:
    return {key: _encode_at(key, item, text) for key, item in items}


def _encode_at(step: str | int, item: Any, text: Callable[[str], str]) -> Any:
    try:
        return encode(item, text)
    except CodecError as error:
        raise error.under(step) from None


# --- reading ---


def decode(kind: type[T], data: Any) -> T:
    """The inverse of :func:`encode`. Raises CodecError, whose path leads to the mistake."""
    return cast("T", _decoder(cast("Any", kind))(data))


@lru_cache(maxsize=128)
def _decoder(kind: Any) -> Decoder:
    if dataclasses.is_dataclass(kind):
        return _record_decoder(cast("type", kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _optional_decoder(_decoder(inner))
    if origin is tuple and arguments[1:] == (...,):
        return _list_decoder(_decoder(arguments[0]), tuple)
    if origin is frozenset:
        return _list_decoder(_decoder(arguments[0]), frozenset)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_decoder(_decoder(arguments[0]), _decoder(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum_decoder(kind)
    if kind is float:
        return _decode_float
    if kind in (str, bool, int):
        return _scalar_decoder(kind)
    raise TypeError(f"no codec for {kind!r}")


def _expect(kind: type, data: Any) -> Any:
    if type(data) is not kind:  # not isinstance: True would pass for an int
        raise CodecError((), f"expected {_NAMES[kind]}, got {_NAMES.get(type(data), 'nothing')}")
    return data


def _scalar_decoder(kind: type) -> Decoder:
    return lambda data: data if type(data) is kind else _expect(kind, data)


def _decode_float(data: Any) -> float:
    if type(data) is int:
        try:
            return float(data)
        except OverflowError:
            data = math.inf
    if not math.isfinite(_expect(float, data)):
        raise CodecError((), f"{data} is no finite number")
    return cast("float", data)


def _optional_decoder(inner: Decoder) -> Decoder:
    return lambda data: None if data is None else inner(data)


def _enum_decoder(kind: type[enum.Enum]) -> Decoder:
    members: dict[Any, enum.Enum] = {member.value: member for member in kind}

    def decode_enum(data: Any) -> enum.Enum:
        if type(data) is not str or data not in members:
            raise CodecError((), f"{data!r} is none of {', '.join(map(str, members))}")
        return members[data]

    return decode_enum


def _list_decoder(inner: Decoder, collect: Callable[[list[Any]], Any]) -> Decoder:
    def decode_list(data: Any) -> Any:
        found: list[Any] = []
        try:
            for item in _expect(list, data):
                found.append(inner(item))  # noqa: PERF401 - its length is the index of the item that fails
        except CodecError as error:
            raise (error.under(len(found)) if type(data) is list else error) from None
        return collect(found)

    return decode_list


def _mapping_decoder(key_decoder: Decoder, inner: Decoder) -> Decoder:
    def decode_mapping(data: Any) -> dict[Any, Any]:
        found = {}
        for key, item in _expect(dict, data).items():
            try:
                known = key_decoder(key)
                found[known] = inner(item)
            except CodecError as error:  # noqa: PERF203 - the key belongs to the message
                raise error.under(key) from None
        return found

    return decode_mapping


def _record_decoder(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    names = _field_names(kind)
    inner: dict[str, Decoder] = {}

    def decode_record(data: Any) -> Any:
        if not inner:  # not earlier: a record may hold itself
            inner.update((name, _decoder(hints[name])) for name in names)
        if _expect(dict, data).keys() != inner.keys():
            raise _wrong_keys(data, names)
        values = []
        for name in names:
            try:
                values.append(inner[name](data[name]))
            except CodecError as error:  # noqa: PERF203 - the name belongs to the message
                raise error.under(name) from None
        return kind(*values)

    return decode_record


def _wrong_keys(data: dict[str, Any], names: tuple[str, ...]) -> CodecError:
    for key in data:
        if key not in names:
            return CodecError((key,), "unknown key")
    return CodecError((next(name for name in names if name not in data),), "missing key")


@lru_cache(maxsize=128)
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
