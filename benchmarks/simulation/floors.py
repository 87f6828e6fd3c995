"""Absolute limits on a speed-up, and how often their intervals cover the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pytest_specgate.records import Interval
from pytest_specgate.stats.looks import Looks
from simulation.judging import BATCH, MOST_ROUNDS, SEQUENTIAL, gate, judged, tally
from simulation.machine import PROMPTS, SPEEDUP, Array, Levels, Machine, run
from simulation.pages import Effort, Page, paragraph, percent, table

LIMIT = f">={SPEEDUP}x"
THESE, LIKE_THESE = gate("speedup", limit=LIMIT), gate("speedup", limit=LIMIT, population=True)
#: The error rate of a suite of ten checks, as in the study that is quoted beside ours.
ALPHA = 0.001
#: Distance of the true speed-up from the limit: what that study found, FAIL / PASS, at .001 for both errors.
KNOWN = {-0.10: "", -0.05: ".997 / –", -0.02: ".664 / –", 0.0: ".001 / .001", 0.02: "", 0.05: "– / .997", 0.10: ""}
KNOWN_LIKE = {-0.10: ".333 / –", -0.05: "", -0.02: "", 0.0: "", 0.02: "", 0.05: "", 0.10: "– / .268"}
QUIET, USUAL = "neither drift nor spikes", "drift 5 %, spikes 2 % × +30 %"
MACHINES = {QUIET: Machine(drift=0.0, spikes=(0.0, 0.0)), USUAL: Machine()}


def builds(seed: list[int], count: int, machine: Machine, shape: tuple[int, int]) -> Iterator[tuple[float, Array]]:
    """(true mean log speed-up on these prompts, log ratios) of each build; ``shape`` is (prompts, rounds)."""
    random = np.random.default_rng(seed)
    for start in range(0, count, BATCH):
        levels = Levels.draw(random, min(BATCH, count - start), shape[0], exact=False)
        yield from zip(levels.speedup.mean(axis=1).tolist(), run(random, machine, levels, shape[1]).ratios)


def verdicts(effort: Effort) -> Iterator[str]:
    """FAIL and PASS about a floor, for these prompts and for prompts like these."""
    rows, count = [], effort.runs(2000)
    for distance, known in KNOWN.items():
        row = [f"{distance:+.0%}"]
        for number, asked in enumerate((THESE, LIKE_THESE)):
            found, seed = [], [effort.seed, 5, number, round(100 + 100 * distance)]
            for own, values in builds(seed, count, MACHINES[USUAL], (PROMPTS, MOST_ROUNDS)):
                # The limit stands at 1.5x: the true value is moved, of these prompts or of all prompts.
                moved = values + math.log1p(distance) - (0 if number else own - math.log(SPEEDUP))
                found.append(judged(asked, {"speedup": moved}, None, ALPHA, SEQUENTIAL))
            total = tally(found)
            row += [f"{total.shares} / {total.pairs:.0f}", KNOWN_LIKE[distance] if number else known]
        rows.append(row)
    yield from table(["true distance", "these prompts", "known", "prompts like these", "known"], rows)


def coverage(effort: Effort) -> Iterator[str]:
    """Nominal 95 % intervals of both questions."""
    rows, count, once = [], effort.runs(2000), Looks((4,))
    for name, machine in MACHINES.items():
        for prompts in (8, 16, 32):
            seed = [effort.seed, 6, name is USUAL, prompts]
            inside, widths = np.zeros((count, 3)), np.zeros((count, 2))
            for number, (own, values) in enumerate(builds(seed, count, machine, (prompts, 4))):
                these, like = (
                    judged(asked, {"speedup": values}, None, 0.025, once).measured for asked in (THESE, LIKE_THESE)
                )
                truths = ((these, own), (like, math.log(SPEEDUP)), (like, own))
                inside[number] = [covers(interval, truth) for interval, truth in truths]
                widths[number] = [half_width(these), half_width(like)]
            shares, (narrow, wide) = inside.mean(axis=0), widths.mean(axis=0)
            known = ["96.7 % ± 1.6 %", "94.7 % ± 6.5 %", "100 %"] if prompts == 16 and name is USUAL else [""] * 3
            rows.append([name, str(prompts), f"{shares[0]:.1%} ± {narrow:.1%}", known[0],
                         f"{shares[1]:.1%} ± {wide:.1%}", known[1], f"{shares[2]:.1%}", known[2]])  # fmt: skip
    head = ["machine", "prompts", "these prompts", "known", "prompts like these", "known"]
    yield from table([*head, "the latter, asked of these", "known"], rows)


def covers(interval: Interval | None, log_truth: float) -> bool:
    return interval is not None and interval.low <= math.exp(log_truth) <= interval.high


def half_width(interval: Interval | None) -> float:
    """As a share of the value."""
    return (interval.high - interval.low) / 2 / interval.value if interval else math.nan


def page(effort: Effort) -> Page:
    """docs/statistics/floors.md."""
    lines = [
        *paragraph(
            f"""`limit: '{LIMIT}'`, {PROMPTS} prompts, {percent(0.03)} noise of a pair; speed-ups of prompts scatter by
            12 %. "Known" is what an earlier study of the same methods found on its own simulated machines; an empty
            cell was not studied."""
        ),
        "",
        "## Verdicts",
        *paragraph(
            f"""{effort.runs(2000):,} builds a cell on machines with {USUAL}: share of FAIL / share of PASS / mean
            pairs, at error rates of {ALPHA} for a wrong FAIL and 0.05 for a wrong PASS over looks after 1, 2, 4 and 8
            rounds. The known shares are at .001 for both errors, over looks after 4 and 8 rounds. A true distance of 0
            lies right at the limit, where both verdicts are wrong."""
        ),
        *verdicts(effort),
        "",
        "## Intervals",
        *paragraph(
            f"""Nominal 95 % intervals after 4 rounds, {effort.runs(2000):,} runs a row: share that covers the truth ±
            mean half-width. "These prompts" is the pooled scatter within prompts, "prompts like these" (`population:
            true`) the scatter of prompt means. The last column asks the latter interval for the mean of the prompts at
            hand: it is too wide for that."""
        ),
        *coverage(effort),
    ]
    return Page("floors.md", "Limits on a speed-up", tuple(lines))
