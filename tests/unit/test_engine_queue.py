"""The native engine with more requests than slots: who enters late says the same, and the slots stay taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate import samples
from pytest_specgate.engines.base import Engine, EngineContext, Queues
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.identities import trace_problems
from pytest_specgate.measure.run import Plan, measure_case
from pytest_specgate.records import Arm, Capability, Message, Request, Sampling, Trace
from pytest_specgate.stats.looks import Looks
from pytest_specgate.suite.cases import Case, expand
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

CANDIDATES: dict[str, dict[str, Any]] = {
    "draft_model": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3},
    "prompt_lookup": {"method": "prompt_lookup", "num_draft_tokens": 3},
}
COUNT = 24
PROMPTS = tuple(" ".join(tiny.WORDS[(i * 3 + j * j) % 20] for j in range(2 + i % 7)) for i in range(COUNT))
#: Words that end an answer, so that answers of a case differ in length.
STOPS = ("draft", "keeps", "w9", "w20", "round")
#: Lengths from 1 to 22 tokens: the first one's answer ends with its prompt's own forward.
BUDGETS = tuple(1 + (7 * number) % 23 for number in range(COUNT))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    return folder


@pytest.fixture(scope="module", params=CANDIDATES)
def engine(models: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    spec = EngineSpec(kind="native", target="target", dtype="float64", candidate=CANDIDATES[request.param])
    made = create(EngineContext("e", spec, models))
    made.start()
    yield made
    made.close()


def ask(number: int, sampling: Sampling) -> Request:
    return Request(f"p{number}", (Message("user", PROMPTS[number]),), BUDGETS[number], sampling, ignore_eos=True)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, top_p=0.9, seed=4)], ids=["greedy", "drawn"])
@pytest.mark.parametrize("arm", Arm)
def test_who_enters_late_says_what_it_says_alone(engine: Engine, arm: Arm, sampling: Sampling) -> None:
    assert isinstance(engine, Queues)
    assert Capability.QUEUE in engine.capabilities
    requests = [ask(number, sampling) for number in range(COUNT)]
    alone = [engine.generate([request], arm)[0].token_ids for request in requests]
    for slots in (4, 8):
        traces = engine.serve(requests, arm, slots)
        assert [trace.prompt for trace in traces] == [request.prompt for request in requests]
        assert [trace_problems(trace) for trace in traces] == [()] * COUNT
        assert [trace.token_ids for trace in traces] == alone
        assert [trace.output_tokens for trace in traces] == list(BUDGETS)


@pytest.mark.parametrize("slots", [4, 8])
@pytest.mark.parametrize("arm", Arm)
def test_no_slot_stays_empty_while_somebody_waits(engine: Engine, slots: int, arm: Arm) -> None:
    assert isinstance(engine, Queues)
    traces = engine.serve([ask(number, Sampling()) for number in range(COUNT)], arm, slots)

    last_to_enter = max(trace.submit_ns for trace in traces)
    rounds = sorted({chunk.t_ns for trace in traces for chunk in trace.chunks[1:]})
    running = {at: sum(_runs_at(trace, at) for trace in traces) for at in rounds}
    assert {running[at] for at in rounds if at < last_to_enter} == {slots}
    assert max(running.values()) == slots
    # What the traces show is what the loop counted of each request's rounds.
    for trace in traces:
        seen = [running[chunk.t_ns] for chunk in trace.chunks[1:]]
        if trace.spent is not None and len(seen) == trace.spent.rounds:
            assert (trace.spent.rows, trace.spent.slots) == (sum(seen), slots * len(seen))


def _runs_at(trace: Trace, at: int) -> bool:
    return any(chunk.t_ns == at for chunk in trace.chunks[1:])


def test_a_request_is_submitted_when_its_slot_falls_free(engine: Engine) -> None:
    assert isinstance(engine, Queues)
    traces = engine.serve([ask(number, Sampling()) for number in range(COUNT)], Arm.CANDIDATE, 4)

    assert len({trace.submit_ns for trace in traces[:4]}) == 1
    assert [trace.submit_ns for trace in traces] == sorted(trace.submit_ns for trace in traces)
    ends = sorted(trace.chunks[-1].t_ns for trace in traces)
    for place, trace in enumerate(traces[4:]):
        # So many have ended before, and the clock of what it spent starts there.
        assert sum(end <= trace.submit_ns for end in ends) >= place + 1
        found = trace.spent
        assert found is not None
        parts = (found.prefill_ns, found.draft_ns, found.verify_ns, found.sample_ns, found.host_ns)
        assert sum(parts) == trace.chunks[-1].t_ns - trace.submit_ns


def test_a_run_that_fails_names_a_few_of_its_requests_and_the_next_one_runs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(engine, Queues)
    requests = [ask(number, Sampling()) for number in range(COUNT)]
    with monkeypatch.context() as patch:
        patch.setattr("pytest_specgate.decoding.loop.Decoder._round", lambda *_: {}["burnt"])
        with pytest.raises(EngineError) as raised:
            engine.serve(requests, Arm.CANDIDATE, 4)
    assert str(raised.value).startswith("e: p0, p1, p2, p3, p4, p5, p6, p7 and 16 more: candidate arm failed ")
    assert len(engine.serve(requests, Arm.CANDIDATE, 4)) == COUNT


def a_case(folder: Path, concurrency: int) -> Case:
    """A case of all prompts whose answers end by themselves or with the budget."""
    texts = [json.dumps({"id": f"p{number}", "turns": [PROMPTS[number]]}) for number in range(COUNT)]
    (folder / "p.jsonl").write_text("\n".join(texts), encoding="utf-8")
    suite = {
        "specgate": 1,
        "engines": {"e": {"kind": "native", "target": "target"}},
        "scenarios": {
            "qa": {
                "category": "qa",
                "prompts": "p.jsonl",
                "max_tokens": 24,
                "concurrency": [concurrency],
                "stop": list(STOPS),
            },
        },
        "gates": [{"metric": "occupancy", "limit": ">=70%"}],
    }
    path = folder / "queue.specgate.yaml"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return expand(load_suite(path, folder))[0]


@pytest.mark.parametrize("concurrency", [4, 8])
def test_a_case_is_one_run_of_all_its_requests(engine: Engine, tmp_path: Path, concurrency: int) -> None:
    case = a_case(tmp_path, concurrency)
    plan = Plan(Looks((2,)), 1, None, lambda *_: ["open"], lambda _: None)

    measurement = measure_case(engine, case, plan)

    assert measurement.workload["batching"] == "continuous"
    pairs = [pair for pair in measurement.pairs if pair.round == 0]
    for pair in pairs:
        assert pair.reference.token_ids == pair.candidate.token_ids
    assert len({pair.reference.output_tokens for pair in pairs}) > 2
    found = samples.reduce(measurement)
    assert {p.series["block"] for p in found.prompts} == {(0.0, 0.0)}
    assert {p.series["exact_match"] for p in found.prompts} == {(1.0, 1.0)}
    for name, arm in (("occupancy", Arm.CANDIDATE), ("reference_occupancy", Arm.REFERENCE)):
        traces = [p.candidate if arm is Arm.CANDIDATE else p.reference for p in measurement.pairs]
        assert found.scalars[name] == pytest.approx(_counted_by_round(traces, concurrency))
        assert found.scalars[name] > 0.7, name


def _counted_by_round(traces: list[Trace], slots: int) -> float:
    rounds = {chunk.t_ns for trace in traces for chunk in trace.chunks[1:]}
    return sum(_runs_at(trace, at) for at in rounds for trace in traces) / (slots * len(rounds))
