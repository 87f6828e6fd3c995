"""Speed-up against a stored baseline: sequential looks, one look at the end, and the naive rule, on the same builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_specgate.records import Outcome
from pytest_specgate.stats.budget import WRONG_PASS, share
from pytest_specgate.stats.proportions import exact_limits
from pytest_specgate.study import naive
from simulation.judging import CHECKS, FIXED, MOST_ROUNDS, STORED_ROUNDS, Builds, Tally, batches, gate, speedups, tally
from simulation.machine import PROMPTS, Machine
from simulation.pages import Effort, Goal, Page, at_most, paragraph, percent, table

LOSSES, NOISES = (0.0, 0.02, 0.05, 0.10, 0.20), (0.01, 0.03, 0.05, 0.10)
SESSION = 0.05
DROP, FLOOR = gate("speedup", max_drop="5%"), gate("speedup", limit=">=1.425x")


@dataclass(frozen=True, slots=True)
class Cell:
    """What the designs said of the same builds; ``moving`` is the naive rule where the machine's level moves."""

    looks: Tally
    fixed: Tally
    naive: float
    moving: float


Cells = Mapping[tuple[float, float], Cell]


def naive_fails(builds: Builds) -> int:
    """Builds that their mean candidate time condemns."""
    means = zip(builds.now.candidate.mean(axis=(1, 2)), builds.stored.candidate.mean(axis=(1, 2)))
    return sum(naive.judge(float(now), float(stored)) is Outcome.FAIL for now, stored in means)


def cell(effort: Effort, noise: float, loss: float) -> Cell:
    """All designs on builds of one kind."""
    count = effort.runs(1000)
    looks, fixed, fails = Tally(), Tally(), 0
    seed = [effort.seed, 1, round(noise * 1000), round(loss * 1000)]
    for builds in batches(seed, count, Machine(noise), loss):
        looks += tally(speedups(DROP, builds))
        fixed += tally(speedups(DROP, builds, FIXED))
        fails += naive_fails(builds)
    moved = sum(naive_fails(b) for b in batches([*seed, 1], count, Machine(noise, session=SESSION), loss))
    return Cell(looks, fixed, fails / count, moved / count)


def comparison(cells: Cells) -> Iterator[str]:
    """The table of all designs."""
    head = ["noise of a pair", "design", *(f"loss {percent(loss)}" for loss in LOSSES)]
    rows = []
    for noise in NOISES:
        row = [cells[noise, loss] for loss in LOSSES]
        rows += [
            [
                percent(noise),
                "looks after 1, 2, 4, 8 rounds",
                *(f"{c.looks.shares} / {c.looks.pairs:.0f}" for c in row),
            ],
            ["", "one look after 8 rounds", *(f"{c.fixed.shares} / {c.fixed.pairs:.0f}" for c in row)],
            ["", "naive", *(f"{c.naive:.3f}" for c in row)],
            ["", f"naive, machine moves by {percent(SESSION)}", *(f"{c.moving:.3f}" for c in row)],
        ]
    yield from table(head, rows)


def cost(cells: Cells) -> Iterator[str]:
    """Mean pairs of the looks as a share of the fixed design's."""
    rows = [
        [percent(noise), *(f"{cells[noise, loss].looks.pairs / cells[noise, loss].fixed.pairs:.2f}" for loss in LOSSES)]
        for noise in NOISES
    ]
    yield from table(["noise of a pair", *(f"loss {percent(loss)}" for loss in LOSSES)], rows)


def half_the_pairs(cells: Cells) -> Goal:
    """Half of the fixed design's pairs at equal error, wherever a build is not at the limit itself."""
    decided = {key: c.looks.pairs / c.fixed.pairs for key, c in cells.items() if key[1] != 0.05}
    kept = [key for key, ratio in decided.items() if ratio <= 0.5]
    missed = ", ".join(f"{percent(n)} noise at {percent(loss)} loss" for n, loss in decided if (n, loss) not in kept)
    found = f"{len(kept)} of {len(decided)} kinds of builds off the limit; most pairs: {max(decided.values()):.2f}"
    name = "pairs to a verdict against the fixed design's, at the same error rate"
    said = f"{found}; missed at: {missed or 'none'}"
    return Goal.of(name, "at most half", said, met=len(kept) == len(decided))


def at_the_limit(effort: Effort) -> tuple[list[list[str]], list[Goal]]:
    """Wrong verdicts where either is wrong: a loss of exactly what is allowed."""
    rows, total, count = [], Tally(), effort.runs(4000)
    for asked, name in ((DROP, "max_drop: 5%"), (FLOOR, "limit: '>=1.425x'")):
        for noise in NOISES:
            seed = [effort.seed, 2, round(noise * 1000), asked is FLOOR]
            one = Tally()
            for builds in batches(seed, count, Machine(noise), 0.05):
                one += tally(speedups(asked, builds))
            total += one
            rows.append([f"`{name}`", percent(noise), at_most(one.fails, count), at_most(one.passes, count)])
    rows.append(["all", "", at_most(total.fails, total.runs), at_most(total.passes, total.runs)])
    return rows, [
        Goal.at_most("wrong PASS right at the limit", WRONG_PASS, total.passes, total.runs),
        Goal.at_most("wrong FAIL right at the limit", share(CHECKS), total.fails, total.runs),
    ]


def power(effort: Effort) -> tuple[list[list[str]], list[Goal]]:
    """A loss of 10 % against an allowed 5 % at 3 % noise."""
    count, rows, goals = effort.runs(4000), [], []
    for checks in (10, CHECKS):
        found = Tally()
        for builds in batches([effort.seed, 3], count, Machine(0.03), 0.10):
            found += tally(speedups(DROP, builds, alpha=share(checks)))
        low, high = exact_limits(found.fails, count)
        rows.append(
            [
                str(checks),
                f"{found.fails / count:.4f} ({low:.4f} to {high:.4f})",
                f"{found.pairs:.2f} ± {found.pairs_error:.2f}",
            ]
        )
        name = f"loss of 10 % against an allowed 5 % at 3 % noise, {checks} checks"
        goals += [
            Goal.at_least(f"{name}: detected", 0.99, found.fails, count),
            Goal.mean_at_most(f"{name}: mean pairs", 25, found.pairs, found.pairs_error),
        ]
    return rows, goals


def intro() -> Iterator[str]:
    """What all tables of the page share."""
    yield from paragraph(
        f"""`max_drop: 5%`, {PROMPTS} prompts, a baseline of {STORED_ROUNDS} rounds, at most {MOST_ROUNDS} rounds
        ({PROMPTS * MOST_ROUNDS} pairs). The error rates are those of a suite of {CHECKS} statistical checks:
        {share(CHECKS)} for a wrong FAIL, {WRONG_PASS} for a wrong PASS. The machine drifts by 5 % over 50 calls and
        takes 30 % longer for 2 % of them; speed-ups of prompts scatter by 12 %. The noise of a pair is the standard
        deviation of the white part of its log ratio."""
    )


def page(effort: Effort) -> Page:
    """docs/statistics/speedup.md."""
    cells = {(noise, loss): cell(effort, noise, loss) for noise in NOISES for loss in LOSSES}
    limit_rows, limit_goals = at_the_limit(effort)
    power_rows, power_goals = power(effort)
    lines = [
        *intro(),
        "",
        "## Against a fixed number of rounds, and against the naive rule",
        *paragraph(
            f"""{effort.runs(1000):,} builds a cell: share of FAIL / share of PASS / mean pairs until the verdict; the
            rest is INCONCLUSIVE, and 0.000 means that none was seen. All designs judge the same builds. The naive rule
            is `mean candidate time > {naive.LARGEST_RISE} × stored mean` over all generations of the candidate arm;
            its cells are the share of FAIL, and all else passes. In its second row the machine is faster or slower
            from run to run, by a standard deviation of {percent(SESSION)}, which pairs do not see."""
        ),
        *comparison(cells),
        *paragraph(
            """Mean pairs of the looks as a share of the fixed design's. Each of four looks may err a quarter as often
            as one look may; where noise is as large as the loss that costs some power, and few builds end early."""
        ),
        *cost(cells),
        "",
        "## Right at the limit",
        *paragraph(
            f"""A loss of exactly 5 %: both verdicts are wrong, and each may come as often as its rate.
            {effort.runs(4000):,} builds a row; brackets hold the exact upper limit (Clopper–Pearson, one-sided,
            95 %)."""
        ),
        *table(["gate", "noise of a pair", "wrong FAIL", "wrong PASS"], limit_rows),
        "",
        "## A loss of 10 % at 3 % noise",
        *paragraph(
            f"""{effort.runs(4000):,} builds a row: share that failed with its exact 95 % limits, mean pairs ± standard
            error."""
        ),
        *table(["statistical checks of the suite", "detected", "pairs"], power_rows),
    ]
    goals = (half_the_pairs(cells), *power_goals, *limit_goals)
    return Page("speedup.md", "Speed-up against a baseline", tuple(lines), goals)
