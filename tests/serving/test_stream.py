"""Bytes → events → deltas: what the network cuts, what servers put between, and what is no answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.engines.serving.sse import Event
from pytest_specgate.engines.serving.stream import BadStream, Delta, quoted, read
from tests.serving.answers import DONE, MS, answered, chunk, from_bytes, role, usage

RAW = (
    ': ping\r\n\r\nevent: x\nid: 7\ndata: {"a": "Grüße 数据 🎯"}\n\n:\n\ndata: one\ndata: two\n\ndata:[DONE]\n\n'
).encode()
SAID = ['{"a": "Grüße 数据 🎯"}', "one\ntwo", "[DONE]"]


@given(st.lists(st.integers(1, 9), max_size=40))
def test_events_are_the_same_wherever_the_network_cuts(reads: list[int]) -> None:
    assert [event.data for event in from_bytes(RAW, reads)] == SAID


def test_an_event_is_as_old_as_the_read_that_completed_it() -> None:
    first = RAW.index(b"\n\n:\n\ndata: one")

    found = from_bytes(RAW, [first, 1, 1])

    assert [event.t_ns // MS for event in found] == [2, 3, 3]


@pytest.mark.parametrize("end", [b"\n\n", b"\n"])
def test_a_last_event_may_lack_its_blank_line(end: bytes) -> None:
    assert [event.data for event in from_bytes(b"data: a\n\ndata: b" + end, [])] == ["a", "b"]


def test_an_event_that_was_cut_off_is_no_event() -> None:
    assert [event.data for event in from_bytes(b'data: a\n\ndata: {"choi', [])] == ["a"]


def test_deltas_carry_text_reasoning_tools_and_ids() -> None:
    call = {"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": '{"a"'}}]}
    found = answered(
        role(0),
        chunk(1, delta={"reasoning_content": "hm"}, token_ids=[5, 6]),
        chunk(2, delta={"reasoning": "so"}),
        chunk(3, "yes", token_ids=[7]),
        chunk(4, delta=call, finish="tool_calls"),
        usage(5, 9),
    )

    assert found.deltas == (
        Delta(0),
        Delta(MS, reasoning="hm", ids=(5, 6)),
        Delta(2 * MS, reasoning="so"),
        Delta(3 * MS, content="yes", ids=(7,)),
        Delta(4 * MS, tool='look{"a"', last=True),
    )
    assert found.text == 'hmsoyeslook{"a"'
    assert found.ids == (5, 6, 7)
    assert (found.finish, found.prompt_tokens, found.completion_tokens) == ("tool_calls", 3, 9)


def test_text_completions_are_read_alike() -> None:
    found = answered(Event(MS, '{"choices": [{"index": 0, "text": "hi", "finish_reason": "length"}]}'))

    assert found.deltas == (Delta(MS, content="hi", last=True),)


def test_other_choices_than_the_first_are_left_out() -> None:
    other = Event(MS, '{"choices": [{"index": 1, "delta": {"content": "no"}}]}')

    assert answered(other, chunk(2, "yes")).text == "yes"


@pytest.mark.parametrize("key", ["stop_reason", "matched_stop"])
def test_the_stop_string_is_told_by_vllm_and_sglang(key: str) -> None:
    assert answered(chunk(1, "a", finish="stop", **{key: "END"})).stop == "END"
    assert answered(chunk(1, "a", finish="stop", **{key: 151645})).stop is None


def test_what_comes_after_the_end_is_not_read() -> None:
    assert read(0, [chunk(1, "a"), DONE, chunk(2, "b")]).text == "a"


def test_an_answer_is_whole_if_its_end_was_announced() -> None:
    assert read(0, [chunk(1, "a"), DONE]).whole
    assert read(0, [chunk(1, "a", finish="stop")]).whole
    assert not read(0, [chunk(1, "a")]).whole


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("<html>", "an event is no JSON: <html>"),
        ("[" * 200_000, "an event is no JSON: " + "[" * 299 + "…"),
        ('{"a":' * 200_000, "an event is no JSON: " + ('{"a":' * 60)[:299] + "…"),
        ("[1]", "an event is no JSON object: [1]"),
        ('{"error": {"message": "out of\\n memory", "code": 500}}', "out of memory"),
        ('{"error": "overloaded"}', "overloaded"),
        ('{"object": "error", "message": "bad"}', "bad"),
    ],
)
def test_what_is_no_answer_says_so(data: str, what: str) -> None:
    with pytest.raises(BadStream) as raised:
        read(0, [Event(0, data)])

    assert raised.value.what == what


def test_a_server_is_quoted_on_one_short_line() -> None:
    assert quoted("a\n  b") == "a b"
    assert len(quoted("x" * 1000)) == 300


def test_keys_of_other_kinds_than_expected_are_as_if_absent() -> None:
    odd = Event(MS, '{"choices": [{"delta": {"content": 5, "tool_calls": "x"}, "token_ids": ["a"]}, 3], "usage": 7}')

    assert answered(odd).deltas == (Delta(MS),)


def test_numbers_that_are_none_and_notes_of_another_kind_are_as_if_absent() -> None:
    huge = json.dumps({"content": [{"logprob": 10**400}]})
    odd = Event(MS, f'{{"meta_info": 5, "choices": [{{"text": "a", "logprobs": {huge}, "meta_info": {{"b": 1}}}}]}}')
    found = answered(odd)

    assert (found.logs, found.said["meta_info"]) == ((), {"b": 1})
