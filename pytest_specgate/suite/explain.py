"""Validation errors as people say them: one mistake, at its place in the file, with what to do about it.

pydantic reports where (a path of keys and indices), which kind, and the offending value. The kind is
translated here; the texts of our own validators (``what — what to do``) pass through. Nothing of pydantic's
wording reaches a user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from pytest_specgate.errors import Location, SuiteError
from pytest_specgate.suite.nodes import Node, Scalar, describe, find
from pytest_specgate.units import did_you_mean

Path = tuple["str | int", ...]
_OWNERS = {"gates": "gate", "engines": "engine", "scenarios": "scenario"}


def suite_error(error: ValidationError, tree: Node, model: type[BaseModel], below: Path = ()) -> SuiteError:
    """The first mistake in file order; of several files the one that extends comes first.

    ``below`` is where in the tree what was validated stands.
    """
    told = error.errors(include_url=False)
    every: list[dict[str, Any]] = [{**detail, "loc": (*below, *detail["loc"])} for detail in told]
    unknown = [tuple(detail["loc"]) for detail in every if detail["type"] == "extra_forbidden"]
    details = [detail for detail in every if not _consequence(detail, unknown)]
    found = [_translate(detail, tree, model) for detail in details]
    own = tree.location.path
    return min(
        found,
        key=lambda e: (e.location.path != own, str(e.location.path), e.location.line, e.location.column),
    )


def _consequence(detail: Mapping[str, Any], unknown: Sequence[Path]) -> bool:
    """Whether the mistake only repeats another.

    A list counts as empty when its entries are wrong, and a key as missing when it is misspelt beside the gap.
    """
    if detail["type"] == "missing":
        *place, key = detail["loc"]
        return any(list(path[:-1]) == place and did_you_mean(str(path[-1]), [str(key)]) for path in unknown)
    return detail["type"] == "too_short" and len(detail["input"]) > 0


def _translate(detail: Mapping[str, Any], tree: Node, model: type[BaseModel]) -> SuiteError:
    path: Path = tuple(detail["loc"])
    node, where = find(tree, path)
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path, tree, model)
    if kind == "missing":
        return _missing(path, where, model)
    if kind == "value_error":
        what, _, hint = str(detail["ctx"]["error"]).rpartition(" — ")
        return SuiteError(where, what, hint)
    if path and path[-1] == "[key]":
        return SuiteError(where, f"name {str(path[-2])!r} is not usable in a test id", _NAME_HINT)
    what, hint = _KINDS.get(kind, _unforeseen)(_label(path), detail)
    if (
        isinstance(detail["input"], bool)
        and isinstance(node, Scalar)
        and kind in ("string_type", "literal_error", "enum")
    ):
        hint = f'put it in quotes: "{node.text}"'
    return SuiteError(where, what, hint)


def _unknown_key(path: Path, tree: Node, model: type[BaseModel]) -> SuiteError:
    key = str(path[-1])
    holder, _ = find(tree, path[:-1])
    where = holder.keys.get(key, holder.location) if hasattr(holder, "keys") else holder.location
    valid = list(_model_at(path[:-1], model).model_fields)
    return SuiteError(where, f"unknown key {key!r}{did_you_mean(key, valid)}", f"valid keys: {', '.join(valid)}")


def _missing(path: Path, where: Location, model: type[BaseModel]) -> SuiteError:
    key = str(path[-1])
    field = _model_at(path[:-1], model).model_fields[key]
    example = field.examples[0] if field.examples else "..."
    return SuiteError(where, f"{_owner(path[:-1])} has no {key!r}", f"add it: '{key}: {example}'")


def _owner(path: Path) -> str:
    """``scenario 'chat'``, ``this gate``, ``the suite``: whose key it is."""
    if not path:
        return "the suite"
    if len(path) == 2 and path[0] in _OWNERS:
        name = _OWNERS[str(path[0])]
        return f"this {name}" if isinstance(path[1], int) else f"{name} {path[1]!r}"
    return repr(next(str(step) for step in reversed(path) if isinstance(step, str)))


def _label(path: Path) -> str:
    """``'threads'``, or ``an entry of 'stop'``."""
    words = [step for step in path if isinstance(step, str)]
    if not words:
        return "the suite"
    if isinstance(path[-1], int):
        return f"an entry of {words[-1]!r}"
    if len(path) == 2 and path[0] in _OWNERS:
        return f"{_OWNERS[words[0]]} {words[1]!r}"
    return repr(words[-1])


def _model_at(path: Path, model: type[BaseModel]) -> type[BaseModel]:
    """The model that describes the mapping at ``path``."""
    current = model
    entry = False
    for step in path:
        if entry:  # a name or an index: the model of the container's entries is at hand already
            entry = False
            continue
        annotation = current.model_fields[str(step)].annotation
        current = _inner_model(annotation) or current
        entry = get_origin(annotation) in (dict, tuple)
    return current


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if parts := get_args(annotation):  # Python 3.10 calls dict[str, X] a type too
        return next((found for part in parts if (found := _inner_model(part))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


# --- kinds of mistake: (label, detail) → (what, what to do) ---------------------------------------

Words = Callable[[str, Mapping[str, Any]], "tuple[str, str]"]

_NAME_HINT = "use letters, digits and . _ + - (at most 60, the first a letter or digit)"


def _expects(what: str, hint: str) -> Words:
    def words(label: str, detail: Mapping[str, Any]) -> tuple[str, str]:
        if detail["input"] is None:
            return f"{label} has no value; it expects {what}", hint
        return f"{label} expects {what}, not {describe(detail['input'])}", hint

    return words


def _choice(label: str, detail: Mapping[str, Any]) -> tuple[str, str]:
    expected = str(detail["ctx"]["expected"])
    choices = re.findall(r"'([^']*)'", expected) or [expected]
    given = detail["input"]
    guess = did_you_mean(given, choices) if isinstance(given, str) else ""
    hint = f"choose one of: {', '.join(choices)}" if len(choices) > 1 else f"write {choices[0]}"
    return f"{label} cannot be {describe(given)}{guess}", hint


def _bound(key: str, words: str) -> Words:
    def bound(label: str, detail: Mapping[str, Any]) -> tuple[str, str]:
        limit = f"{detail['ctx'][key]:g}"
        return f"{label} is {detail['input']}", f"it must be {words} {limit}"

    return bound


def _too_short(label: str, _: Mapping[str, Any]) -> tuple[str, str]:
    return f"{label} is empty", "give at least one"


def _text_length(label: str, detail: Mapping[str, Any]) -> tuple[str, str]:
    length = len(detail["input"])
    if "min_length" in detail["ctx"]:
        return (
            f"{label} is too short ({length})",
            f"it takes at least {detail['ctx']['min_length']} characters",
        )
    return f"{label} is too long ({length})", f"it takes at most {detail['ctx']['max_length']} characters"


def _pattern(label: str, detail: Mapping[str, Any]) -> tuple[str, str]:
    return f"{label} cannot be {describe(detail['input'])}", _NAME_HINT


def _unforeseen(label: str, detail: Mapping[str, Any]) -> tuple[str, str]:
    return f"{label} cannot be {describe(detail['input'])}", "see the suite reference for what it takes"


_INTEGER = _expects("a whole number", "write it in digits, without quotes")
_FLOAT = _expects("a number", "write it in digits, without quotes")
_BOOLEAN = _expects("true or false", "write true or false, without quotes")
_MAPPING = _expects("a mapping", "write its keys below it, indented: 'key: value'")
_KINDS: Mapping[str, Words] = {
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_from_float": _INTEGER,
    "int_parsing_size": _INTEGER,
    "float_type": _FLOAT,
    "float_parsing": _FLOAT,
    "finite_number": _FLOAT,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "string_type": _expects("text", "put it in quotes"),
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "tuple_type": _expects("a list", "write it like [a, b], or one '- entry' a line"),
    "literal_error": _choice,
    "enum": _choice,
    "greater_than": _bound("gt", "greater than"),
    "greater_than_equal": _bound("ge", "at least"),
    "less_than": _bound("lt", "less than"),
    "less_than_equal": _bound("le", "at most"),
    "too_short": _too_short,
    "string_pattern_mismatch": _pattern,
    "string_too_short": _text_length,
    "string_too_long": _text_length,
}
