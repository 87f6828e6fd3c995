"""JSON text with positions: strict where Python's json is lax, and able to say where a value stands.

Duplicate keys, NaN, infinities and nesting beyond the interpreter's depth are errors. Half a surrogate pair,
which UTF-8 cannot carry, is written as its escape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

Path = tuple[str | int, ...]

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class JsonError(ValueError):
    """Text that is no JSON of ours, with the line and column (from 1) of the mistake."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column


def parse(text: str) -> Any:
    """The text's value. Raises JsonError."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise JsonError(f"is no whole JSON ({error.msg})", error.lineno, error.colno) from error
    except _DuplicateError:
        path, offset = _first_duplicate(text)
        raise JsonError(f"key {path[-1]!r} stands twice", *line_and_column(text, offset)) from None
    except _ConstantError as error:
        found = (match.start() for match in _WORD.finditer(text) if match[0] == str(error))
        raise JsonError(f"{error} is no finite number", *line_and_column(text, next(found, 0))) from None
    except RecursionError:
        raise JsonError("is nested too deep", 1, 1) from None


def locate(text: str, path: Path) -> tuple[int, int]:
    """Line and column of the value, or of its key, in valid JSON; else of the deepest part that is there."""
    best, offset = 0, 0
    for found, at in _positions(text):
        if best < len(found) <= len(path) and found == path[: len(found)]:
            best, offset = len(found), at
    return line_and_column(text, offset)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where the offset stands, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def dump(data: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """The value as JSON with characters as they are. Raises ValueError for NaN and infinities."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent, sort_keys=sort_keys)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _DuplicateError(Exception):
    """A key stands twice in an object."""


class _ConstantError(Exception):
    """NaN, Infinity or -Infinity."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateError
    return found


def _refuse(constant: str) -> NoReturn:
    raise _ConstantError(constant)


def _first_duplicate(text: str) -> tuple[Path, int]:
    seen: set[Path] = set()
    for path, offset in _positions(text):
        if path in seen:
            return path, offset
        seen.add(path)
    raise AssertionError("only called for text with a duplicate")


def _positions(text: str) -> Iterator[tuple[Path, int]]:
    """Path and offset of every key and list item of valid JSON, in the order of the text."""
    path: list[str | int] = []  # of a list its index, of an object its key
    in_object: list[bool] = []
    expects_key = False
    for match in _WORD.finditer(text):
        word = match[0]
        if word in "}]":
            path.pop()
            in_object.pop()
        elif word == ":":
            expects_key = False
        elif word == ",":
            expects_key = in_object[-1]
            if not expects_key:
                path[-1] = int(path[-1]) + 1
        elif expects_key:
            path[-1] = json.loads(word)
            yield tuple(path), match.start()
        else:
            if in_object and not in_object[-1]:
                yield tuple(path), match.start()
            if word in "{[":
                expects_key = word == "{"
                in_object.append(expects_key)
                path.append("" if expects_key else 0)
