"""What forwards cost: how engines time them, which requests stand for a case, and what a failure leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import EngineContext, ForwardTimer, Timed
from pytest_specgate.engines.registry import create
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Costs, Measurement, Message, Request, Sampling
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.model import EngineSpec
from tests import tiny
from tests.unit.project import load, write

SPEEDUP = {"metric": "speedup", "limit": ">=1x"}
METHODS: dict[str, dict[str, Any]] = {
    "draft_model": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3},
    "prompt_lookup": {"method": "prompt_lookup", "num_draft_tokens": 3},
    "early_exit": {"method": "early_exit", "exit_layer": 3, "num_draft_tokens": 3},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    return folder


@pytest.fixture(scope="module", params=[(kind, method) for kind in ("native", "transformers") for method in METHODS])
def engine(models: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, str]]:
    kind, method = request.param
    spec = EngineSpec(kind=kind, target="target", dtype="float64", candidate=METHODS[method])
    made = create(EngineContext("e", spec, models))
    made.start()
    yield made, kind, method
    made.close()


def ask(number: int = 0) -> Request:
    return Request(f"p{number}", (Message("user", " ".join(tiny.WORDS[: 4 + number])),), 24, Sampling())


# --- engines ---


def test_every_part_is_timed_by_itself(engine: tuple[Any, str, str]) -> None:
    made, _, method = engine
    assert isinstance(made, ForwardTimer)

    found = made.time_forwards([ask()], [(7, 8, 9)], [1, 4, 7], 3)

    assert found is not None
    assert set(found.target) == {1, 4, 7}
    assert (found.draft is None) == (method == "prompt_lookup")
    for column in (*found.target.values(), *(() if found.draft is None else (found.draft,))):
        assert len(column) == 3
        assert all(seconds > 0 for seconds in column)


def test_timing_leaves_the_texts_as_they_are(engine: tuple[Any, str, str]) -> None:
    made, _, _ = engine
    before = [made.generate([ask()], arm)[0].token_ids for arm in Arm]

    made.time_forwards([ask(1)], [(7, 8)], [1, 4, 7], 2)

    assert [made.generate([ask()], arm)[0].token_ids for arm in Arm] == before


def test_a_batch_is_timed_as_one_where_the_engine_runs_it_so(engine: tuple[Any, str, str]) -> None:
    made, kind, _ = engine

    found = made.time_forwards([ask(0), ask(2)], [(7,), (8, 9)], [1, 4], 2)

    assert (found is None) == (kind == "transformers")


# --- the pass ---


def taken(folder: Path, kind: str = "scripted", **options: Any) -> Measurement:
    engines = {"tiny": {"kind": kind, "options": options}}
    suite, case = load(write(folder, SPEEDUP, engines=engines))
    session = SuiteSession(suite, "tiny", Settings(folder))
    session.judge(case.gates[0], case)
    (result,) = session.results()
    return result.measurement


def told(measurement: Measurement) -> Costs:
    assert measurement.costs is not None
    return measurement.costs


def test_a_case_tells_costs_at_its_own_draft_length(tmp_path: Path) -> None:
    costs = told(taken(tmp_path, draft_cost=0.25, verify_cost=0.1, noise=0.0, k=3))

    assert [one.width for one in costs.target] == [1, 4, 7]
    assert costs.draft is not None
    assert costs.draft.seconds[0] / costs.target[0].seconds[0] == pytest.approx(0.25)
    assert costs.target[1].seconds[0] / costs.target[0].seconds[0] == pytest.approx(1.3)
    assert (costs.draft_tokens, costs.rows) == (3, 1)
    assert costs.context > 0


def test_what_is_slow_is_repeated_less(tmp_path: Path) -> None:
    fast, slow = (told(taken(tmp_path, seconds_per_token=each)) for each in (0.001, 10.0))

    assert len(fast.target[0].seconds) == 16
    assert len(slow.target[0].seconds) == 4


@pytest.mark.parametrize("fault", ["no_costs", "never_drafts", "no_rounds"])
def test_an_engine_that_tells_none_leaves_none(tmp_path: Path, fault: str) -> None:
    found = taken(tmp_path, fault=fault)

    assert found.costs is None
    assert not any("forwards cost" in warning for warning in found.warnings)


class Broken(ScriptedEngine):
    """Its forwards fail."""

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        raise EngineError("tiny", "no kernel for it", "use another device")


class Still(ScriptedEngine):
    """Its clock does not run."""

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        return Timed(dict.fromkeys(widths, (0.0,) * repeats), (math.nan,) * repeats)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Broken, "tiny: no kernel for it — use another device"),
        (
            Still,
            (
                "tiny: the times of single forwards are not one for each of those asked for, above zero"
                " — look at the clock of the engine's adapter"
            ),
        ),
    ],
)
def test_costs_that_fail_are_a_warning_and_no_error(tmp_path: Path, kind: type, said: str) -> None:
    found = taken(tmp_path, f"{kind.__module__}:{kind.__name__}")

    assert found.costs is None
    assert found.warnings[-1] == f"what forwards cost was not measured: {said}"
    assert found.pairs


def test_a_suite_can_go_without(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, SPEEDUP, measure={"costs": False}))
    session = SuiteSession(suite, "tiny", Settings(tmp_path))
    session.judge(case.gates[0], case)

    assert session.results()[0].measurement.costs is None
