"""Several answers to one request, log-probabilities, and callers that close their stream, over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.engines.serving.accounting import ESTIMATED_CHUNKS
from pytest_specgate.engines.serving.client import Exchange
from pytest_specgate.engines.serving.counters import Seen
from pytest_specgate.engines.serving.dialects import DIALECTS
from pytest_specgate.engines.serving.traces import FULL, hear, traces
from pytest_specgate.errors import EngineError, Unsupported
from pytest_specgate.gates.honoured import Measure, broken
from pytest_specgate.identities import trace_problems
from pytest_specgate.measure.sweep import sweep_case
from pytest_specgate.records import Arm, Capability, Sampling
from pytest_specgate.samples.output import accounting_problems
from tests.serving.conftest import Pair, ask
from tests.serving.script import Script
from tests.unit.project import load, write

DRAWN = Sampling(1.0, seed=3)
FAST = Script(pattern=(1, 3, 2), k=4)
SILENT = replace(FAST, ids=False, usage="final", words=("aa", "bb", "cc", "dd", "ee", "ff", "gg"))


@pytest.mark.parametrize("script", [FAST, replace(FAST, ids=False), SILENT], ids=["ids", "growing usage", "one usage"])
def test_several_answers_are_traces_in_the_requests_place(arms: Pair, script: Script) -> None:
    engine, _, server = arms(script)
    asked = [ask("p", n=3, sampling=DRAWN), ask("q", text="Say more.")]
    traces = engine.generate(asked, Arm.CANDIDATE)

    assert [trace.prompt for trace in traces] == ["p", "p", "p", "q"]
    assert [body.get("n") for body in server.requests] == [3, None]
    assert [trace.output_tokens for trace in traces] == [13] * 4
    assert len({trace.text for trace in traces[:3]}) == 3
    for trace in traces:
        assert not [*trace_problems(trace), *accounting_problems(trace)]
    notes = [note for trace in traces[:3] if trace.told is not None for note in trace.told.notes]
    assert (ESTIMATED_CHUNKS in notes) == (script is SILENT)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("words", "tokens", "ends"),
    [
        (("a", "long word"), 8, ("length", "length")),
        (("a", "long word"), 7, ("stop", "length")),
        (("a", "long word"), 5, ("length", "stop")),
        (("", "long word", "b"), 9, ("stop", "length", "stop")),
        (("long word", "b", "b"), 12, ("stop", "stop", "length")),
    ],
)
def test_a_usage_of_all_answers_leaves_each_within_its_budget(
    words: tuple[str, ...], tokens: int, ends: tuple[str, ...], inside: bool
) -> None:
    # Two chunks of two tokens each, where a budget of four ends them: texts of other lengths are no other counts.
    said = [
        {"index": index, "delta": {"content": word}, "finish_reason": end if last else None}
        for last in (False, True)
        for index, (word, end) in enumerate(zip(words, ends))
    ]
    events: list[dict[str, object]] = [{"choices": [choice]} for choice in said] + [
        {"choices": [], "usage": {"completion_tokens": tokens}}
    ]
    if inside:  # some gateways tell it with the end of the last answer
        events[-2]["usage"] = events.pop()["usage"]
    reads = tuple((at * 10**6, f"data: {json.dumps(event)}\n\n".encode()) for at, event in enumerate(events, start=1))
    request = replace(ask("p", n=len(words), sampling=DRAWN), max_tokens=4)

    heard = hear(request, Exchange(0, reads), None)

    made = traces(heard, Arm.CANDIDATE, DIALECTS["plain"], Seen())
    assert sum(trace.output_tokens for trace in made) == tokens
    assert [problem for trace in made for problem in accounting_problems(trace)] == []


@pytest.mark.parametrize(
    ("ends", "problem"),
    [
        (15, ""),
        (14, "finished for length after 7 of 64 tokens, 14 tokens into the server's window of 15"),
        (16, "finished for length after 9 of 64 tokens, 16 tokens into the server's window of 15"),
        (30, ""),  # the text is over before
    ],
)
@pytest.mark.parametrize("arm", list(Arm))
def test_an_end_for_length_before_the_budget_is_right_where_the_declared_window_is_full(
    arms: Pair, arm: Arm, ends: int, problem: str
) -> None:
    engine, *servers = arms(Script(pattern=(1, 3, 2), ends=ends), Script(ends=ends), start=False, dialect="llamacpp")
    for server in servers:
        props = {"default_generation_settings": {"n_ctx": 15}, "total_slots": 1}
        server.pages["/props"] = (200, "application/json", json.dumps(props))
    engine.start()

    (found,) = engine.generate([ask()], arm)

    assert accounting_problems(found) == ((problem,) if problem else ())
    assert found.told is not None
    assert (FULL in found.told.notes) == (ends == 15)
    assert (found.told.window is None) == (ends == 30)


def test_an_end_for_length_before_the_budget_is_wrong_where_no_window_is_declared(arms: Pair) -> None:
    engine, _, _ = arms(Script(ends=15), dialect="llamacpp")

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert accounting_problems(found) == ("finished for length after 8 of 64 tokens",)


def test_a_usage_that_cannot_be_of_answers_that_all_met_their_budget_is_a_problem() -> None:
    choices = [{"index": index, "delta": {"content": "a"}, "finish_reason": "length"} for index in (0, 1)]
    event = {"choices": choices, "usage": {"completion_tokens": 6}}
    reads = ((1, f"data: {json.dumps(event)}\n\n".encode()),)
    heard = hear(replace(ask("p", n=2, sampling=DRAWN), max_tokens=4), Exchange(0, reads), None)

    made = traces(heard, Arm.CANDIDATE, DIALECTS["plain"], Seen())
    assert any(accounting_problems(trace) for trace in made)


@pytest.mark.parametrize("words", [("a", "b c"), ("a b c", "d")])
def test_a_usage_in_the_only_chunk_of_the_last_answer_is_of_all(words: tuple[str, str]) -> None:
    events: list[dict[str, object]] = [
        {"choices": [{"index": index, "delta": {"content": word}, "finish_reason": "stop"}]}
        for index, word in enumerate(words)
    ]
    events[-1]["usage"] = {"completion_tokens": 6}
    reads = tuple((at * 10**6, f"data: {json.dumps(event)}\n\n".encode()) for at, event in enumerate(events, start=1))

    heard = hear(replace(ask("p", n=2, sampling=DRAWN), max_tokens=4), Exchange(0, reads), None)

    made = traces(heard, Arm.CANDIDATE, DIALECTS["plain"], Seen())
    assert sum(trace.output_tokens for trace in made) == 6
    assert [problem for trace in made for problem in accounting_problems(trace)] == []


def test_fewer_answers_than_asked_for_are_a_failure(arms: Pair) -> None:
    engine, _, _ = arms(replace(FAST, several=False))
    with pytest.raises(EngineError) as raised:
        engine.generate([ask("p", n=2)], Arm.CANDIDATE)
    assert "gives fewer answers than the 2 that were asked for — look at what it does with 'n'" in str(raised.value)


@pytest.mark.parametrize(("endpoint", "asked"), [("chat", True), ("completions", 1)])
def test_log_probabilities_come_with_their_tokens(arms: Pair, endpoint: str, asked: object) -> None:
    engine, _, server = arms(FAST, endpoint=endpoint)
    told, untold = engine.generate([ask("p", logprobs=True), ask("q", text="Say more.")], Arm.CANDIDATE)

    assert [body.get("logprobs") for body in server.requests] == [asked, None]
    assert told.logprobs == tuple(-0.25 * (1 + token % 5) for token in told.token_ids)
    assert untold.logprobs is None
    assert not trace_problems(told)


@pytest.mark.parametrize("script", [FAST, replace(FAST, ids=False), SILENT], ids=["ids", "growing usage", "one usage"])
def test_a_caller_that_leaves_closes_its_stream_and_the_others_go_on(arms: Pair, script: Script) -> None:
    engine, _, _ = arms(replace(script, gap=0.01, empty=2))
    leaving, staying = engine.generate([ask("p", cancel_after=3), ask("q")], Arm.CANDIDATE)
    (after,) = engine.generate([ask("p")], Arm.CANDIDATE)

    assert (leaving.finish, staying.finish, after.finish) == ("cancelled", "eos", "eos")
    assert 3 <= leaving.output_tokens < 13
    assert leaving.text
    assert after.text.startswith(leaving.text)
    for trace in (leaving, staying, after):
        assert not [*trace_problems(trace), *accounting_problems(trace)]


def test_what_a_server_does_not_offer_is_refused_by_name(arms: Pair) -> None:
    engine, _, server = arms(FAST, dialect="tgi")
    with pytest.raises(Unsupported) as raised:
        engine.generate([ask("p", n=2)], Arm.CANDIDATE)
    said = "takes no 'n': TGI offers none — remove 'n', or name the server's software with 'dialect'"
    assert said in str(raised.value)
    assert server.requests == []


def test_a_sweep_asks_servers_for_all_of_it(arms: Pair, tmp_path: Path) -> None:
    plain = replace(FAST, pattern=(1,), k=0, tokens=40)
    engine, _, _ = arms(replace(FAST, tokens=40), plain)
    # By messages, and without a scorer: what this server thinks of texts is another story.
    engine.capabilities = engine.capabilities - {Capability.TOKENS, Capability.LOGITS}
    suite, case = load(write(tmp_path, {"metric": "request_honouring", "limit": "==100%"}))
    del suite
    sweep = sweep_case(engine, case, lambda _: None).sweep
    assert sweep is not None
    asked = {probe.name for probe in sweep.probes}
    assert {"choices/drawn/3", "logprobs/greedy", "cancel/early", "cancel/last"} <= asked
    # This server draws nothing and knows no penalties, and is told so; these it does right.
    kinds = ("choices", "logprobs", "cancel")
    assert [one for one in broken(sweep, Measure(None, True)) if one.probe.startswith(kinds)] == []
