"""The tree that a YAML file becomes: plain values, each with the place where it is written.

It knows nothing about YAML's notation nor about suites; :mod:`pytest_specgate.suite.nodes` builds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_specgate.errors import Location

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf: its value, and the text as it is written (``yes`` for True)."""

    value: Plain
    text: str
    location: Location


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of nodes."""

    items: tuple[Node, ...]
    location: Location


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping with string keys in file order; ``keys`` says where each key is written."""

    items: dict[str, Node]
    keys: dict[str, Location]
    location: Location


Node = Scalar | Sequence | Mapping


def plain(node: Node) -> object:
    """The tree as dicts, lists and scalars, without positions."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.items.items()}


def find(node: Node, path: tuple[str | int, ...]) -> tuple[Node, Location]:
    """The deepest node on the way along ``path``, and its position (its key's for a trailing ``"[key]"``)."""
    where = node.location
    for step in path:
        if isinstance(node, Mapping) and step in node.items:
            where = node.keys[str(step)]
            node = node.items[str(step)]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            where = node.location
        elif step == "[key]":
            return node, where
        else:
            break
    return node, node.location


def scalars(node: Node, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Scalar]]:
    """Every leaf with its path."""
    if isinstance(node, Scalar):
        yield path, node
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from scalars(item, (*path, index))
    else:
        for key, value in node.items.items():
            yield from scalars(value, (*path, key))


def kind_of(node: Node) -> str:
    """What a user would call the node: ``a list``, ``a mapping``, ``the number 5``."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    return describe(node.value)


def describe(value: object) -> str:
    """What a user would call a plain value: ``nothing``, ``the number 5``, ``'four'``."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"
