"""``extends: base.yaml``: a suite's keys laid over those of another file.

Mappings merge key by key; lists and single values of the child replace the base's. Every node keeps the
file it was written in. Two keys stay with the file that holds them: ``extends`` itself, and ``name``, for
two children that shared their base's name would share its stored baselines too. A base may be incomplete
and may extend another.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_specgate.errors import SuiteError
from pytest_specgate.suite.nodes import Mapping, Node, Scalar, kind_of, read_mapping

_OWN_KEYS = ("extends", "name")


def read_with_bases(path: Path, folders: tuple[Path, ...], show: Callable[[Path], Path]) -> Mapping:
    """The file at ``path`` (resolved) over its bases, each of which must lie in one of ``folders``.

    Raises SuiteError at the ``extends`` that leads in a circle, out of the folders, or to no file.
    """
    chain = [path]
    trees = [read_mapping(path, show(path))]
    while "extends" in trees[-1].items:
        chain.append(_base_path(trees[-1].items["extends"], chain, folders, show))
        trees.append(read_mapping(chain[-1], show(chain[-1])))
    # From the bottom up: what a child replaces must not shine through its own children.
    result = trees.pop()
    while trees:
        result = merge(_without(result, _OWN_KEYS), trees.pop())
    return result


def merge(base: Mapping, child: Mapping) -> Mapping:
    """``child`` over ``base``, deeply; the keys of the base come first, in its order."""
    items: dict[str, Node] = dict(base.items)
    for key, value in child.items.items():
        below = items.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        items[key] = merge(below, value) if both else value  # type: ignore[arg-type]
    return Mapping(items, {**base.keys, **child.keys}, child.location)


def inside(path: Path, folders: tuple[Path, ...]) -> bool:
    """Whether a resolved path lies in one of the resolved folders."""
    return any(path.is_relative_to(folder) for folder in folders)


def _without(tree: Mapping, keys: tuple[str, ...]) -> Mapping:
    items = {key: value for key, value in tree.items.items() if key not in keys}
    return Mapping(items, {key: tree.keys[key] for key in items}, tree.location)


def _base_path(node: Node, chain: list[Path], folders: tuple[Path, ...], show: Callable[[Path], Path]) -> Path:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        raise SuiteError(
            node.location,
            f"'extends' names a file, not {kind_of(node)}",
            "write it like 'extends: base.yaml'",
        )
    try:
        path = (chain[-1].parent / node.value).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SuiteError(node.location, f"{node.value!r} is no usable path: {error}", "name a suite file") from error
    if not inside(path, folders):
        hint = "move the base into the suite's folder or the project's root"
        raise SuiteError(node.location, f"base {node.value!r} lies outside the project", hint)
    if path in chain:
        circle = " → ".join(file.name for file in (*chain[chain.index(path) :], path))
        raise SuiteError(node.location, f"'extends' leads in a circle: {circle}", "remove one of them")
    if not path.is_file():
        raise SuiteError(
            node.location, f"base {node.value!r} does not exist", f"create {show(path)} or correct the name"
        )
    return path
