"""What judging look by look obeys: no more errors than one look may make, and the same answer live and replayed.

Seeds are fixed. Bounds are the promised rates plus three standard errors of the number of simulated runs.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate import interim
from pytest_specgate.errors import Location
from pytest_specgate.gates import JudgeContext, Seen, judge, open_checks
from pytest_specgate.measure.run import Plan, measure_case, unmeasured
from pytest_specgate.records import Finding, Outcome, Pair, Place, PromptSamples, Samples, Stored, Verdict
from pytest_specgate.stats.budget import WRONG_PASS
from pytest_specgate.stats.looks import doubling
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.model import GateSpec
from tests.unit.project import load, started, write

PROMPTS, LOOKS, STORED_ROUNDS = 16, doubling(8), 16
HERE = Place("simulated", 1, "none")
DECIDED = {Outcome.PASS, Outcome.FAIL}


def gate(metric: str, **spec: Any) -> Gate:
    return Gate(GateSpec.model_validate({"metric": metric, **spec}), Location(Path("a.specgate.yaml"), 1, 1))


DROP, FLOOR = gate("speedup", max_drop="5%"), gate("speedup", limit=">=1.425x")
BOTH = gate("speedup", max_drop="5%", limit=">=1.425x")


def context(alpha: float = 0.001) -> JudgeContext:
    return JudgeContext("a", "e::c", "e", alpha, HERE, dt.date(2030, 1, 1), looks=LOOKS.count)


def run(values: Any, metric: str = "speedup", *, greedy: bool = True) -> Samples:
    prompts = [PromptSamples(f"p{i}", f"p{i}", {metric: tuple(row)}) for i, row in enumerate(values.tolist())]
    return Samples("e::c", greedy, tuple(prompts))


def looks_of(values: Any, metric: str = "speedup", *, greedy: bool = True) -> list[Seen]:
    return [Seen(n, run(values[:, :n], metric, greedy=greedy)) for n in LOOKS.taken(values.shape[1])]


def builds(seed: int, count: int, loss: float, noise: float) -> list[tuple[list[Seen], Stored]]:
    """Looks at simulated runs that lost ``loss`` since the baseline stored with each."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        levels = random.normal(0, 0.12, (PROMPTS, 1))
        levels += math.log(1.5) - levels.mean()
        before = run(levels + random.normal(0, noise, (PROMPTS, STORED_ROUNDS)))
        now = levels + math.log1p(-loss) + random.normal(0, noise, (PROMPTS, LOOKS.most))
        found.append((looks_of(now), Stored(HERE, {}, {}, "2030-01-01", before)))
    return found


@pytest.mark.parametrize(("asked", "loss"), [(DROP, 0.05), (FLOOR, 0.05)])
@pytest.mark.parametrize("noise", [0.01, 0.10])
def test_four_looks_err_no_more_than_one_may(asked: Gate, loss: float, noise: float) -> None:
    runs, alpha = 250, 0.04

    simulated = builds(31, runs, loss, noise)

    found = Counter(judge(asked, seen, stored, context(alpha)).outcome for seen, stored in simulated)

    for outcome, rate in ((Outcome.FAIL, alpha), (Outcome.PASS, WRONG_PASS)):
        assert found[outcome] / runs <= rate + 3 * math.sqrt(rate / runs)


def test_no_change_never_fails_and_twice_the_allowed_one_is_found_early() -> None:
    same = [judge(DROP, seen, stored, context()) for seen, stored in builds(32, 100, 0.0, 0.03)]
    worse = [judge(DROP, seen, stored, context()) for seen, stored in builds(33, 100, 0.10, 0.03)]

    assert {verdict.outcome for verdict in same} == {Outcome.PASS}
    assert {verdict.outcome for verdict in worse} == {Outcome.FAIL}
    assert np.mean([verdict.checks[0].looks[-1].rounds for verdict in worse]) * PROMPTS <= 25


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    noise=st.sampled_from([0.01, 0.05, 0.2]),
    losses=st.lists(st.sampled_from([0.0, 0.05, 0.1, 0.5]), min_size=4, max_size=4),
    asked=st.sampled_from([DROP, FLOOR, BOTH]),
)
def test_the_first_decision_of_a_check_stands(seed: int, noise: float, losses: list[float], asked: Gate) -> None:
    """Whatever later rounds say: here each look's new rounds have a loss of their own."""
    random = np.random.default_rng(seed)
    added = [np.full(n, math.log1p(-loss)) for n, loss in zip((1, 1, 2, 4), losses)]
    now = math.log(1.5) + np.concatenate(added) + random.normal(0, noise, (PROMPTS, LOOKS.most))
    before = run(math.log(1.5) + random.normal(0, noise, (PROMPTS, STORED_ROUNDS)))
    stored, seen = Stored(HERE, {}, {}, "2030-01-01", before), looks_of(now)

    said = [judge(asked, seen[:count], stored, context()) for count in range(1, len(seen) + 1)]

    for earlier, later in pairwise(said):
        for then, after in zip(earlier.checks, later.checks):
            assert then.kind == after.kind
            if then.outcome in DECIDED:
                assert after == then
            assert after.looks[: len(then.looks)] == then.looks
    for check in said[-1].checks:
        assert [look.outcome in DECIDED for look in check.looks[:-1]] == [False] * (len(check.looks) - 1)
        assert check.looks[-1].outcome is check.outcome


@pytest.mark.parametrize(
    ("asked", "greedy"),
    [
        (gate("exact_match", limit="==100%"), True),
        (gate("length_ratio", limit="==1x"), True),
        (gate("token_accounting", limit="==100%"), True),
        (gate("token_accounting", limit="==100%"), False),
    ],
)
def test_a_deterministic_gate_waits_for_the_last_round(asked: Gate, greedy: bool) -> None:
    values = np.ones((PROMPTS, LOOKS.most))
    sound = judge(asked, looks_of(values, asked.spec.metric, greedy=greedy), None, context())
    values[-1, -1] = 0.5

    said = judge(asked, looks_of(values, asked.spec.metric, greedy=greedy), None, context())

    assert (sound.outcome, said.outcome) == (Outcome.PASS, Outcome.FAIL)
    assert [look.rounds for look in said.checks[0].looks] == [LOOKS.most]


@pytest.mark.parametrize(("speedup", "noise", "stops"), [(1.5, 0.01, {2}), (1.2, 0.1, {8}), (1.26, 0.05, {2, 4, 8})])
def test_a_replay_of_the_looks_says_what_was_said_live(
    tmp_path: Path, speedup: float, noise: float, stops: set[int]
) -> None:
    asked = ({"metric": "speedup", "limit": ">=1.2x"}, {"metric": "tpot", "limit": "<=9 ms"})
    suite, case = load(write(tmp_path, *asked, options={"speedup": speedup, "noise": noise, "seed": 7}))
    live: dict[int, list[Verdict]] = {}

    def verdicts(pairs: Sequence[Pair]) -> list[Verdict]:
        seen = interim.looks_at(replace(unmeasured(started(suite), case), pairs=tuple(pairs)), case, LOOKS)
        return [judge(one, seen, None, context()) for one in case.gates]

    def still_open(pairs: Sequence[Pair], findings: Sequence[Finding], _: object) -> list[str]:
        live[max(pair.round for pair in pairs) + 1] = verdicts(pairs)
        return ["measure on, to see whether later rounds would change what was said"]

    whole = measure_case(started(suite), case, Plan(LOOKS, 1, None, still_open, lambda _: None)).pairs
    live[LOOKS.most] = verdicts(whole)  # nobody is asked at the last look
    undecided = [n for n, said in live.items() if any(open_checks(verdict.checks) for verdict in said)]
    stopped = min(live.keys() - undecided, default=LOOKS.most)

    assert stopped in stops
    assert verdicts([pair for pair in whole if pair.round < stopped]) == live[stopped]
    assert live[LOOKS.most] == live[stopped]
