"""From a suite's matrix to its engines: every combination of options, as if it were written out.

It works on the tree, so that each setting keeps the place where it is written and a mistake in an option is told
there. What a candidate's method has no use for (the draft of a model that drafts by itself) is left out: an axis of
models says for all methods what the one that needs it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Names
from dataclasses import replace
from itertools import product
from math import prod

from pydantic import ValidationError

from pytest_specgate.errors import SuiteError
from pytest_specgate.suite.explain import suite_error
from pytest_specgate.suite.extends import merge
from pytest_specgate.suite.matrix import Axis, Grid, LeftOut, MatrixSpec, matches
from pytest_specgate.suite.model import SuiteSpec
from pytest_specgate.suite.setups import Method
from pytest_specgate.suite.tree import Mapping, Node, Scalar, find, plain
from pytest_specgate.units import did_you_mean

#: More engines than this are a slip, or several suites.
MOST_ENGINES = 2000
#: Methods that take a draft, and what only they have a use for.
_DRAFTED = {Method.DRAFT_MODEL.value, Method.UNIVERSAL.value, Method.DFLASH.value, Method.SYNTHETIC.value}
_OF_DRAFTS = ("draft", "dtype")
_STEPS = ("matrix",)

Where = Names[str, tuple[str, ...]]


def with_engines(tree: Mapping) -> tuple[Mapping, Grid | None]:
    """The tree with its matrix's engines behind those that are written, and where each stands; None without a matrix.

    Raises SuiteError for a matrix that cannot be expanded.
    """
    if "matrix" not in tree.items:
        return tree, None
    spec = _read(tree)
    axes = tuple(Axis(name, tuple(options)) for name, options in spec.axes.items())
    for number, rule in enumerate(spec.rules):
        check_where(rule.where, axes, tree, (*_STEPS, "rules", number, "where"))
    _refuse_many(axes, tree)
    made, engines, left_out = dict[str, Mapping](), dict[str, tuple[str, ...]](), list[LeftOut]()
    for place in product(*(axis.options for axis in axes)):
        of_cell = [(n, rule) for n, rule in enumerate(spec.rules) if matches(axes, place, rule.where)]
        if why := next((rule.skip for _, rule in of_cell if rule.skip), None):
            left_out.append(LeftOut(place, why))
            continue
        name = "+".join(place)
        if name in made:
            where = find(tree, (*_STEPS, "axes", axes[0].name, place[0], "[key]"))[1]
            raise SuiteError(where, f"the matrix makes two engines {name!r}", "rename an option")
        made[name] = _engine(tree, axes, place, [number for number, _ in of_cell])
        engines[name] = place
    if not made:
        raise SuiteError(tree.keys["matrix"], "the matrix leaves all of its cells out", "remove a 'skip'")
    return _joined(tree, made, axes[0].name, engines), Grid(axes, engines, tuple(left_out))


def check_where(where: Where, axes: Iterable[Axis], tree: Mapping, steps: tuple[str | int, ...]) -> None:
    """Raise SuiteError for an axis or an option that the matrix has not; ``steps`` lead to ``where`` in the tree."""
    known = {axis.name: axis.options for axis in axes}
    for name, options in where.items():
        at = find(tree, (*steps, name, "[key]"))[1]
        if name not in known:
            what = f"the matrix has no axis {name!r}{did_you_mean(name, known)}"
            raise SuiteError(at, what, f"choose among: {', '.join(known)}")
        for number, option in enumerate(options):
            if option not in known[name]:
                what = f"axis {name!r} has no option {option!r}{did_you_mean(option, known[name])}"
                raise SuiteError(find(tree, (*steps, name, number))[1], what, f"choose among: {', '.join(known[name])}")


def _read(tree: Mapping) -> MatrixSpec:
    try:
        return MatrixSpec.model_validate(plain(tree.items["matrix"]))
    except ValidationError as error:
        raise suite_error(error, tree, SuiteSpec, _STEPS) from None


def _refuse_many(axes: tuple[Axis, ...], tree: Mapping) -> None:
    count = prod(len(axis.options) for axis in axes)
    if count > MOST_ENGINES:
        hint = f"give it fewer options, at most {MOST_ENGINES} engines in all"
        raise SuiteError(tree.keys["matrix"], f"the matrix makes {count} engines", hint)


def _engine(tree: Mapping, axes: tuple[Axis, ...], place: tuple[str, ...], rules: Iterable[int]) -> Mapping:
    """The settings of one cell, each with its place in the file."""
    parts = [find(tree, (*_STEPS, "axes", axis.name, option))[0] for axis, option in zip(axes, place)]
    parts += [find(tree, (*_STEPS, "rules", number, "engine"))[0] for number in rules]
    matrix = tree.items["matrix"]
    shared = matrix.items.get("engine") if isinstance(matrix, Mapping) else None
    settings = [part for part in (shared, *parts) if isinstance(part, Mapping)]
    made = Mapping({}, {}, parts[0].location)
    for part in settings:
        made = replace(merge(made, part), location=made.location)
    return _fitting(made)


def _fitting(engine: Mapping) -> Mapping:
    candidate = engine.items.get("candidate")
    if not isinstance(candidate, Mapping):
        return engine
    method = candidate.items.get("method")
    if not isinstance(method, Scalar) or method.value in _DRAFTED:
        return engine
    kept: dict[str, Node] = {key: node for key, node in candidate.items.items() if key not in _OF_DRAFTS}
    return replace(engine, items={**engine.items, "candidate": replace(candidate, items=kept)})


def _joined(tree: Mapping, made: Names[str, Mapping], first: str, places: Names[str, tuple[str, ...]]) -> Mapping:
    """The tree with these engines; each stands where the option of its first axis does."""
    written = tree.items.get("engines")
    if written is not None and not isinstance(written, Mapping):  # validation tells
        return tree
    items: dict[str, Node] = dict(written.items) if written else {}
    keys = dict(written.keys) if written else {}
    for name, engine in made.items():
        if name in items:
            raise SuiteError(keys[name], f"the matrix makes an engine {name!r} too", "rename this one")
        items[name] = engine
        keys[name] = find(tree, (*_STEPS, "axes", first, places[name][0], "[key]"))[1]
    location = written.location if written else tree.items["matrix"].location
    engines = Mapping(items, keys, location)
    where = tree.keys.get("engines", tree.keys["matrix"])
    return replace(tree, items={**tree.items, "engines": engines}, keys={**tree.keys, "engines": where})


def selected(where: Where, grid: Grid | None, tree: Mapping, steps: tuple[str | int, ...]) -> Iterator[str]:
    """The engines that a ``where`` of a gate or scenario chooses. Raises SuiteError where it chooses none."""
    at = find(tree, (*steps, "[key]"))[1]
    if grid is None:
        what = "'where' chooses among the engines of a matrix, and this suite has none"
        raise SuiteError(at, what, "name engines in 'engines'")
    check_where(where, grid.axes, tree, steps)
    names = grid.chosen(where)
    if not names:
        raise SuiteError(at, "'where' chooses no engine: all such cells are left out", "widen it")
    yield from names
