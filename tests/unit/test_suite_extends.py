"""Suites laid over their bases."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.errors import Location, SuiteError
from pytest_specgate.suite.extends import merge
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.nodes import Mapping, Node, Scalar, Sequence, find, plain, scalars

BASE = """\
specgate: 1
name: base
engines:
  tiny: {target: m, candidate: {method: prompt_lookup, num_draft_tokens: 2}}
scenarios:
  chat: {category: chat, prompts: p.jsonl, concurrency: [1, 4]}
measure: {rounds: 3, warmup: 4}
"""
CHILD = """\
extends: shared/base.yaml
engines: {tiny: {candidate: {num_draft_tokens: 8}}, other: {target: n}}
scenarios: {chat: {concurrency: [2]}}
measure: {rounds: 5}
gates: [{metric: speedup, limit: ">=1x"}]
"""


def write(root: Path, **files: str) -> None:
    (root / "shared").mkdir(exist_ok=True)
    (root / "shared" / "p.jsonl").write_text('{"id": "a", "turns": ["x"]}')
    for name, text in files.items():
        (root / "shared" / "base.yaml" if name == "base" else root / f"{name}.yaml").write_text(text)


def refusal(root: Path, name: str = "child") -> str:
    with pytest.raises(SuiteError) as caught:
        load_suite(root / f"{name}.yaml", root, {})
    return str(caught.value)


def test_mappings_merge_and_the_rest_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, child=CHILD)
    spec = load_suite(tmp_path / "child.yaml", tmp_path, {}).spec
    candidate = spec.engines["tiny"].candidate

    assert candidate is not None
    assert (candidate.method.value, candidate.num_draft_tokens) == ("prompt_lookup", 8)
    assert list(spec.engines) == ["tiny", "other"]
    assert spec.scenarios["chat"].concurrency == (2,)
    assert (spec.measure.rounds, spec.measure.warmup) == (5, 4)


def test_a_base_does_not_pass_on_its_name(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, child=CHILD)

    assert load_suite(tmp_path / "child.yaml", tmp_path, {}).name == "child"


def test_positions_remember_their_file(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, child=CHILD)
    suite = load_suite(tmp_path / "child.yaml", tmp_path, {})

    assert suite.gates[0].location == Location(Path("child.yaml"), 5, 9)
    write(tmp_path, base=BASE.replace("warmup: 4", "warmup: 0"))
    assert refusal(tmp_path) == "shared/base.yaml:7:30: 'warmup' is 0 — it must be at least 1"


def test_a_mistake_in_the_child_comes_before_one_in_the_base(tmp_path: Path) -> None:
    write(tmp_path, base=BASE.replace("warmup: 4", "warmup: 0"), child=CHILD.replace("rounds: 5", "rounds: 0"))

    assert refusal(tmp_path) == "child.yaml:4:19: 'rounds' is 0 — it must be at least 1"


def test_a_chain_of_bases_is_followed(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, child=CHILD, grandchild="extends: child.yaml\nmeasure: {rounds: 7}\n")
    spec = load_suite(tmp_path / "grandchild.yaml", tmp_path, {}).spec

    assert (spec.measure.rounds, spec.measure.warmup, len(spec.gates)) == (7, 4, 1)


def test_what_a_child_replaces_stays_replaced_for_its_own_children(tmp_path: Path) -> None:
    write(
        tmp_path,
        base=BASE,
        child=CHILD.replace("{candidate: {num_draft_tokens: 8}}", "{candidate: null}"),
        grandchild="extends: child.yaml\nengines: {tiny: {candidate: {method: mtp}}}\n",
    )
    candidate = load_suite(tmp_path / "grandchild.yaml", tmp_path, {}).spec.engines["tiny"].candidate

    assert candidate is not None
    assert candidate.num_draft_tokens == 4


def test_a_circle_is_refused(tmp_path: Path) -> None:
    write(tmp_path, base="extends: ../child.yaml\n", child=CHILD)

    assert refusal(tmp_path) == (
        "shared/base.yaml:1:10: 'extends' leads in a circle: child.yaml → base.yaml → child.yaml — remove one of them"
    )


def test_a_base_outside_the_project_is_refused_even_behind_a_link(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "base.yaml").write_text(BASE)
    (root / "linked.yaml").symlink_to(tmp_path / "base.yaml")
    (root / "child.yaml").write_text("extends: linked.yaml\n")

    assert refusal(root) == (
        "child.yaml:1:10: base 'linked.yaml' lies outside the project — "
        "move the base into the suite's folder or the project's root"
    )


def test_what_neither_has_is_missing(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, child="extends: shared/base.yaml\n")

    assert refusal(tmp_path) == (
        "child.yaml:1:1: the suite has no 'gates' — add it: 'gates: [{metric: speedup, limit: \">=1.2x\"}]'"
    )


def test_null_takes_a_value_away(tmp_path: Path) -> None:
    write(tmp_path, base=BASE, child=CHILD.replace("{candidate: {num_draft_tokens: 8}}", "{candidate: null}"))

    assert load_suite(tmp_path / "child.yaml", tmp_path, {}).spec.engines["tiny"].candidate is None


# --- properties -----------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("xyz", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def tree(value: object, where: Location) -> Node:
    if isinstance(value, dict):
        return Mapping({key: tree(item, where) for key, item in value.items()}, dict.fromkeys(value, where), where)
    if isinstance(value, list):
        return Sequence(tuple(tree(item, where) for item in value), where)
    assert value is None or isinstance(value, (bool, int, str))
    return Scalar(value, str(value), where)


def merged(base: dict[str, object], child: dict[str, object]) -> Mapping:
    below, above = tree(base, Location(Path("base"), 1, 1)), tree(child, Location(Path("child"), 1, 1))
    assert isinstance(below, Mapping)
    assert isinstance(above, Mapping)
    return merge(below, above)


@given(MAPPINGS)
def test_an_empty_side_changes_nothing(value: dict[str, object]) -> None:
    assert plain(merged({}, value)) == value
    assert plain(merged(value, {})) == value


@given(MAPPINGS)
def test_merging_with_itself_changes_nothing(value: dict[str, object]) -> None:
    assert plain(merged(value, value)) == value


@given(MAPPINGS, MAPPINGS)
def test_every_leaf_of_the_child_survives_at_its_place(base: dict[str, object], child: dict[str, object]) -> None:
    result = merged(base, child)

    for path, leaf in scalars(tree(child, Location(Path("child"), 1, 1))):
        found, where = find(result, path)
        assert isinstance(found, Scalar)
        assert found.value == leaf.value
        assert where.path == Path("child")


@given(MAPPINGS, MAPPINGS)
def test_every_leaf_comes_from_one_of_the_two(base: dict[str, object], child: dict[str, object]) -> None:
    sources = {"base": base, "child": child}

    for path, leaf in scalars(merged(base, child)):
        value: object = sources[str(leaf.location.path)]
        for step in path:
            value = value[step]  # type: ignore[index]
        assert value == leaf.value


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("../models/m", "./models/m"),
        ("./m.gguf", "./shared/m.gguf"),
        ("beside", "./shared/beside"),
        ("org/name", "org/name"),
        ("pkg://package/m.gguf", "pkg://package/m.gguf"),
        ("/srv/m", "/srv/m"),
    ],
)
def test_models_of_a_base_are_named_from_where_it_lies(tmp_path: Path, written: str, read: str) -> None:
    engine = f"{{target: {written}, candidate: {{method: draft_model, draft: {written}}}}}"
    write(tmp_path, base=BASE.replace("{target: m, candidate: {method: prompt_lookup, num_draft_tokens: 2}}", engine))
    (tmp_path / "shared" / "beside").mkdir()
    (tmp_path / "child.yaml").write_text(CHILD)

    engine_spec = load_suite(tmp_path / "child.yaml", tmp_path).spec.engines["tiny"]

    assert engine_spec.candidate is not None
    assert (engine_spec.target, engine_spec.candidate.draft) == (read, read)


def test_models_that_the_child_names_are_its_own(tmp_path: Path) -> None:
    write(tmp_path, base=BASE)
    (tmp_path / "child.yaml").write_text(CHILD.replace("{candidate: {num_draft_tokens: 8}}", "{target: ./n}"))

    assert load_suite(tmp_path / "child.yaml", tmp_path).spec.engines["tiny"].target == "./n"
