"""Faults that load clients and metrics of real projects had (V30–V33, V52–V57), each rebuilt in miniature.

Times are written into the answers, not measured: what is judged is what our client makes of them.
"""

from __future__ import annotations

import json

import pytest

from pytest_specgate.engines.serving.accounting import ESTIMATED_CHUNKS
from pytest_specgate.engines.serving.counters import FEWER, RESET, judge
from pytest_specgate.engines.serving.dialects import DIALECTS
from pytest_specgate.engines.serving.sse import Event
from pytest_specgate.engines.serving.tally import Tally, counts, since
from pytest_specgate.errors import EngineError
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Counts, Outcome, Pair, Samples, Trace
from pytest_specgate.samples.latency import series
from pytest_specgate.samples.output import accounting_problems
from pytest_specgate.samples.values import values
from pytest_specgate.suite.load import load_suite
from tests.plugin.conftest import Project, project
from tests.serving.answers import chunk, chunks, counted, role, trace, usage
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import served
from tests.unit import judging

__all__ = ["project"]
SPECULATES = Script(pattern=(1, 3, 2), k=4)


def latencies(found: Trace) -> dict[str, float]:
    """ttft, tpot, itl, e2el in milliseconds."""
    told = series([Pair("q1", "q1", 0, "AB", found, found)])
    return {name: round(1e3 * told[name][0], 6) for name in ("ttft", "tpot", "itl", "e2el") if name in told}


def in_blocks(*sizes: int) -> list[Event]:
    """The first token at 100 ms, then blocks of these sizes every 40 ms, as vLLM sends them: one chunk a block."""
    found, total = [role(0, total=0)], 0
    for number, size in enumerate((1, *sizes)):
        total += size
        found.append(chunk(100 + 40 * number, "x" * size, total=total))
    return [*found, usage(100 + 40 * len(sizes), total)]


def in_tokens(*sizes: int) -> list[Event]:
    """The same blocks as llama.cpp sends them: one chunk a token, those of a block at one instant."""
    found = [role(0)]
    for number, size in enumerate((1, *sizes)):
        found += [chunk(100 + 40 * number + 0.01 * i, "x") for i in range(size)]
    return [*found, usage(100 + 40 * len(sizes), 1 + sum(sizes))]


# --- what the streams of servers are taken for ------------------------------------------------------------------


def test_v52_gaps_are_shared_by_the_tokens_of_a_chunk() -> None:
    found = latencies(trace(counted(*in_blocks(5, 1, 3, 1))))

    assert found == pytest.approx({"ttft": 100, "tpot": 16, "itl": (40 / 5 + 40 + 40 / 3 + 40) / 4, "e2el": 260})


def test_v52_both_ways_to_send_a_block_are_one_speed() -> None:
    one, other = (trace(counted(*sent(5, 1, 3, 1))) for sent in (in_blocks, in_tokens))

    assert latencies(one) == latencies(other)
    assert [c.tokens for c in one.chunks] == [c.tokens for c in other.chunks] == [1, 5, 1, 3, 1]


def test_v52_the_first_chunks_tokens_are_no_part_of_tpot() -> None:
    found = trace(counted(chunk(100, "abcd", total=4), chunk(140, "e", total=5), usage(141, 5)))

    assert latencies(found)["tpot"] == 40.0


def test_v53_a_chunk_is_not_taken_for_a_token() -> None:
    found = counted(*in_blocks(5, 5, 5))

    assert (found.tokens, len(found.chunks)) == (16, 4)
    assert accounting_problems(trace(found)) == ()


def test_v54_a_role_is_no_first_token() -> None:
    found = trace(counted(role(0, total=0), chunk(1000, "a", total=1), chunk(1040, "b", total=2), usage(1041, 2)))

    assert latencies(found) == {"ttft": 1000.0, "tpot": 40.0, "itl": 40.0, "e2el": 1040.0}


def test_v54_an_empty_text_is_no_first_token_though_usage_grows() -> None:
    told = (chunk(10, "", total=1), chunk(20, "", total=2), chunk(500, "a", total=3), chunk(540, "b", total=4))

    assert latencies(trace(counted(*told, usage(541, 4))))["ttft"] == 500.0


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_v55_reasoning_is_the_first_token(key: str) -> None:
    thought = [chunk(50 + 10 * i, delta={key: "hm"}, total=i + 1) for i in range(100)]
    found = trace(counted(role(0, total=0), *thought, chunk(1050, "so", total=101), usage(1051, 101)))

    assert latencies(found) == {"ttft": 50.0, "tpot": 10.0, "itl": 10.0, "e2el": 1050.0}


def test_v56_without_usage_nothing_is_guessed(arms: Arms) -> None:
    engine, _, fast = arms(Script(pattern=(1, 3, 2), k=4, usage="none", ids=False))

    with pytest.raises(EngineError) as raised:
        engine.generate([ask()], Arm.CANDIDATE)

    assert str(raised.value) == (
        f"pair: candidate server {fast.url} does not tell how many tokens it sent (no usage, no token ids) — name a "
        "'tokenizer' in the suite to have them estimated, or use a server that tells 'usage'"
    )


def test_v56_what_is_estimated_is_said_to_be_in_every_report(project: Project) -> None:
    only_at_the_end = Script(pattern=(1, 3, 2), k=4, usage="final", ids=False)
    with FakeServer() as plain, FakeServer(only_at_the_end) as fast:
        project.suite({"metric": "token_accounting", "limit": "==100%"}, engines=served(plain.url, fast.url))
        result = project.run("--specgate", "--specgate-report=r.json", "--specgate-report=r.md", "suites")

    result.assert_outcomes(passed=1)
    written = [(project.path / name).read_text(encoding="utf-8") for name in ("r.json", "r.md")]
    assert all(ESTIMATED_CHUNKS in " ".join(text.split()) for text in (result.stdout.str(), *written))


def test_v56_a_total_that_is_told_stays_exact_where_chunks_are_estimated() -> None:
    found = counted(role(), chunk(100, "abc"), chunk(140, "d"), chunk(180, "efgh", finish="length"), usage(181, 6))

    assert (found.tokens, sum(c.tokens for c in found.chunks), found.notes) == (6, 6, (ESTIMATED_CHUNKS,))


def test_v57_prompts_are_part_of_the_workload_and_forced_lengths_are_warned_of(project: Project) -> None:
    scenario = {"qa": {"category": "qa", "prompts": "prompts/p.jsonl", "ignore_eos": True}}
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        suite = project.suite(judging_gate(), engines=served(plain.url, fast.url), scenarios=scenario)
        project.run("--specgate-update", "suites").assert_outcomes(passed=1)
        assert plain.requests[0]["ignore_eos"] is True
        (warning,) = load_suite(suite, project.path).warnings
        project.write("suites/prompts/p.jsonl", json.dumps({"id": "q1", "turns": ["xq zzv 7 %% lorem"]}) + "\n")
        result = project.run("--specgate", "suites")

    assert "distorts acceptance" in warning
    result.assert_outcomes(errors=1)
    assert "no baseline for this workload: prompts changed" in result.stdout.str()


def judging_gate() -> dict[str, object]:
    return {"metric": "conditional_acceptance", "max_drop": "0.02"}


# --- what counters are taken for --------------------------------------------------------------------------------


def test_v30_the_length_counts_the_bonus_token_and_the_identity_holds(arms: Arms) -> None:
    engine, _, _ = arms(Script(pattern=(1, 3, 2), k=4, per_request="detailed"))

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert found.rounds is not None
    assert trace_problems(found) == ()
    assert sum(r.accepted for r in found.rounds) + len(found.rounds) == found.output_tokens - found.prefill_tokens
    assert acceptance(found)["acceptance_length"] == 2.0


def test_v31_each_denominator_has_a_name_of_its_own() -> None:
    # 10 drafts of 4 tokens: 5 kept nothing, 3 kept two, 2 kept four.
    tally = Tally(drafts=10, drafted=40, accepted=14, accepted_at=(5, 5, 2, 2))
    found = counts(tally, requests=1, tokens=25)

    assert found == Counts(rounds=10, drafts=10, drafted=40, tested=22, accepted=14)
    assert values(of(found)) == {
        "acceptance_rate": 14 / 40,
        "conditional_acceptance": 14 / 22,
        "acceptance_length": 2.4,
    }


def test_v31_what_was_tested_is_unmeasured_where_drafts_differ_in_length() -> None:
    found = counts(Tally(drafts=10, drafted=31, accepted=14, accepted_at=(5, 5, 2, 2)), requests=1, tokens=25)

    assert found is not None
    assert found.tested is None
    verdict = judging.verdict(judging.gate("conditional_acceptance", limit=">=1%"), of(found))
    assert (verdict.outcome, verdict.reason) == (
        Outcome.ERROR,
        "conditional_acceptance: not measured by this engine (e)",
    )


def test_v32_counters_that_were_reset_are_unmeasured_and_neither_zero_nor_a_fall() -> None:
    before = Tally(requests=9, tokens=900, drafts=300, drafted=1200, accepted=500)
    seen = judge(since(before, Tally(requests=1, tokens=40, drafts=9, drafted=36, accepted=0)), requests=1, tokens=40)

    assert (seen.counts, seen.foreign, seen.note) == (None, None, RESET)


def test_v32_counters_of_one_rank_alone_are_unmeasured() -> None:
    told = Tally(requests=1, tokens=20, drafts=5, drafted=20, accepted=5)

    assert judge(told, requests=4, tokens=80).note == FEWER


def test_v32_counters_that_are_missing_are_no_zeros(arms: Arms) -> None:
    engine, _, _ = arms(Script(pattern=(1, 3, 2), k=4, counters=False))

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert found.rounds is None
    assert found.told is not None
    assert found.told.counts is None
    assert DIALECTS["vllm"].tally is not None
    assert not DIALECTS["vllm"].tally("vllm:generation_tokens_total 5\n").speculates


def test_v32_engines_and_ranks_are_added_up_and_times_of_birth_are_not(arms: Arms) -> None:
    engine, _, fast = arms(Script(pattern=(1, 3, 2), k=4, labels=3))

    (found,) = engine.generate([ask()], Arm.CANDIDATE)

    assert "_created" in fast.counters.page(fast.script)
    assert found.told is not None
    assert found.told.counts == Counts(rounds=6, drafts=6, drafted=24, tested=12, accepted=6)


def test_v33_a_cautious_drafter_is_seen_in_the_length_not_in_the_rate() -> None:
    bold = counts(Tally(drafts=20, drafted=80, accepted=40), requests=1, tokens=61)
    cautious = counts(Tally(drafts=2, drafted=4, accepted=4), requests=1, tokens=61)

    assert bold is not None
    assert cautious is not None
    assert values(of(cautious))["acceptance_rate"] == 1.0 > values(of(bold))["acceptance_rate"]
    assert values(of(bold))["acceptance_length"] == 3.0
    assert values(of(cautious))["acceptance_length"] == 1 + 4 / 56


def test_v33_nothing_drafted_is_an_error_not_a_rate() -> None:
    zero = counts(Tally(drafts=0, drafted=0, accepted=0), requests=1, tokens=30)

    assert zero is not None
    verdict = judging.verdict(judging.gate("acceptance_rate", limit=">=0%"), of(zero))
    assert (verdict.outcome, verdict.reason) == (Outcome.ERROR, "nothing was drafted: speculation never engaged")


def of(found: Counts) -> Samples:
    """Samples of one prompt that was counted so."""
    return judging.samples(counts=[[found]])


def acceptance(found: Trace) -> dict[str, float]:
    """The metrics of one trace's rounds."""
    from pytest_specgate.samples.acceptance import counts as counted_of

    (one,) = counted_of([Pair("q1", "q1", 0, "AB", found, found)])
    return values(of(one))


def test_chunks_of_a_fault_free_answer_are_as_scripted() -> None:
    assert counted(*in_blocks(2, 1)).chunks == chunks((100, 1), (140, 2), (180, 1))
