"""Model paths of a base suite are named from where the base lies, as its prompt files are.

A suite in another folder may then extend it unchanged. Hub ids and ``pkg://`` references are no paths and stay.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pytest_specgate.suite.tree import Mapping, Node, Scalar

_PLACES = (("target",), ("candidate", "draft"), ("scorer", "target"), ("scorer", "candidate", "draft"))


def from_suite(tree: Mapping, folder: Path, root: Path) -> Mapping:
    """The tree with the model paths of its bases named from ``folder``, in which the suite lies."""
    engines = tree.items.get("engines")
    if not isinstance(engines, Mapping):  # validation tells
        return tree
    moved: dict[str, Node] = {}
    for name, engine in engines.items.items():
        moved[name] = engine
        for place in _PLACES:
            moved[name] = _at(moved[name], place, folder, root)
    return replace(tree, items={**tree.items, "engines": replace(engines, items=moved)})


def _at(node: Node, place: tuple[str, ...], folder: Path, root: Path) -> Node:
    """The node with the value at ``place`` below it renamed, if there is one."""
    if not place:
        return _renamed(node, folder, root) if isinstance(node, Scalar) else node
    if not isinstance(node, Mapping) or place[0] not in node.items:
        return node
    below = _at(node.items[place[0]], place[1:], folder, root)
    return replace(node, items={**node.items, place[0]: below})


def _renamed(node: Scalar, folder: Path, root: Path) -> Scalar:
    written_in = (root / node.location.path).parent
    if written_in == folder or not isinstance(node.value, str) or not _is_path(node.value, written_in):
        return node
    relative = Path(os.path.relpath(written_in / node.value, folder)).as_posix()
    return replace(node, value=relative if relative.startswith("..") else f"./{relative}")


def _is_path(reference: str, written_in: Path) -> bool:
    """Whether a reference is relative to a folder: by its dots, or because something is there."""
    if "://" in reference or reference.startswith(("/", "~")):
        return False
    if reference.startswith(("./", "../")):
        return True
    try:
        return (written_in / reference).exists()
    except (OSError, ValueError):  # no usable path: told where the model is looked for
        return False
