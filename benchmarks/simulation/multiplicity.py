"""Many checks in one build: the budget holds, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pytest_specgate.records import Outcome
from pytest_specgate.stats.budget import PER_BUILD, share
from simulation.judging import Tally, batches, speedups, tally
from simulation.machine import Machine
from simulation.pages import Effort, Goal, Page, at_most, paragraph, table
from simulation.speedup import DROP, naive_fails

#: Checks of a build, and how many builds of so many are judged.
SIZES = {5: 4000, 20: 1000, 50: 600, 200: 320}
NOISES = (0.01, 0.03, 0.05, 0.10)


def failed(effort: Effort, size: int, loss: float) -> tuple[int, int, int]:
    """(builds with a check that failed, builds that the naive rule failed, builds); as many checks at each noise."""
    builds = effort.runs(SIZES[size])
    each = builds * size // len(NOISES)
    fails: list[bool] = []
    naive: list[bool] = []
    for noise in NOISES:
        seed = [effort.seed, 8, size, round(noise * 1000), round(loss * 1000)]
        for batch in batches(seed, each, replace(Machine(), noise=noise), loss):
            fails += [v.outcome is Outcome.FAIL for v in speedups(DROP, batch, alpha=share(size))]
            wrong = naive_fails(batch)
            naive += [True] * wrong + [False] * (len(batch) - wrong)
    deal = (
        np.random.default_rng([effort.seed, 9]).permutation(len(fails))[: len(fails) // size * size].reshape(-1, size)
    )
    return int(np.array(fails)[deal].any(axis=1).sum()), int(np.array(naive)[deal].any(axis=1).sum()), len(deal)


def budget(effort: Effort) -> Iterator[tuple[list[str], tuple[Goal, Goal]]]:
    """A row and its goals for each size of build."""
    for size in SIZES:
        same, naive, builds = failed(effort, size, 0.0)
        worst, _, _ = failed(effort, size, 0.05)
        row = [str(size), f"{share(size):g}", at_most(same, builds), at_most(worst, builds), f"{naive / builds:.3f}"]
        yield (
            row,
            (
                Goal.at_most(f"FAIL of a build of {size} checks without a change", PER_BUILD, same, builds),
                Goal.at_most(f"FAIL of a build of {size} checks, all right at their limit", PER_BUILD, worst, builds),
            ),
        )


def price(effort: Effort) -> Iterator[list[str]]:
    """What a smaller share of the budget costs where something did change."""
    for size in (1, 5, 10, 20, 40, 50, 200):
        row = [str(size)]
        for noise in (0.03, 0.10):
            found = Tally()
            for batch in batches([effort.seed, 10, round(noise * 1000)], effort.runs(1000), Machine(noise), 0.10):
                found += tally(speedups(DROP, batch, alpha=share(size)))
            row += [f"{found.fails / found.runs:.3f}", f"{found.pairs:.1f}"]
        yield row


def page(effort: Effort) -> Page:
    """docs/statistics/multiplicity.md."""
    rows, goals = zip(*budget(effort))
    head = ["checks", "error rate of each", "FAIL, unchanged", "FAIL, each check at its limit", "naive rule, unchanged"]
    lines = [
        *paragraph(
            f"""A build fails if any of its checks does. `max_drop: 5%`, a quarter of the checks at each of 1, 3, 5 and
            10 % noise of a pair; machines, looks, prompts and baseline as for speed-ups. A check gets an equal share
            of the build's error rate of {PER_BUILD}. Without a change a check is 5 % away from its limit; the hardest
            case for the budget is a build whose every check lost exactly what is allowed. Brackets hold the exact
            upper limit (Clopper–Pearson, one-sided, 95 %)."""
        ),
        *table(head, rows),
        *paragraph(
            f"""What a smaller share costs: a loss of 10 % against an allowed 5 %, share detected and mean pairs,
            {effort.runs(1000):,} builds a cell."""
        ),
        *table(["checks", "3 % noise", "pairs", "10 % noise", "pairs"], list(price(effort))),
    ]
    return Page(
        "multiplicity.md", "Many checks in one build", tuple(lines), tuple(goal for pair in goals for goal in pair)
    )
