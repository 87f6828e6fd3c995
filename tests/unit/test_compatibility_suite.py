"""The compatibility suite: complete, strict about every cell, and right about some of them, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.cases import Case, Suite, expand
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.model import Tier

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "suites" / "compatibility.specgate.yaml"
MODELS = {
    *("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3", "phi", "gpt-neox", "gpt2", "olmo", "mixtral"),
    *("mamba", "lfm2"),
}
RECURRENT = "MambaForCausalLM has a recurrent state, whose cache cannot be rolled back"


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite(SUITE, ROOT, {})


@pytest.fixture(scope="module")
def cases(suite: Suite) -> dict[str, Case]:
    return {case.engine: case for case in expand(suite)}


def test_every_combination_stands_in_it(suite: Suite, cases: dict[str, Case]) -> None:
    assert suite.grid is not None
    axes = {axis.name: set(axis.options) for axis in suite.grid.axes}
    assert axes == {
        "model": MODELS,
        "kind": {"native", "transformers"},
        "numbers": {"float32", "bfloat16", "float16", "int8", "int4"},
        "method": {"draft", "lookup", "exit", "both"},
    }
    assert suite.grid.left_out == ()
    assert len(cases) == len(expand(suite)) == 13 * 2 * 5 * 4


def test_the_default_tier_leaves_it_alone(suite: Suite) -> None:
    assert suite.spec.tier is Tier.FULL


def test_no_cell_is_green_without_tokens_compared(cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        gates = {gate.spec.metric for gate in case.gates}
        assert gates >= {"greedy_exactness", "token_accounting"}, name
        assert ("exact_match" in gates) == ("+float32+" in name), name
        assert case.sampling.greedy
        assert case.concurrency == (4 if "+native+" in name else 1), name


def test_nothing_is_judged_by_the_clock(cases: dict[str, Case]) -> None:
    metrics = {gate.spec.metric for case in cases.values() for gate in case.gates}
    assert metrics == {"greedy_exactness", "exact_match", "token_accounting", "conditional_acceptance"}


def judged(suite: Suite, case: Case, folder: Path) -> tuple[list[Verdict], Measurement | None]:
    session = SuiteSession(suite, case.engine, Settings(folder / "none"))
    verdicts = [session.judge(gate, case) for gate in case.gates]
    measured = [result.measurement for result in session.results()]
    session.close()
    return verdicts, measured[0] if measured else None


@pytest.mark.parametrize("engine", ["gemma3+native+float32+both", "mixtral+transformers+float32+draft"])
def test_a_cell_that_works(
    suite: Suite, cases: dict[str, Case], engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path))
    verdicts, taken = judged(suite, cases[engine], tmp_path)
    assert {verdict.outcome for verdict in verdicts} == {Outcome.PASS}
    assert taken is not None
    kept = {one.accepted for pair in taken.pairs for one in pair.candidate.rounds or ()}
    assert len(kept) > 1
    assert all(pair.reference.token_ids == pair.candidate.token_ids for pair in taken.pairs)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("mamba+native+float32+draft", RECURRENT),
        ("mamba+transformers+float16+lookup", RECURRENT),
        ("gpt2+transformers+bfloat16+exit", "GPT2LMHeadModel runs all its layers, so none can be left early"),
        ("gpt-neox+native+float32+exit", "GPTNeoXForCausalLM runs all its layers, so none can be left early"),
        ("phi+transformers+float32+both", "transformers drafts in one way at a time, and knows no lookup_first"),
    ],
)
def test_a_cell_that_refuses(suite: Suite, cases: dict[str, Case], engine: str, said: str, tmp_path: Path) -> None:
    verdicts, taken = judged(suite, cases[engine], tmp_path)
    assert [(verdict.outcome, verdict.refused) for verdict in verdicts] == [(Outcome.PASS, said)] * len(verdicts)
    assert taken is None
