"""From traces to the numbers that gates judge."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import pytest

from pytest_specgate.errors import InvalidTrace
from pytest_specgate.records import (
    Arm,
    Chunk,
    Counts,
    Measurement,
    MemoryReading,
    Pair,
    Place,
    Round,
    Samples,
    Spent,
    Told,
    Trace,
)
from pytest_specgate.samples import reduce
from pytest_specgate.samples.output import accounting_problems
from pytest_specgate.samples.text import SCORES, words

MS = 1_000_000


def trace(arm: Arm, prompt: str = "p", start: int = 0, **changes: Any) -> Trace:
    """Three tokens: the first after 10 ms, two more after 30 ms."""
    made = Trace(
        prompt,
        arm,
        (1, 2, 3),
        "one two three",
        5,
        start,
        (Chunk(start + 10 * MS, 1), Chunk(start + 30 * MS, 2)),
        "length",
    )
    return dataclasses.replace(made, **changes)


def pair(number: int = 0, prompt: str = "p", start: int = 0, **candidate: Any) -> Pair:
    reference = trace(Arm.REFERENCE, prompt, start)
    return Pair(prompt, "talk", number, "AB", reference, trace(Arm.CANDIDATE, prompt, start, **candidate))


def measured(*pairs: Pair, greedy: bool = True, memory: dict[Arm, MemoryReading] | None = None) -> Samples:
    place = Place("cpu", 1, "float32")
    return reduce(Measurement("e::c", "scripted", place, {}, {}, pairs, greedy, memory or {}))


def series(*pairs: Pair, **kwargs: Any) -> dict[str, tuple[float, ...]]:
    return dict(measured(*pairs, **kwargs).prompts[0].series)


# --- speed and latency ---


def test_speedup_is_the_log_ratio_of_times_per_token() -> None:
    fast = (Chunk(5 * MS, 1), Chunk(15 * MS, 2))

    found = series(pair(chunks=fast), pair(1))

    assert found["speedup"] == pytest.approx((math.log(2), 0.0))
    assert found["decode_speedup"] == pytest.approx((math.log(2), 0.0))


def test_lengths_are_not_forced_to_be_equal() -> None:
    found = series(pair(token_ids=(1, 2, 3, 4, 5, 6), chunks=(Chunk(10 * MS, 2), Chunk(30 * MS, 4))))

    assert found["speedup"] == pytest.approx((math.log(2),))
    assert found["decode_speedup"] == pytest.approx((math.log(2),))
    assert found["length_ratio"] == (2.0,)


def test_latencies_are_in_seconds_and_of_both_arms() -> None:
    found = series(pair(chunks=(Chunk(4 * MS, 1), Chunk(8 * MS, 2))))

    assert [found[name][0] for name in ("ttft", "tpot", "itl", "e2el")] == pytest.approx([0.004, 0.002, 0.002, 0.008])
    assert [found["reference_" + name][0] for name in ("ttft", "tpot", "itl", "e2el")] == pytest.approx(
        [0.01, 0.01, 0.01, 0.03]
    )
    assert found["throughput"] == pytest.approx((3 / 0.008,))


def test_a_delivery_in_several_chunks_at_one_instant_is_one() -> None:
    split = (Chunk(10 * MS, 1), Chunk(30 * MS, 1), Chunk(30 * MS, 1))

    assert series(pair(chunks=split))["itl"] == pytest.approx(series(pair())["itl"])


def test_what_came_in_one_chunk_has_no_time_per_token() -> None:
    found = series(pair(chunks=(Chunk(30 * MS, 3),)))

    assert not {"decode_speedup", "tpot", "itl"} & found.keys()
    assert "reference_tpot" in found
    assert found["e2el"] == (0.03,)


def test_requests_at_one_time_share_their_block_s_throughput() -> None:
    both = measured(pair(prompt="a"), pair(prompt="b"), pair(1, prompt="a", start=90 * MS), pair(1, "b", 95 * MS))

    a, b = (prompt.series for prompt in both.prompts)
    assert a["throughput"] == pytest.approx((6 / 0.03, 6 / 0.035))
    assert "throughput" not in b
    assert a["block"] == b["block"] == (0.0, 0.0)


def looked_into(prompt: str, start: int, *rounds: int, slots: int = 2) -> Pair:
    """Its own first token after 1 ms, then one in each of these rounds, whose times are shared."""
    chunks = (Chunk((start + 1) * MS, 1), *(Chunk(at * MS, 1) for at in rounds))
    spent = Spent(len(rounds), 0, slots * len(rounds), 0, 0, 0, 0, 0, 0, 0)
    ids = tuple(range(len(chunks)))
    told = {"token_ids": ids, "chunks": chunks, "prefill_tokens": 1, "spent": spent}
    made = pair(0, prompt, start * MS, **told)
    return dataclasses.replace(made, reference=dataclasses.replace(made.candidate, arm=Arm.REFERENCE), run=0)


def test_rounds_are_as_full_as_they_had_requests() -> None:
    # Rounds at 10, 20, 30 and 40 ms with room for two: two, two, one and one took part.
    found = measured(looked_into("a", 0, 10, 20), looked_into("b", 0, 10), looked_into("c", 11, 20, 30, 40)).scalars
    assert (found["occupancy"], found["reference_occupancy"]) == (6 / 8, 6 / 8)


def test_rounds_that_one_answer_does_not_tell_are_not_counted() -> None:
    told, silent = looked_into("a", 0, 10, 20), looked_into("b", 0, 10)
    silent = dataclasses.replace(silent, candidate=dataclasses.replace(silent.candidate, spent=None))
    assert measured(told, silent).scalars == {"reference_occupancy": 3 / 4}
    assert measured(looked_into("a", 0)).scalars == {}


def test_who_waited_belongs_to_the_run_whatever_the_times_say() -> None:
    apart = [dataclasses.replace(pair(0, prompt, start * MS), run=0) for prompt, start in (("a", 0), ("b", 50))]
    first, second = (prompt.series for prompt in measured(*apart).prompts)
    assert first["block"] == second["block"] == (0.0,)
    assert first["throughput"] == pytest.approx((6 / 0.08,))
    assert "throughput" not in second


def test_requests_one_after_the_other_have_no_blocks() -> None:
    assert "block" not in series(pair(), pair(1, start=50 * MS))


# --- acceptance ---


def test_counts_leave_the_cut_round_out() -> None:
    rounds = (Round(4, 3, 2, 3, 10 * MS), Round(0, 0, 0, 1, 20 * MS), Round(4, 4, 4, 3, 30 * MS))
    made = pair(token_ids=tuple(range(7)), chunks=(Chunk(30 * MS, 7),), rounds=rounds)

    assert measured(made).prompts[0].counts == (Counts(rounds=2, drafts=1, drafted=4, tested=3, accepted=2),)


def test_an_engine_that_tells_no_rounds_counts_nothing() -> None:
    assert measured(pair()).prompts[0].counts == ()


# --- output ---


def test_a_digest_names_the_text_of_the_first_round() -> None:
    assert measured(pair()).prompts[0].digest == hashlib.sha256(b"1,2,3").hexdigest()[:16]
    assert measured(pair(token_ids=(1, 2, 4))).prompts[0].digest != measured(pair()).prompts[0].digest


def test_equal_ids_match_and_others_do_not() -> None:
    found = series(pair(), pair(1, token_ids=(1, 2, 4)))

    assert found["exact_match"] == (1.0, 0.0)
    assert found["length_ratio"] == (1.0, 1.0)


def test_texts_of_a_greedy_run_that_repeats_are_scored_once() -> None:
    assert series(pair(), pair(1))["chrf"] == (100.0,)
    assert len(series(pair(), pair(1, text="one two"))["chrf"]) == 2
    assert len(series(pair(), pair(1), greedy=False)["chrf"]) == 2


def test_texts_are_scored_only_if_asked_for() -> None:
    place = Place("cpu", 1, "float32")
    made = reduce(Measurement("e::c", "scripted", place, {}, {}, (pair(),), greedy=True), ["bleu"])

    assert not {"chrf", "rouge_l"} & made.prompts[0].series.keys()
    assert made.prompts[0].series["bleu"] == (100.0,)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"usage_tokens": 4}, "usage says 4 tokens, 3 were returned"),
        ({"max_tokens": 2}, "3 tokens for a budget of 2"),
        ({"max_tokens": 5}, "finished for length after 3 of 5 tokens"),
        ({"eos_ids": (2,)}, "text goes on after the end-of-text token"),
        ({"eos_ids": (9,), "finish": "eos"}, "finished for end of text without an end-of-text token"),
    ],
)
def test_bookkeeping_that_does_not_add_up_is_told(changes: dict[str, Any], problem: str) -> None:
    assert accounting_problems(trace(Arm.CANDIDATE, **changes)) == (problem,)
    assert series(pair(**changes))["token_accounting"] == (0.0,)


STOPPED = {"finish": "stop", "max_tokens": 9, "eos_ids": (9,)}


@pytest.mark.parametrize(
    ("changes", "stops", "problem"),
    [
        ({}, (), "stops after 3 tokens, and no stop was asked for"),
        ({}, ("four", "one  two"), "stops after 3 tokens, and none of the stop strings stands there"),
        ({}, ("four", "thr"), ""),
        ({"eos_ids": (3,)}, ("four",), ""),
        # Nobody knows what was asked for; a server cuts its stop strings off; where no ids are, no end is known.
        ({}, None, ""),
        ({"told": Told()}, ("four",), ""),
        ({"finish": "cancelled"}, ("four",), ""),
        # A text ends where its stop string stands, whatever else could end it there too.
        ({"finish": "length", "max_tokens": 3}, ("four", "one"), "goes on after the stop string 'one'"),
        ({"finish": "eos", "eos_ids": (3,)}, ("one",), "goes on after the stop string 'one'"),
        # What stands behind it may be the rest of the token that brought it: an end of text that can be read.
        ({"finish": "eos", "eos_ids": (3,)}, ("thr",), ""),
        ({"finish": "length", "max_tokens": 3}, ("two",), ""),
        (
            {"finish": "length", "max_tokens": 3, "text": "onetwo" + 33 * "m"},
            ("two",),
            "goes on after the stop string 'two'",
        ),
        ({"finish": "length", "max_tokens": 3}, ("three",), ""),
        ({"finish": "length", "max_tokens": 3, "told": Told()}, ("two",), ""),
        ({"finish": "length", "max_tokens": 3}, None, ""),
    ],
)
def test_a_stop_has_a_reason(changes: dict[str, Any], stops: tuple[str, ...] | None, problem: str) -> None:
    stopped = trace(Arm.CANDIDATE, **{**STOPPED, **changes})
    assert accounting_problems(stopped, stops) == ((problem,) if problem else ())
    workload = {} if stops is None else {"stop": repr(stops)}
    whole = Pair("p", "talk", 0, "AB", trace(Arm.REFERENCE), stopped)
    reduced = reduce(Measurement("e::c", "scripted", Place("cpu", 1, "float32"), workload, {}, (whole,), greedy=False))
    assert reduced.prompts[0].series["token_accounting"] == (float(not problem),)


@pytest.mark.parametrize(
    "changes",
    [{"usage_tokens": 3, "max_tokens": 3}, {"finish": "eos", "eos_ids": (3,), "max_tokens": 9}, {"finish": "eos"}],
)
def test_bookkeeping_that_adds_up_is_right(changes: dict[str, Any]) -> None:
    assert accounting_problems(trace(Arm.CANDIDATE, **changes)) == ()


# --- closeness of texts ---


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    "text", ["今天天气很好。", "東京は晴れです", "오늘은 맑음", "วันนี้อากาศดี", "It is fine.", "!?", ""]
)
def test_identical_texts_score_100_in_any_script(name: str, text: str) -> None:
    assert SCORES[name](text, text) == 100.0


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    ("candidate", "reference"),
    [
        ("今天天气很好我们去公园", "今天天气很好我们去学校"),
        ("東京は今日とても晴れです", "東京は今日とても雨です"),
        ("It is a fine day in the park", "It is a fine day in the town"),
    ],
)
def test_texts_that_differ_in_part_score_strictly_between(name: str, candidate: str, reference: str) -> None:
    assert 20 < SCORES[name](candidate, reference) < 100


@pytest.mark.parametrize("name", SCORES)
def test_closer_chinese_scores_higher(name: str) -> None:
    score, reference = SCORES[name], "今天天气很好我们去学校"

    assert score("今天天气很好我们去公园", reference) > score("昨天下雨所以我在家看书", reference)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("empty", ["", "  \n"])
def test_no_text_is_close_to_none(name: str, empty: str) -> None:
    assert SCORES[name](empty, "word") == SCORES[name]("word", empty) == 0.0


def test_words_are_lower_case_and_each_chinese_character_is_one() -> None:
    assert words("GPT-4 说你好, naïve!") == ["gpt", "4", "说", "你", "好", "naïve"]


# --- memory ---


def test_memory_of_both_arms_gives_ratios() -> None:
    found = measured(
        pair(),
        memory={
            Arm.REFERENCE: MemoryReading(host_rss=100, max_process_vram=1000, max_reserved=700),
            Arm.CANDIDATE: MemoryReading(host_rss=150, max_process_vram=1200, max_reserved=900),
        },
    ).scalars

    assert found == {"host_memory": 150.0, "host_memory_ratio": 1.5, "vram": 1200.0, "vram_ratio": 1.2}


def test_a_ratio_takes_both_arms_from_one_source() -> None:
    found = measured(
        pair(),
        memory={
            Arm.REFERENCE: MemoryReading(max_reserved=500),
            Arm.CANDIDATE: MemoryReading(max_process_vram=1200, max_reserved=1000),
        },
    ).scalars

    assert found == {"vram": 1200.0, "vram_ratio": 2.0}


@pytest.mark.parametrize("reading", [{}, {Arm.CANDIDATE: MemoryReading()}, {Arm.REFERENCE: MemoryReading(host_rss=9)}])
def test_memory_that_was_not_measured_is_absent(reading: dict[Arm, MemoryReading]) -> None:
    assert measured(pair(), memory=reading).scalars == {}


# --- what is refused ---


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(InvalidTrace) as caught:
        measured()

    assert str(caught.value) == "e::c: nothing was measured — give the scenario at least one prompt"


def test_counters_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidTrace) as caught:
        measured(pair(), pair(1, chunks=(Chunk(MS, 2),)))

    assert str(caught.value) == (
        "e::c: p, candidate arm, measuring round 2: chunks deliver 2 tokens, the output has 3 "
        "— the engine's own counters contradict each other: mend what its adapter counts"
    )


def test_output_in_no_time_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="round 1: the output took no time at all — "):
        measured(pair(chunks=(Chunk(0, 3),)))


def test_arms_and_prompts_must_not_be_mixed() -> None:
    right = pair()
    with pytest.raises(InvalidTrace, match="traces come from the arms candidate, candidate — a pair is one of each"):
        measured(dataclasses.replace(right, reference=right.candidate))
    with pytest.raises(InvalidTrace, match="a pair mixes prompts: p, q — a pair is one prompt by both arms"):
        measured(dataclasses.replace(right, candidate=trace(Arm.CANDIDATE, "q")))
