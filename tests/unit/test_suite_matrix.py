"""Matrices of engines: which engines come of one, what is left out, and every mistake with its place."""

# ruff: noqa: ISC004, E501 -- messages stand as a user reads them
from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.codec import decode, encode
from pytest_specgate.errors import LocatedError
from pytest_specgate.suite.cases import Suite, expand
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.matrix import Grid, LeftOut
from pytest_specgate.suite.model import Candidate

GOOD = """\
specgate: 1
matrix:
  engine: {threads: 1, candidate: {num_draft_tokens: 3}}
  axes:
    model:
      small: {target: some/small, candidate: {draft: some/draft, dtype: float32}}
      large: {target: some/large, candidate: {draft: some/draft}}
    method:
      draft: {candidate: {method: draft_model}}
      lookup: {candidate: {method: prompt_lookup, max_ngram: 2}}
  rules:
    - {where: {model: large, method: [draft, lookup]}, engine: {dtype: bfloat16}}
    - {where: {model: large, method: lookup}, skip: nobody asked for it}
scenarios:
  chat: {category: chat, prompts: p.jsonl}
gates:
  - {metric: speedup, limit: ">=1.2x"}
"""


def load(folder: Path, text: str, **environ: str) -> Suite:
    folder.joinpath("p.jsonl").write_text('{"id": "one", "turns": ["Say one."]}\n')
    suite = folder / "s.yaml"
    suite.write_text(text)
    return load_suite(suite, folder, environ)


def test_every_combination_is_an_engine(tmp_path: Path) -> None:
    suite = load(tmp_path, GOOD)

    assert [case.engine for case in expand(suite)] == ["small+draft", "small+lookup", "large+draft"]
    engines = suite.spec.engines
    assert {name: one.target for name, one in engines.items()} == {
        "small+draft": "some/small",
        "small+lookup": "some/small",
        "large+draft": "some/large",
    }
    assert {one.threads for one in engines.values()} == {1}
    assert [one.dtype for one in engines.values()] == ["auto", "auto", "bfloat16"]
    candidates = [one.candidate for one in engines.values() if one.candidate]
    assert [(c.method.value, c.draft, c.dtype, c.num_draft_tokens, c.max_ngram) for c in candidates] == [
        ("draft_model", "some/draft", "float32", 3, 3),
        ("prompt_lookup", None, None, 3, 2),
        ("draft_model", "some/draft", None, 3, 3),
    ]


def test_the_grid_says_where_each_engine_stands(tmp_path: Path) -> None:
    grid = load(tmp_path, GOOD).grid

    assert grid is not None
    assert [(axis.name, axis.options) for axis in grid.axes] == [
        ("model", ("small", "large")),
        ("method", ("draft", "lookup")),
    ]
    assert grid.engines["small+lookup"] == ("small", "lookup")
    assert grid.left_out == (LeftOut(("large", "lookup"), "nobody asked for it"),)
    assert decode(Grid, encode(grid)) == grid  # as workers of a distributed run send it
    assert grid.chosen({"method": ("draft",)}) == ("small+draft", "large+draft")


def test_written_engines_stand_beside_it(tmp_path: Path) -> None:
    suite = load(tmp_path, GOOD.replace("scenarios:", "engines: {mine: {kind: scripted}}\nscenarios:"))

    assert list(suite.spec.engines) == ["mine", "small+draft", "small+lookup", "large+draft"]


def test_gates_and_scenarios_choose_by_options(tmp_path: Path) -> None:
    text = GOOD.replace("prompts: p.jsonl}", "prompts: p.jsonl, where: {model: [small]}}")
    text += '  - {metric: ttft, limit: "<=1 s", where: {method: lookup, model: small}}\n'
    suite = load(tmp_path, text)

    assert [(case.engine, [gate.spec.metric for gate in case.gates]) for case in expand(suite)] == [
        ("small+draft", ["speedup"]),
        ("small+lookup", ["speedup", "ttft"]),
    ]


def test_a_child_adds_options_to_its_base(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(GOOD)
    child = "extends: base.yaml\nmatrix: {axes: {model: {tiny: {target: a/b, candidate: {draft: c/d}}}}}\n"

    assert list(load(tmp_path, child).spec.engines)[-2:] == ["tiny+draft", "tiny+lookup"]


def test_the_environment_and_paths_are_filled_in(tmp_path: Path) -> None:
    base = tmp_path / "elsewhere"
    base.mkdir()
    (base / "p.jsonl").write_text('{"id": "one", "turns": ["Say one."]}\n')
    (base / "base.yaml").write_text(GOOD.replace("some/small", "./small").replace("some/large", '"${env:LARGE}"'))
    engines = load(tmp_path, "extends: elsewhere/base.yaml\n", LARGE="org/large").spec.engines

    assert (engines["small+draft"].target, engines["large+draft"].target) == ("./elsewhere/small", "org/large")


NAMES = "use letters, digits and . _ + - (at most 60, the first a letter or digit)"
MISTAKES = {
    "option": ("max_ngram: 2", "max_ngrams: 2", "10:51: unknown key 'max_ngrams'; did you mean 'max_ngram'? — valid keys: "
        f"{', '.join(Candidate.model_fields)}"),
    "value": ("threads: 1", "threads: 0", "3:21: 'threads' is 0 — it must be at least 1"),
    "what is missing": ("small: {target: some/small, candidate: {draft: some/draft, dtype: float32}}", "small: {target: some/small}",
        "9:26: method draft_model needs a draft model — add 'draft: PATH or Hub id'"),
    "key of the matrix": ("rules:", "rule:", "11:3: unknown key 'rule'; did you mean 'rules'? — valid keys: engine, axes, rules"),
    "key of a rule": ("skip:", "skipp:", "13:47: unknown key 'skipp'; did you mean 'skip'? — valid keys: where, engine, skip"),
    "rule without a part": (", engine: {dtype: bfloat16}", "",
        "12:7: a rule says one thing of its cells — give 'engine: {...}' or 'skip: why'"),
    "rule without a place": ("where: {model: large, method: lookup}, ", "", "13:7: 'rules' has no 'where' — add it: 'where: {AXIS: OPTION}'"),
    "axis of a rule": ("where: {model: large, method: lookup}", "where: {modle: large}",
        "13:16: the matrix has no axis 'modle'; did you mean 'model'? — choose among: model, method"),
    "option of a rule": ("[draft, lookup]}", "[draft, lokup]}",
        "12:46: axis 'method' has no option 'lokup'; did you mean 'lookup'? — choose among: draft, lookup"),
    "no options": ("method:\n      draft: {candidate: {method: draft_model}}\n      lookup: {candidate: {method: prompt_lookup, max_ngram: 2}}",
        "method: {}", "8:13: 'method' is empty — give at least one"),
    "option that is no mapping": ("draft: {candidate: {method: draft_model}}", "draft: draft_model",
        "9:14: 'draft' expects a mapping, not 'draft_model' — write its keys below it, indented: 'key: value'"),
    "name": ("small: {", "sm all: {", f"6:7: name 'sm all' is not usable in a test id — {NAMES}"),
    "everything left out": ("skip: nobody asked for it}", "skip: nobody asked for it}\n    - {where: {method: [draft, lookup]}, skip: not now}",
        "2:1: the matrix leaves all of its cells out — remove a 'skip'"),
    "written too": ("scenarios:", "engines: {small+draft: {kind: scripted}}\nscenarios:",
        "14:11: the matrix makes an engine 'small+draft' too — rename this one"),
    "selector": ("limit: \">=1.2x\"", "limit: \">=1.2x\", where: {methods: draft}",
        "17:48: the matrix has no axis 'methods'; did you mean 'method'? — choose among: model, method"),
    "selector of nothing": ("limit: \">=1.2x\"", "limit: \">=1.2x\", where: {model: large, method: lookup}",
        "17:40: 'where' chooses no engine: all such cells are left out — widen it"),
    "two selectors": ("prompts: p.jsonl", "prompts: p.jsonl, engines: [small+draft], where: {model: small}",
        "15:68: 'engines' and 'where' both choose engines — keep one of the two"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_told_where_it_is_written(tmp_path: Path, what: str) -> None:
    right, wrong, said = MISTAKES[what]
    assert right in GOOD
    with pytest.raises(LocatedError) as caught:
        expand(load(tmp_path, GOOD.replace(right, wrong)))
    assert str(caught.value) == f"s.yaml:{said}"


def test_two_engines_of_one_name_are_refused(tmp_path: Path) -> None:
    axes = "{a: {x: {}, x+y: {}}, b: {z: {}, y+z: {}}}"
    with pytest.raises(LocatedError) as caught:
        load(tmp_path, f"specgate: 1\nmatrix:\n  axes: {axes}\n{GOOD[GOOD.index('scenarios:') :]}")
    assert str(caught.value) == "s.yaml:3:21: the matrix makes two engines 'x+y+z' — rename an option"


def test_a_matrix_beyond_measure_is_refused(tmp_path: Path) -> None:
    options = ", ".join(f"o{n}: {{}}" for n in range(13))
    axes = ", ".join(f"a{n}: {{{options}}}" for n in range(3))
    with pytest.raises(LocatedError) as caught:
        load(tmp_path, f"specgate: 1\nmatrix: {{axes: {{{axes}}}}}\n{GOOD[GOOD.index('scenarios:') :]}")
    assert str(caught.value) == (
        "s.yaml:2:1: the matrix makes 2197 engines — give it fewer options, at most 2000 engines in all"
    )


def test_options_are_chosen_of_a_matrix_alone(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("matrix:")] + "engines: {e: {kind: scripted}}\n" + GOOD[GOOD.index("scenarios:") :]
    with pytest.raises(LocatedError) as caught:
        load(tmp_path, text.replace('>=1.2x"', '>=1.2x", where: {a: b}'))
    assert str(caught.value) == (
        "s.yaml:6:40: 'where' chooses among the engines of a matrix, and this suite has none — "
        "name engines in 'engines'"
    )
