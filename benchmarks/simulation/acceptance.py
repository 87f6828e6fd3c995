"""Acceptance of sampled runs: intervals, paired changes, and decay over a context."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator

import numpy as np

from pytest_specgate.gates import JudgeContext, judge_once
from pytest_specgate.records import Counts, Interval, Outcome, PromptSamples, Samples, Stored, Verdict
from pytest_specgate.stats.limits import Limits
from pytest_specgate.stats.proportions import exact_limits
from pytest_specgate.stats.rates import pooled_slope, slope_part
from pytest_specgate.suite.cases import Gate
from simulation.judging import PLACE, gate
from simulation.machine import Array
from simulation.pages import Effort, Goal, Page, paragraph, table

MEAN, SPREAD, TESTED = 0.6, 0.10, 200
LIMIT, CHANGE = gate("conditional_acceptance", limit=">=0%"), gate("conditional_acceptance", max_drop="0%")
#: Doublings of the context, and tokens tested at each.
DEPTHS, AT_EACH = np.arange(8.0, 13.0), 50
#: Runs by (prompts, true drop).
DROPS = {(32, 0.0): 20000, (64, 0.0): 20000, (32, 0.02): 2000, (64, 0.02): 2000, (32, 0.05): 2000, (64, 0.05): 2000}


def run(random: np.random.Generator, rates: Array) -> Samples:
    """One round of a sampled run that tests 200 tokens of every prompt, accepted at these rates."""
    accepted = random.binomial(TESTED, np.clip(rates, 0, 1))
    prompts = [PromptSamples(f"p{i}", f"p{i}", {}, (Counts(TESTED, TESTED, TESTED, TESTED, int(a)),))
               for i, a in enumerate(accepted)]  # fmt: skip
    return Samples("e::c", greedy=False, prompts=tuple(prompts))


def judged(asked: Gate, now: Samples, before: Samples | None, alpha: float) -> Verdict:
    stored = None if before is None else Stored(PLACE, {}, {}, "2030-01-01", before)
    return judge_once(asked, now, stored, JudgeContext("s", "e::c", "scripted", alpha, PLACE, dt.date(2030, 1, 1)))


def intervals(effort: Effort) -> Iterator[list[str]]:
    """Coverage of nominal 95 % intervals for prompts like these."""
    known = {16: "94.8–95.5 %", 32: "94.8–95.5 %"}
    for prompts in (8, 16, 32, 64):
        random, count, inside, binomial = np.random.default_rng([effort.seed, 11, prompts]), effort.runs(4000), 0, 0
        for _ in range(count):
            now = run(random, random.normal(MEAN, SPREAD, prompts))
            found = judged(LIMIT, now, None, 0.025).measured
            assert isinstance(found, Interval)
            inside += found.low <= MEAN <= found.high
            error = math.sqrt(found.value * (1 - found.value) / (prompts * TESTED))
            binomial += abs(found.value - MEAN) <= 1.96 * error
        yield [str(prompts), f"{inside / count:.1%}", known.get(prompts, ""), f"{binomial / count:.1%}", "38–40 %"]


def changes(effort: Effort) -> Iterator[tuple[list[str], tuple[int, int]]]:
    """FAIL on the same prompts after a true drop, at .001; and (fails, runs)."""
    known = {(32, 0.0): ".001", (32, 0.05): ".953", (64, 0.02): ".52"}
    for (prompts, drop), runs in DROPS.items():
        random, count, fails = (
            np.random.default_rng([effort.seed, 12, prompts, round(100 * drop)]),
            effort.runs(runs),
            0,
        )
        for _ in range(count):
            rates = random.normal(MEAN, SPREAD, prompts)
            verdict = judged(CHANGE, run(random, rates - drop), run(random, rates), 0.001)
            fails += verdict.outcome is Outcome.FAIL
        low, high = exact_limits(fails, count)
        row = [
            str(prompts),
            f"{drop:.0%}",
            f"{fails / count:.4f} ({low:.4f} to {high:.4f})",
            known.get((prompts, drop), ""),
        ]
        yield row, (fails, count)


def decaying(random: np.random.Generator, prompts: int, slope: float, *, easy: bool) -> Limits:
    """Slope limits at 1 % of prompts of which half end after three depths; ``easy``: those that go on are easier."""
    parts, hits, trials = [], 0.0, 0.0
    for prompt in range(prompts):
        short = prompt % 2 == 0
        base = random.normal(MEAN + (0.1 if easy and not short else 0.0), SPREAD)
        depths = DEPTHS[:3] if short else DEPTHS
        kept = [float(random.binomial(AT_EACH, _rate(random, base + slope * (d - DEPTHS[0])))) for d in depths]
        tested = [float(AT_EACH)] * len(depths)
        if (part := slope_part(depths, kept, tested)) is not None:
            parts.append(part)
        hits, trials = hits + sum(kept), trials + sum(tested)
    found = pooled_slope(parts, (hits, trials), 0.01, 0.01)
    assert isinstance(found, Limits)
    return found


def _rate(random: np.random.Generator, mean: float) -> float:
    return min(max(mean + random.normal(0, 0.03), 0.0), 1.0)


def decay(effort: Effort) -> Iterator[list[str]]:
    """False alarms and power of the decay slope."""
    known = {(32, 0.0): ".013–.015", (16, -0.04): ".95", (32, -0.04): ".999"}
    for prompts, slope, runs in ((16, 0.0, 4000), (32, 0.0, 4000), (16, -0.04, 1000), (32, -0.04, 1000)):
        row = [str(prompts), f"{slope:+.0%}"]
        for easy in (False, True):
            random, count = (
                np.random.default_rng([effort.seed, 13, prompts, round(-100 * slope), easy]),
                effort.runs(runs),
            )
            found = [decaying(random, prompts, slope, easy=easy) for _ in range(count)]
            row.append(
                f"{sum(f.high < 0 for f in found) / count:.4f}, mean {np.mean([f.estimate for f in found]):+.4f}"
            )
        yield [*row, known.get((prompts, slope), "")]


def page(effort: Effort) -> Page:
    """docs/statistics/acceptance.md."""
    rows, counts = zip(*changes(effort))
    fails, runs = (sum(pair[i] for pair in counts[:2]) for i in (0, 1))
    goal = Goal.at_most("false alarm of a paired change at .001", 0.001, fails, runs)
    lines = [
        *paragraph(
            """`conditional_acceptance` of sampled runs: 200 tokens tested for every prompt, one conversation each; a
            prompt's rate is drawn about 60 % with a standard deviation of 10 points. Greedy runs on equal texts are
            compared exactly and are not simulated. "Known" is what an earlier study of the same methods found; an
            empty cell was not studied."""
        ),
        "",
        "## Intervals for conversations like these",
        *paragraph(f"Nominal 95 %, {effort.runs(4000):,} runs a row."),
        *table(["prompts", "covers", "known", "a binomial interval covers", "known"], list(intervals(effort))),
        "",
        "## A change on the same prompts",
        *paragraph(
            f"""`max_drop: 0%` at an error rate of .001 for one look: share of FAIL with exact 95 % limits.
            {effort.runs(20000):,} runs a row without a drop, {effort.runs(2000):,} with one."""
        ),
        *table(["prompts", "true drop (points)", "FAIL", "known"], rows),
        "",
        "## Decay over a context",
        *paragraph(
            f"""`stats.rates.pooled_slope`, the estimate of `acceptance_slope`: its upper limit at 1 % lies below zero.
            {effort.runs(4000):,} runs a row without a slope, {effort.runs(1000):,} with one. Prompts reach three or
            five depths, a doubling apart, with {AT_EACH} tokens tested at each. In the second column of alarms those
            that reach five are 10 points easier, which pooling would take for a rise. The known figures are of a study
            whose numbers of tokens and depths are not recorded."""
        ),
        *table(
            ["prompts", "slope per doubling", "alarm, mean slope", "easy long prompts", "known alarm"],
            list(decay(effort)),
        ),
    ]
    return Page("acceptance.md", "Acceptance", tuple(lines), (goal,))
