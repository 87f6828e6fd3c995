"""JSON Lines, or one JSON array, as records that know where they begin; strict where Python's json is lax.

Duplicate keys, NaN and infinities, and strings that are no Unicode text (lone surrogates) are errors with a
position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_specgate.errors import Location, PromptError

_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a file: its content, its place, and its number from 1."""

    data: dict[str, object]
    location: Location
    number: int


def records(text: str, shown: Path) -> Iterator[Record]:
    """Every record of the text; blank lines are skipped.

    Raises PromptError at broken JSON and at records that are no objects.
    """
    values = _array(text, shown) if text.lstrip().startswith("[") else _lines(text, shown)
    for number, (value, where) in enumerate(values, start=1):
        if not isinstance(value, dict):
            raise PromptError(where, "a record is no JSON object", 'write {"id": ..., "turns": [...]}')
        yield Record(value, where, number)


def _lines(text: str, shown: Path) -> Iterator[tuple[object, Location]]:
    # Not splitlines(): U+2028 and its like may stand inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            offset = len(line) - len(line.lstrip())
            where = Location(shown, number, offset + 1)
            value, end = _decode(line, offset, where, "write one JSON object a line")
            if rest := line[end:].strip():
                at = Location(shown, number, line.index(rest, end) + 1)
                raise PromptError(at, "text after the JSON object", "write one JSON object a line")
            yield value, where


def _array(text: str, shown: Path) -> Iterator[tuple[object, Location]]:
    line, counted = 1, 0
    at = _skip(text, text.index("[") + 1)
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        where = Location(shown, line, at - text.rfind("\n", 0, at))
        value, end = _decode(text, at, where, "write a JSON array of objects, or one object a line")
        yield value, where
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "]":
                raise PromptError(_position(text, at, shown), "a ',' before the end of the JSON array", "remove it")
        elif text[at : at + 1] != "]":
            raise PromptError(_position(text, at, shown), "the JSON array is not continued or closed", "add ',' or ']'")
    if _skip(text, at + 1) != len(text):
        raise PromptError(_position(text, _skip(text, at + 1), shown), "text after the JSON array", "remove it")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _position(text: str, at: int, shown: Path) -> Location:
    return Location(shown, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


class _RefusedError(ValueError):
    """JSON that Python would take and others would not."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RefusedError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return data


def _no_constant(name: str) -> object:
    raise _RefusedError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _decode(text: str, at: int, where: Location, hint: str) -> tuple[object, int]:
    """The value that begins at ``at``, and where it ends; columns of errors count from ``where``."""
    try:
        value, end = _DECODER.raw_decode(text, at)
        if "\\u" in text[at:end] and _has_surrogate(value):
            raise _RefusedError("a text with half a surrogate pair, which is no Unicode")
    except json.JSONDecodeError as error:
        lines_down = text.count("\n", at, error.pos)
        column = error.colno if lines_down else where.column + error.pos - at
        place = Location(where.path, where.line + lines_down, column)
        raise PromptError(place, f"broken JSON: {error.msg[:1].lower()}{error.msg[1:]}", hint) from error
    except _RefusedError as error:
        raise PromptError(where, str(error), "mend the record that begins here") from error
    except (RecursionError, ValueError) as error:
        raise PromptError(where, "a record that is nested too deeply, or a number too long", "mend it") from error
    return value, end


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_has_surrogate(key) or _has_surrogate(item) for key, item in value.items())
    return isinstance(value, list) and any(_has_surrogate(item) for item in value)
