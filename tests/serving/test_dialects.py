"""What each server software says, and what is made of it: recorded where it could be run, else after its source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.serving.accounting import Counted, count
from pytest_specgate.engines.serving.counters import Seen
from pytest_specgate.engines.serving.dialects import DIALECTS, Acceptance, Probe, recognise
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.sse import Event, events
from pytest_specgate.engines.serving.stream import Answer, read
from pytest_specgate.engines.serving.tally import Tally, counts, since
from pytest_specgate.engines.serving.traces import speculated
from pytest_specgate.records import Chunk, Counts, Round
from tests.serving.answers import DONE, MS, answered, chunk, usage

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def models(owner: str, *names: str) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": name, "owned_by": owner} for name in names or ("smol",)]}}


def tally(dialect: str, page: str) -> Tally:
    tell = DIALECTS[dialect].tally
    assert tell is not None
    return tell(page)


def said(dialect: str, *last: Event, sizes: tuple[int, ...] = (1, 3, 1, 3)) -> Acceptance | None:
    """What the dialect reads from an answer of one token and then chunks of 3, 1 and 3, ended by these events."""
    done = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    told = [chunk(10 * i, "x" * size, total=n) for i, (size, n) in enumerate(zip(sizes, done))]
    answer: Answer = answered(*told, *last)
    return DIALECTS[dialect].acceptance(answer, count(answer))


PAGES = [
    ("vllm", models("vllm")),
    ("vllm", {"/metrics": recorded("vllm-0.32-metrics.txt")}),
    ("sglang", models("sglang")),
    ("sglang", {"/metrics": 'sglang:num_requests_total{model_name="m"} 1.0\n'}),
    ("llamacpp", models("llamacpp")),
    ("llamacpp", {"/props": {"default_generation_settings": {"n_ctx": 2048}, "build_info": "b11434-abc"}}),
    ("tgi", {"/info": {"model_id": "m", "version": "3.3.4", "max_concurrent_requests": 128}}),
    ("trtllm", models("tensorrt_llm")),
    ("trtllm", {"/prometheus/metrics": 'trtllm_request_success_total{finished_reason="stop"} 1.0\n'}),
    ("plain", models("openai")),
    ("plain", {}),
    ("plain", {"/v1/models": "<html>", "/props": [1], "/info": {"model_id": "x"}}),
]


@pytest.mark.parametrize(("name", "pages"), PAGES)
def test_a_server_is_known_by_what_it_says_of_itself(name: str, pages: dict[str, Any]) -> None:
    assert recognise(Probe(pages)).name == name


@pytest.mark.parametrize(
    ("name", "pages", "version"),
    [
        ("vllm", {"/version": {"version": "0.32.0"}}, "0.32.0"),
        ("sglang", {"/get_server_info": {"version": "0.5.23"}}, "0.5.23"),
        ("llamacpp", {"/props": {"build_info": "b11434-abc"}}, "b11434-abc"),
        ("llamacpp", {"/props": {"build_info": "b0-unknown"}}, ""),
        ("tgi", {"/info": {"version": "3.3.4"}}, "3.3.4"),
        ("trtllm", {"/version": {"version": "1.2.0"}}, "1.2.0"),
        ("plain", {"/version": {"version": "9"}}, ""),
        ("vllm", {"/version": "<html>"}, ""),
    ],
)
def test_versions(name: str, pages: dict[str, Any], version: str) -> None:
    assert DIALECTS[name].version(Probe(pages)) == version


def test_facts_name_the_speculation_and_no_paths() -> None:
    info = {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": 4, "tp_size": 2, "host": "x"}

    assert DIALECTS["sglang"].facts(Probe({"/get_server_info": info})) == {
        "speculative_algorithm": "EAGLE",
        "speculative_num_draft_tokens": "4",
        "tp_size": "2",
    }
    assert DIALECTS["llamacpp"].facts(Probe({"/props": {"model_path": "/secret/place/m.gguf"}})) == {
        "model_file": "m.gguf"
    }


# --- vLLM -------------------------------------------------------------------------------------------------------


def test_vllms_counters_are_added_over_engines_and_reasons() -> None:
    page = recorded("vllm-0.32-metrics.txt")
    second = page.replace('engine="0"', 'engine="1"')

    one, both = tally("vllm", page), tally("vllm", page + second)

    assert one == Tally(5, 132, None, 18, 69, 19, (6, 5, 4, 4))
    assert both == Tally(10, 264, None, 36, 138, 38, (12, 10, 8, 8))
    assert counts(one, requests=5, tokens=132) == Counts(rounds=108, drafts=18, drafted=69, tested=None, accepted=19)


def test_a_recorded_stream_of_vllm() -> None:
    answer = read(0, events([(MS, recorded("vllm-0.32-stream.txt").encode())]))
    counted = count(answer)
    spread = replace(counted, chunks=tuple(Chunk(n * MS, len(delta.ids)) for n, delta in enumerate(answer.deltas[1:])))

    assert (answer.finish, answer.prompt_tokens, len(answer.ids), counted.notes) == ("length", 41, 12, ())
    assert [chunk.tokens for chunk in spread.chunks] == [1, 1, 1, 5, 2, 1, 1]
    # Three steps and, beside them, three forwards that drafted nothing: the budget cut a token off the last step.
    assert DIALECTS["vllm"].acceptance(answer, spread) == Acceptance(
        counts=Counts(rounds=6, drafts=3, drafted=9, tested=7, accepted=6)
    )


def per_request(accepted: list[int], drafted: list[int], **more: Any) -> Event:
    told = {"num_spec_steps": len(accepted), "num_draft_tokens": sum(drafted)}
    told["num_accepted_draft_tokens"] = sum(accepted)
    return usage(99, 8, metrics={"speculative_decoding": {**told, **more}})


def test_vllms_steps_of_a_request_are_its_rounds() -> None:
    steps = {"per_step_accepted": [2, 0, 2], "per_step_drafted": [4, 4, 4]}

    assert said("vllm", per_request([2, 0, 2], [4, 4, 4], **steps)) == Acceptance(
        rounds=(Round(4, 3, 2, 3, 10 * MS), Round(4, 1, 0, 1, 20 * MS), Round(4, 3, 2, 3, 30 * MS))
    )


def test_a_step_may_come_with_the_first_token() -> None:
    steps = {"per_step_accepted": [2, 0, 2], "per_step_drafted": [4, 4, 4]}

    assert said("vllm", per_request([2, 0, 2], [4, 4, 4], **steps), sizes=(4, 1, 3)) == Acceptance(
        rounds=(Round(4, 3, 2, 3, 0), Round(4, 1, 0, 1, 10 * MS), Round(4, 3, 2, 3, 20 * MS))
    )


def test_the_end_of_the_text_cuts_vllms_last_step() -> None:
    steps = {"per_step_accepted": [2, 0, 4], "per_step_drafted": [4, 4, 4]}
    found = said("vllm", per_request([2, 0, 4], [4, 4, 4], **steps))

    assert found is not None
    assert found.rounds is not None
    assert found.rounds[-1] == Round(4, 4, 4, 3, 30 * MS)


def test_steps_that_are_not_all_of_the_rounds_give_exact_totals() -> None:
    steps = {"per_step_accepted": [2, 1], "per_step_drafted": [4, 1]}

    assert said("vllm", per_request([2, 1], [4, 1], **steps)) == Acceptance(
        counts=Counts(rounds=4, drafts=2, drafted=5, tested=4, accepted=3)
    )


def test_vllms_summary_gives_totals() -> None:
    told = per_request([2, 0, 2], [4, 4, 4], acceptance_histogram=[1, 0, 2, 0, 0])

    assert said("vllm", told) == Acceptance(counts=Counts(rounds=3, drafts=3, drafted=12, tested=7, accepted=4))


@pytest.mark.parametrize("metrics", [None, {}, {"speculative_decoding": None}, {"speculative_decoding": {"x": 1}}, [1]])
def test_metrics_without_speculation_tell_nothing(metrics: object) -> None:
    assert said("vllm", usage(99, 8, metrics=metrics)) is None


# --- llama.cpp --------------------------------------------------------------------------------------------------


def test_a_recorded_stream_of_llamacpp() -> None:
    raw = recorded("llamacpp-11434-stream.txt").encode()
    answer = read(0, events([(MS, raw)]))
    counted: Counted = count(answer)

    assert answer.whole
    assert (counted.tokens, counted.notes, answer.prompt_tokens) == (3, (), 41)
    assert DIALECTS["llamacpp"].acceptance(answer, counted) == Acceptance(
        counts=Counts(rounds=1, drafts=None, drafted=2, tested=None, accepted=1)
    )


def test_llamacpps_timings_with_every_token_are_its_rounds() -> None:
    answer = read(0, events([(MS, recorded("llamacpp-11434-timings-stream.txt").encode())]))
    counted = count(answer)
    found = DIALECTS["llamacpp"].acceptance(answer, counted)

    assert (counted.tokens, counted.notes, answer.cached_tokens) == (39, (), 0)
    assert found is not None
    assert found.rounds is not None
    drafted, tested, accepted, emitted = (
        sum(getattr(one, name) for one in found.rounds) for name in ("drafted", "tested", "accepted", "emitted")
    )
    assert (len(found.rounds), drafted, accepted, emitted) == (23, 89, 15, 38)
    assert tested == 15 + 23 - 2  # it turned down one draft token a round, but for the two of which it kept all four
    assert found.rounds[0] == Round(4, 2, 1, 2, MS)


def sums(*told: tuple[int, int, int], last: tuple[int, int, int], tokens: int | None = None) -> Acceptance | None:
    """What llama.cpp's dialect reads from chunks with such sums (tokens, drafted, accepted), and those at the end."""

    def timings(one: tuple[int, int, int]) -> dict[str, int]:
        drafts = {"draft_n": one[1], "draft_n_accepted": one[2]} if one[1] else {}
        return {"predicted_n": one[0], **drafts}

    chunks = [
        Event(n * MS, json.dumps({"choices": [{"index": 0, "delta": {"content": "x"}}], "timings": timings(one)}))
        for n, one in enumerate(told)
    ]
    answer = answered(*chunks, usage(99, tokens or last[0], timings=timings(last)))
    return DIALECTS["llamacpp"].acceptance(answer, count(answer))


def test_rounds_without_a_draft_lie_between_others() -> None:
    found = sums((1, 0, 0), (2, 4, 1), (3, 4, 1), (4, 4, 1), (5, 6, 3), (6, 6, 3), last=(6, 6, 3))

    assert found == Acceptance(rounds=(Round(4, 2, 1, 2, 2 * MS), Round(0, 0, 0, 1, 3 * MS), Round(2, 2, 2, 2, 5 * MS)))


def test_a_token_whose_characters_come_later_belongs_to_its_round() -> None:
    found = sums((1, 0, 0), (2, 4, 2), (5, 8, 3), (6, 8, 3), last=(7, 8, 3))

    assert found == Acceptance(rounds=(Round(4, 3, 2, 3, 2 * MS), Round(4, 2, 1, 2, 3 * MS), Round(0, 0, 0, 1, 3 * MS)))


@pytest.mark.parametrize(
    ("told", "last"),
    [
        ([(1, 0, 0), (4, 8, 1)], (4, 8, 1)),  # two rounds, or one: the chunk between them never came
        ([(1, 0, 0), (2, 4, 3), (3, 8, 4)], (3, 8, 4)),  # a round began before the last one's tokens were out
        ([(2, 4, 1), (3, 4, 1)], (3, 4, 1)),  # the first chunk is not the prefill's
        ([(1, 0, 0), (2, 2, 3)], (4, 2, 3)),  # more was kept than drafted
    ],
)
def test_sums_that_do_not_part_rounds_give_totals(told: list[tuple[int, int, int]], last: tuple[int, int, int]) -> None:
    found = sums(*told, last=last)

    assert found is not None
    assert found.rounds is None
    assert found.counts is not None
    assert (found.counts.drafted, found.counts.accepted, found.counts.tested) == (last[1], last[2], None)


def test_llamacpps_counters() -> None:
    found = tally("llamacpp", recorded("llamacpp-11434-metrics.txt"))

    assert found == Tally(None, 131, None, 10, 51, 16, (5, 5, 2, 2, 2, 0))
    assert counts(found, requests=4, tokens=131) == Counts(rounds=111, drafts=10, drafted=51, tested=None, accepted=16)


def test_timings_without_drafts_say_that_nothing_was_drafted() -> None:
    assert said("llamacpp", usage(99, 8, timings={"predicted_n": 8})) == Acceptance(
        counts=Counts(rounds=7, drafts=None, drafted=0, tested=None, accepted=0)
    )
    assert said("llamacpp", usage(99, 8)) is None


# --- SGLang, TGI, TensorRT-LLM: not tried live ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "drafted"),
    [
        ("spec_num_correct_drafts", "spec_num_proposed_drafts"),  # 0.5.15 and later
        ("spec_accepted_drafts", "spec_proposed_drafts"),  # its aliases
        ("spec_accept_token_num", "spec_draft_token_num"),  # before
    ],
)
def test_sglangs_meta_info(accepted: str, drafted: str) -> None:
    meta = {"spec_verify_ct": 3, accepted: 4, drafted: 12, "completion_tokens": 8, "spec_accept_length": 2.67}
    last = chunk(98, "", total=8, finish="stop", meta_info=meta)

    assert said("sglang", last, usage(99, 8)) == Acceptance(
        counts=Counts(rounds=3, drafts=3, drafted=12, tested=None, accepted=4)
    )


def test_sglangs_verify_calls_alone_give_the_length() -> None:
    page = (
        'sglang:num_requests_total{is_streaming="true",model_name="m"} 2.0\n'
        'sglang:generation_tokens_total{is_streaming="true",model_name="m"} 42.0\n'
        'sglang:spec_verify_calls_total{model_name="m",tp_rank="0"} 16.0\n'
        'sglang:spec_accept_length{model_name="m",tp_rank="0"} 9.9\n'
    )

    found = counts(tally("sglang", page), requests=2, tokens=42)

    assert found == Counts(rounds=16, drafts=None, drafted=None, tested=None, accepted=24)
    assert not tally("sglang", page.replace(" 16.0", " 0.0")).speculates


@pytest.mark.parametrize("name", ["num_retracted_requests_total", "num_retracted_reqs_total"])
def test_sglangs_retractions_and_cached_tokens_are_counters(name: str) -> None:
    page = (
        f'sglang:{name}{{model_name="m"}} 3.0\nsglang:num_retracted_reqs{{model_name="m"}} 1.0\n'
        'sglang:cached_tokens_total{cache_source="device"} 40.0\nsglang:cached_tokens_total{cache_source="host"} 2.0\n'
    )

    assert tally("sglang", page) == Tally(preempted=3, cached=42)
    assert tally("sglang", "sglang:num_retracted_reqs 1.0\n") == Tally()


def test_vllms_preemptions_and_cached_tokens_are_counters() -> None:
    page = 'vllm:num_preemptions_total{engine="0"} 2.0\nvllm:num_preemptions_total{engine="1"} 1.0\n'

    assert tally("vllm", f"{page}vllm:prefix_cache_hits_total 48.0\n") == Tally(preempted=3, cached=48)
    assert since(Tally(preempted=2, cached=8), Tally(preempted=3, cached=16)) == Tally(preempted=1, cached=8)


def test_tgis_histogram_of_skipped_tokens() -> None:
    page = (
        "tgi_request_success 2\ntgi_request_generated_tokens_sum 42\ntgi_request_generated_tokens_count 2\n"
        "tgi_request_skipped_tokens_sum 24\ntgi_request_skipped_tokens_count 18\n"
    )

    found = counts(tally("tgi", page), requests=2, tokens=42)

    assert found == Counts(rounds=16, drafts=None, drafted=None, tested=None, accepted=24)


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        (Counts(4, None, None, None, 9), "9 draft tokens accepted"),  # TGI, SGLang's verify calls
        (Counts(4, None, None, None, 0), ""),
        (Counts(4, 4, 16, None, 9), "16 tokens drafted"),
        (None, ""),
    ],
)
def test_a_reference_arm_that_speculates_shows_by_whatever_is_counted(counted: Counts | None, said: str) -> None:
    assert speculated([], DIALECTS["tgi"], Seen(counted)) == said


def test_tensorrt_llms_counters() -> None:
    label = '{engine_type="trtllm",model_name="m"}'
    page = (
        'trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="m"} 2.0\n'
        f"trtllm_generation_tokens_total{label} 42.0\n"
        f"trtllm_spec_decode_num_draft_tokens_total{label} 60.0\n"
        f"trtllm_spec_decode_num_accepted_tokens_total{label} 24.0\n"
    )

    found = counts(tally("trtllm", page), requests=2, tokens=42)

    assert found == Counts(rounds=16, drafts=None, drafted=60, tested=None, accepted=24)


# --- the text format --------------------------------------------------------------------------------------------


def test_a_page_is_read_with_odd_labels_and_without_odd_values() -> None:
    odd = ("# HELP a b", 'a{x="}\\" ,",y="2"} 3', "a 4 1700000000", "b NaN", "c +Inf", "d{ 5", "a_created{} 1e9")
    series = parse("\n".join(odd))

    assert series.total("a") == 7
    assert series.total("a_created") == 10**9
    assert [series.total(name) for name in "bcd"] == [None, None, None]
    assert series.by("a", "y") == (0, 0, 3)


def test_a_counter_that_appears_was_zero_and_one_that_vanishes_was_reset() -> None:
    assert since(Tally(requests=1), Tally(requests=2, drafts=3, accepted_at=(1, 2))) == Tally(
        requests=1, drafts=3, accepted_at=(1, 2)
    )
    assert since(Tally(requests=1, drafts=3), Tally(requests=2)) is None
    assert since(Tally(accepted_at=(5,)), Tally(accepted_at=(4, 9))) is None


def test_a_server_that_tells_nothing_of_speculation_has_no_counts() -> None:
    assert counts(Tally(requests=3, tokens=9), requests=3, tokens=9) is None
    assert counts(Tally(drafts=3), requests=3, tokens=9) is None


def test_recorded_events_are_valid() -> None:
    for line in recorded("llamacpp-11434-stream.txt").splitlines():
        if line and DONE.data not in line:
            json.loads(line.removeprefix("data: "))


def test_positions_beyond_all_reason_and_digits_that_are_none_are_left_out() -> None:
    lines = [f'n{{position="{at}"}} {at and 2}' for at in (0, "1", "3000000000", "²", "٣", "9" * 5_000)]
    series = parse("\n".join([*lines, "n 7", 'huge{a="1"} 1e308', 'huge{a="2"} 1e308']))

    assert series.by("n", "position") == (0, 2)
    assert series.total("huge") is None


def test_a_pool_in_digits_that_are_none_is_untold() -> None:
    labels = f'kv_cache_size_tokens="²",num_gpu_blocks="{"9" * 5_000}",block_size="16"'
    probe = Probe({"/metrics": f"vllm:cache_config_info{{{labels}}} 1.0"})

    assert DIALECTS["vllm"].rooms((), probe).kv_cache_tokens is None


@pytest.mark.parametrize("claimed", [3_000_000_000, 10**400])
def test_a_claim_of_tokens_beyond_all_reason_makes_no_rounds(claimed: int) -> None:
    begin = chunk(1, "a", total=1)
    begin = begin._replace(data=begin.data[:-1] + ', "timings": {"predicted_n": 1}}')
    end = usage(3, claimed, timings={"predicted_n": claimed})
    answer = answered(begin, end)

    found = DIALECTS["llamacpp"].acceptance(answer, count(answer))

    assert found is None or found.rounds is None


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 10**400, -1, "2"])
def test_a_size_that_is_none_is_untold(weight: Any) -> None:
    memory = {"weight": weight, "kvcache": 1.0, "token_capacity": 8}
    rooms = DIALECTS["sglang"].rooms((), Probe({"/server_info": {"internal_states": [{"memory_usage": memory}]}}))

    assert (rooms.weights, rooms.kv_cache, rooms.kv_cache_tokens) == (None, 2**30, 8)


def test_slots_nested_without_end_are_none() -> None:
    assert DIALECTS["llamacpp"].pressure({"/slots": "[" * 200_000}).tokens is None


@pytest.mark.parametrize(("model", "window"), [("base", 4096), ("tuned", 4096), ("draft", 512), ("unlisted", None)])
def test_the_window_is_that_of_the_model_that_is_asked(model: str, window: int | None) -> None:
    listed = [
        {"id": "draft", "max_model_len": 512},
        {"id": "base", "max_model_len": 4096},
        {"id": "tuned", "max_model_len": None, "parent": "base"},
    ]

    assert DIALECTS["vllm"].window(Probe({"/v1/models": {"data": listed}}), model) == window
