"""YAML text as a tree that remembers where each key and value is written, for a strict part of YAML 1.1.

What is accepted: one document, a mapping at its top, string keys that are unique, plain scalars, sequences,
anchors, aliases and merge keys (``<<``). What PyYAML would take silently is refused with its position:
duplicate keys, keys that are numbers or booleans, tags of other types, octal and sexagesimal numbers,
aliases that blow up. Dates stay strings. No object is ever constructed from a tag. The tree knows nothing
about suites.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from pytest_specgate.errors import Location, SuiteError
from pytest_specgate.suite.syntax import syntax_error
from pytest_specgate.suite.tree import (
    Mapping,
    Node,
    Plain,
    Scalar,
    Sequence,
    describe,
    find,
    kind_of,
    plain,
    scalars,
)

# The tree's names, for those who read a file to get one.
__all__ = [
    "Mapping",
    "Node",
    "Plain",
    "Scalar",
    "Sequence",
    "describe",
    "find",
    "kind_of",
    "plain",
    "read_mapping",
    "scalars",
]

MAX_BYTES = 2**20
MAX_NODES = 50_000
MAX_DEPTH = 40

# libyaml keeps the marks and is many times faster; PyYAML without it still works.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value")}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TRUE = frozenset({"yes", "true", "on"})


def read_mapping(path: Path, shown: Path) -> Mapping:
    """The file's only document, a mapping; positions name ``shown`` (the path as a user wants to read it).

    Raises SuiteError where the file cannot be read or goes beyond the accepted part of YAML.
    """
    text = _read_text(path, shown)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        raise syntax_error(error, text, shown) from error
    finally:
        loader.dispose()
    if root is None:
        raise SuiteError(Location(shown), "the file is empty", "write a suite: specgate: 1, engines, scenarios, gates")
    node = _Builder(shown).build(root)
    if not isinstance(node, Mapping):
        raise SuiteError(node.location, f"a suite is a mapping, not {kind_of(node)}", "begin with a line 'specgate: 1'")
    return node


def _read_text(path: Path, shown: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SuiteError(
            Location(shown), f"cannot be read: {error.strerror}", "check the path and its permissions"
        ) from error
    if len(raw) > MAX_BYTES:
        raise SuiteError(
            Location(shown),
            "the file is larger than 1 MiB",
            "split the suite, and keep prompts in files of their own",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = _position(raw[: error.start].decode("utf-8"), shown)
        raise SuiteError(where, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8") from error
    text = text.removeprefix("\ufeff")
    if bad := _UNPRINTABLE.search(text):
        where = _position(text[: bad.start()], shown)
        raise SuiteError(where, f"control character U+{ord(bad[0]):04X}", "remove it; the file must be text")
    return text


def _position(before: str, shown: Path) -> Location:
    return Location(shown, before.count("\n") + 1, len(before) - before.rfind("\n"))


class _Builder:
    """Turns PyYAML's nodes into ours, aliases expanded, and counts them."""

    def __init__(self, shown: Path) -> None:
        self._shown = shown
        self._count = 0
        self._depth = 0

    def build(self, node: yaml.Node) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise SuiteError(
                self._at(node),
                f"more than {MAX_NODES} values",
                "repeat less with aliases, or split the suite",
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SuiteError(
                self._at(node),
                f"nested deeper than {MAX_DEPTH} levels",
                "flatten it; an alias may contain itself",
            )
        built = self._collection(node)
        self._depth -= 1
        return built

    def _at(self, node: yaml.Node) -> Location:
        return Location(self._shown, node.start_mark.line + 1, node.start_mark.column + 1)

    def _collection(self, node: yaml.Node) -> Node:
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return Sequence(tuple([self.build(item) for item in node.value]), self._at(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node)
        raise self._unknown_tag(node)

    def _unknown_tag(self, node: yaml.Node) -> SuiteError:
        tag = str(node.tag)
        name = "!!" + tag[len(_TAG) :] if tag.startswith(_TAG) else tag
        return SuiteError(self._at(node), f"unknown tag {name!r}", "remove it; suites hold plain YAML values")

    def _mapping(self, node: yaml.MappingNode) -> Mapping:
        items: dict[str, Node] = {}
        keys: dict[str, Location] = {}
        merged: list[Mapping] = []
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged.extend(self._merge_sources(value_node))
                continue
            key = self._key(key_node)
            where = self._at(key_node)
            if key in keys:
                raise SuiteError(
                    where, f"duplicate key {key!r} (first at line {keys[key].line})", "keep one of the two"
                )
            items[key] = self.build(value_node)
            keys[key] = where
        for source in merged:
            for key, value in source.items.items():
                if key not in items:
                    items[key], keys[key] = value, source.keys[key]
        return Mapping(items, keys, self._at(node))

    def _merge_sources(self, node: yaml.Node) -> list[Mapping]:
        built = self.build(node)
        sources = built.items if isinstance(built, Sequence) else (built,)
        for source in sources:
            if not isinstance(source, Mapping):
                raise SuiteError(
                    source.location,
                    f"'<<' merges mappings, not {kind_of(source)}",
                    "name an anchor of a mapping: '<<: *name'",
                )
        return [source for source in sources if isinstance(source, Mapping)]

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise SuiteError(self._at(node), "a key must be a word, not a list or mapping", "write 'key: value'")
        if node.tag not in (_TAG + "str", _TAG + "timestamp", _TAG + "value"):
            read_as = {"int": "a number", "float": "a number", "bool": "a boolean", "null": "nothing"}
            what = read_as.get(node.tag.removeprefix(_TAG))
            if what is None:
                raise self._unknown_tag(node)
            raise SuiteError(
                self._at(node),
                f"YAML reads the key {node.value!r} as {what}",
                f'put it in quotes: "{node.value}"',
            )
        if node.value != node.value.strip() or not node.value:
            raise SuiteError(
                self._at(node), f"key {node.value!r} is empty or has spaces around it", "remove the spaces"
            )
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode) -> Scalar:
        if node.tag not in _SCALAR_TAGS:
            raise self._unknown_tag(node)
        return Scalar(self._value(node), node.value, self._at(node))

    def _value(self, node: yaml.ScalarNode) -> Plain:
        text: str = node.value
        kind = node.tag[len(_TAG) :]
        if kind == "bool":
            return text.lower() in _TRUE
        if kind == "null":
            return None
        if kind == "int":
            return int(self._decimal(node, _DECIMAL))
        if kind == "float":
            return float(self._decimal(node, _FLOAT))
        # YAML 1.1 takes 1e3 for a word because it has no dot; everybody else takes it for a number.
        if not node.style and text[:1] in "+-.0123456789" and _FLOAT.fullmatch(text):
            return float(text)
        return text

    def _decimal(self, node: yaml.ScalarNode, pattern: re.Pattern[str]) -> str:
        text: str = node.value
        if text.lower().lstrip("+-") in (".inf", ".nan"):
            raise SuiteError(self._at(node), f"{text!r} is no finite number", "write it in decimal digits")
        if len(text) > 40 or not pattern.fullmatch(text):
            raise SuiteError(
                self._at(node),
                f"{text[:40]!r} is a number in a notation that YAML versions read differently",
                "write it in decimal digits, or in quotes where it is text",
            )
        return text
