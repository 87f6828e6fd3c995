"""Numbers that decide nothing, look by look: the sentence that a user reads, and never a pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.gates import Seen, judge
from pytest_specgate.records import Counts, Outcome, PromptSamples, Samples, Verdict
from pytest_specgate.suite.cases import Gate
from tests.unit.judging import context, gate, samples, spread, stored, times

SPEEDUP, TPOT = gate("speedup", limit=">=1.5x"), gate("tpot", limit="<=25 ms")
DROP, RISE = gate("speedup", max_drop="5%"), gate("tpot", max_rise="5%")
LEVEL = math.log(1.8)
BASELINE = samples({"speedup": spread(LEVEL, rounds=16), "tpot": times(0.02, rounds=16)})
HOUR = math.log(3600)


def first(rounds: int, of: Samples) -> Samples:
    """The samples as they were after so many rounds."""
    series = {name: [p.series[name][:rounds] for p in of.prompts] for name in of.prompts[0].series}
    return samples(series, [p.counts[:rounds] for p in of.prompts], greedy=of.greedy)


def judged(asked: Gate, now: Samples, before: Samples | None = BASELINE, rounds: int = 8, **changes: Any) -> Verdict:
    """The verdict from looks after 1, 2, 4 and 8 rounds, or as many as there are."""
    looks = [Seen(look, first(look, now)) for look in (1, 2, 4, 8) if look <= rounds]
    return judge(asked, looks, None if before is None else stored(before), context(**{"looks": 4, **changes}))


def with_one(rows: Sequence[Sequence[float]], value: float) -> list[list[float]]:
    """The rows with the last call of the last prompt replaced."""
    return [*map(list, rows[:-1]), [*rows[-1][:-1], value]]


@pytest.mark.parametrize(
    ("asked", "shape", "reason"),
    [
        (SPEEDUP, (16, 1), "speedup: one round has no scatter to judge by; needed: 2 rounds"),
        (
            SPEEDUP,
            (1, 2),
            "speedup: so few pairs leave the ratio open by more than 100x either way; needed: about 3 rounds",
        ),
        (DROP, (1, 8), "speedup: 8 pairs cannot reach an error of 0.00025; needed: 12 pairs"),
        (DROP, (2, 4), "speedup: 8 pairs cannot reach an error of 0.00025; needed: 12 pairs"),
        (
            gate("speedup", limit=">=1.5x", population=True),
            (1, 8),
            "speedup: one prompt says nothing about prompts like it; needed: 2 prompts, better 16",
        ),
        (TPOT, (1, 4), "tpot: 4 requests bound this quantile on neither side; needed: 12 requests"),
        (RISE, (1, 8), "tpot: 8 pairs cannot reach an error of 0.00025; needed: 12 pairs"),
        (
            gate("tpot", limit="<=25 ms", statistic="mean"),
            (16, 1),
            "tpot mean: one round has no scatter to judge by; needed: 2 rounds",
        ),
        (
            gate("tpot", limit="<=25 ms", statistic="p99"),
            (16, 8),
            (
                "tpot p99 21.37 ms [20.96 ms, ?] straddles the limit <=25 ms; "
                "at least 437 requests are needed (this run had 128)"
            ),
        ),
        (
            gate("tpot", max_rise="5%", statistic="p99"),
            (1, 4),
            "tpot p99: 4 requests do not bound this tail; needed: 895 requests",
        ),
    ],
)
def test_too_little_data_says_how_much_would_do(asked: Gate, shape: tuple[int, int], reason: str) -> None:
    prompts, rounds = shape
    now = samples({"speedup": spread(LEVEL, prompts=16, rounds=8), "tpot": times(0.02, prompts=16, rounds=8)})
    few = first(rounds, Samples("c", greedy=True, prompts=now.prompts[:prompts]))

    said = judged(asked, few, rounds=rounds)

    assert (said.outcome, said.reason) == (Outcome.INCONCLUSIVE, reason)


def test_the_pairs_that_are_asked_for_do_decide() -> None:
    twelve = samples({"speedup": spread(LEVEL, prompts=3, rounds=4)})

    assert judged(DROP, twelve, samples({"speedup": spread(LEVEL, prompts=3, rounds=64)}), 4).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("prompts", "greedy", "reason"),
    [
        (1, False, "acceptance rate: one conversation says nothing about others; needed: 2 conversations, better 16"),
        (
            2,
            False,
            (
                "acceptance rate 50.0% [0.0%, 100.0%] straddles the limit >=40%; "
                "about 51 conversations would decide (this run had 2)"
            ),
        ),
    ],
)
def test_too_few_conversations_for_an_acceptance(prompts: int, greedy: bool, reason: str) -> None:
    counted = [[Counts(8, 8, 32, 20, 16)] * 8] * prompts

    said = judged(gate("acceptance_rate", limit=">=40%"), samples({}, counted, greedy=greedy), None)

    assert (said.outcome, said.reason) == (Outcome.INCONCLUSIVE, reason)


CLOCKED = (
    (SPEEDUP, "speedup"),
    (DROP, "speedup"),
    (gate("speedup", limit=">=1.5x", population=True), "speedup"),
    (TPOT, "tpot"),
    (gate("tpot", limit="<=25 ms", statistic="p95"), "tpot p95"),
    (gate("tpot", limit="<=25 ms", statistic="mean"), "tpot mean"),
    (RISE, "tpot"),
    (gate("tpot", max_rise="5%", statistic="mean"), "tpot mean"),
    (gate("tpot", max_rise="5%", statistic="p90"), "tpot p90"),
)


@pytest.mark.parametrize("change", [0.0, -0.7], ids=["healthy", "at half the speed"])
@pytest.mark.parametrize("apart", [0.0, 0.1], ids=["equal everywhere", "equal by prompt"])
@pytest.mark.parametrize(("asked", "name"), CLOCKED)
def test_a_clock_that_stands_decides_nothing(asked: Gate, name: str, apart: float, change: float) -> None:
    now = samples(
        {
            "speedup": [[LEVEL + apart * prompt + change] * 8 for prompt in range(16)],
            "tpot": [[0.02 * math.exp(apart * prompt - change)] * 8 for prompt in range(16)],
        }
    )
    # One round of prompts that differ looks like any other; from the second on, a clock that stands is seen.
    looks = [Seen(look, first(look, now)) for look in ((1, 2, 4, 8) if not apart else (2, 4, 8))]

    said = judge(asked, looks, stored(BASELINE), context(looks=4))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        f"{name}: all 128 values repeat themselves to the last digit; needed: a clock that resolves one call"
    )


def test_pairs_that_equal_their_stored_medians_decide_no_change() -> None:
    levels = [LEVEL + 0.1 * prompt for prompt in range(16)]
    before = samples({"speedup": [[level] * 16 for level in levels]})

    said = judged(DROP, samples({"speedup": [[level] for level in levels]}), before, 1)

    assert said.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize(
    ("metric", "rows"),
    [("speedup", spread(LEVEL)), ("tpot", times(0.02)), ("throughput", times(50)), ("exact_match", [[1.0] * 8] * 16)],
)
def test_a_value_that_is_no_number_is_an_error(metric: str, rows: list[list[float]], value: float) -> None:
    asked = gate(metric, limit=">=0 s" if metric == "tpot" else ">=0")
    now = samples({metric: [[value, *row[1:]] if number == 15 else row for number, row in enumerate(rows)]})

    said = judged(asked, now, None)

    assert (said.outcome, said.reason) == (Outcome.ERROR, f"{metric} of p15 is not a finite number")
    assert said.advice == "look at the clock of the engine's adapter"


def test_a_last_round_that_is_no_number_undoes_no_decision_but_one_from_all_rounds() -> None:
    rows = {"speedup": with_one(spread(LEVEL), math.nan), "exact_match": with_one([[1.0] * 8] * 16, math.nan)}

    early, from_all = (judged(asked, samples(rows), None) for asked in (SPEEDUP, gate("exact_match", limit=">=0")))

    assert (early.outcome, early.checks[0].looks[-1].rounds) == (Outcome.PASS, 2)
    assert from_all.reason == "exact_match of p15 is not a finite number"


@pytest.mark.parametrize("asked", [TPOT, RISE, gate("tpot", limit="<=25 ms", statistic="p99")])
def test_a_negative_duration_is_an_error(asked: Gate) -> None:
    rows = times(0.02)
    backwards = samples({"tpot": [[-value for value in row] for row in rows]})

    for now in (backwards, samples({"tpot": [[-0.02, *rows[0][1:]], *rows[1:]]})):
        said = judged(asked, now)

        assert (said.outcome, said.reason) == (Outcome.ERROR, "tpot is below zero: the clock ran backwards")
        assert said.advice == "look at the clock of the engine's adapter"


def test_a_negative_throughput_is_an_error() -> None:
    said = judged(gate("throughput", limit="<=10 tokens/s"), samples({"throughput": [[-5.0, -5.1]] * 16}), rounds=2)

    assert (said.outcome, said.reason) == (Outcome.ERROR, "throughput is below zero: the clock ran backwards")


@pytest.mark.parametrize("statistic", ["median", "mean", "p90"])
@pytest.mark.parametrize("value", [0.0, -0.02])
def test_a_stored_time_that_is_not_positive_is_compared_with_nothing(statistic: str, value: float) -> None:
    before = samples({"tpot": with_one(times(0.02, rounds=16), value)})

    said = judged(gate("tpot", max_rise="5%", statistic=statistic), samples({"tpot": times(0.02)}), before)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason.endswith(": a time is not positive; needed: a clock that resolves it")


@pytest.mark.parametrize("step", [-HOUR, +HOUR])
def test_a_clock_that_is_set_during_a_call_makes_no_pass_of_a_loss(step: float) -> None:
    lossy = samples({"speedup": with_one(spread(LEVEL + math.log(0.9)), LEVEL + step)})

    said = judged(DROP, lossy)

    assert said.outcome is Outcome.FAIL
    assert said.reason.startswith("speedup 1.6")


def test_a_clock_that_is_set_during_a_call_leaves_a_mean_open() -> None:
    stepped = [[row[0] - (HOUR if number == 0 else 0), *row[1:]] for number, row in enumerate(spread(LEVEL))]

    said = judged(SPEEDUP, samples({"speedup": stepped}))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason.startswith("speedup 1.688x [")
    assert "straddles the limit >=1.5x; " in said.reason


@pytest.mark.parametrize(
    ("asked", "holds"),
    [(DROP, "speedup"), (RISE, "tpot"), (gate("exact_match", max_drop="1%"), "exact_match")],
)
def test_a_baseline_of_other_prompts_is_an_error(asked: Gate, holds: str) -> None:
    now = samples({"speedup": spread(LEVEL), "tpot": times(0.02), "exact_match": [[1.0] * 8] * 16})
    others = Samples("c", greedy=True, prompts=tuple(_renamed(now, 16)))
    few = Samples("c", greedy=True, prompts=tuple(_renamed(now, 9)))

    none, some = judged(asked, now, others), judged(asked, now, few)

    assert none.outcome is some.outcome is Outcome.ERROR
    assert none.reason == f"the baseline for e::short-t0-c1 holds no {holds} of these prompts"
    assert some.reason == "the baseline for e::short-t0-c1 holds only 7 of these prompts"
    assert none.advice == some.advice == "record it: pytest --specgate-update a"


def _renamed(of: Samples, count: int) -> list[PromptSamples]:
    return [replace(p, prompt=f"other-{n}") if n < count else p for n, p in enumerate(of.prompts)]


def test_counts_of_other_prompts_are_an_error() -> None:
    now = samples({}, [[Counts(8, 8, 32, 20, 16)]] * 16)
    few = Samples("c", greedy=True, prompts=tuple(_renamed(now, 9)))

    said = judged(gate("acceptance_rate", max_drop="5%"), now, few, 1)

    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds only 7 of these prompts",
    )


def test_no_look_is_an_error() -> None:
    said = judge(SPEEDUP, [], None, context())

    assert (said.outcome, said.reason) == (Outcome.ERROR, "no round was measured")
    assert said.advice == "raise measure.rounds"


def test_a_ratio_beyond_all_floats_is_no_exception() -> None:
    now = samples({"speedup": [[800.0 + value for value in row] for row in spread(LEVEL)]})

    assert judged(DROP, now).outcome is Outcome.PASS
    assert judged(gate("speedup", max_rise="5%"), now).outcome is Outcome.FAIL
