"""No change, on machines that are hard to measure on: how often a check fails all the same."""

from __future__ import annotations

from dataclasses import replace

from pytest_specgate.records import Outcome
from simulation.judging import CHECKS, batches, speedups
from simulation.machine import Machine
from simulation.pages import Effort, Goal, Page, at_most, paragraph, percent, table
from simulation.speedup import DROP, naive_fails

NOISES = (0.01, 0.03, 0.05, 0.10)
MACHINES = {
    "drift 5 %, no spikes": Machine(spikes=(0.0, 0.0)),
    "drift 5 %, spikes 2 % × +30 %": Machine(),
    "drift 10 %": Machine(drift=0.10),
    "drift 15 %": Machine(drift=0.15),
    "drift 5 %, forgotten over 5 calls": Machine(length=5.0),
    "spikes 10 % × +100 %": Machine(spikes=(0.10, 1.0)),
    "10 % slower from first to last call": Machine(ramp=0.10),
    "first call of a pair 2 % slower": Machine(first=0.02),
}


def outcomes(effort: Effort, number: int, machine: Machine) -> tuple[list[Outcome], int]:
    """(what checks on this machine came to, as many at each noise; how many the naive rule failed)."""
    found: list[Outcome] = []
    naive = 0
    for noise in NOISES:
        seed = [effort.seed, 4, number, round(noise * 1000)]
        for builds in batches(seed, effort.runs(1500), replace(machine, noise=noise)):
            found += [verdict.outcome for verdict in speedups(DROP, builds)]
            naive += naive_fails(builds)
    return found, naive


def page(effort: Effort) -> Page:
    """docs/statistics/robustness.md."""
    rows: list[list[str]] = []
    every: list[Outcome] = []
    for number, (name, machine) in enumerate(MACHINES.items()):
        found, naive = outcomes(effort, number, machine)
        fails, passes = found.count(Outcome.FAIL), found.count(Outcome.PASS)
        rows.append([name, at_most(fails, len(found)), f"{passes / len(found):.3f}", f"{naive / len(found):.3f}"])
        every += found
    fails, checks = every.count(Outcome.FAIL), len(every)
    builds = [Outcome.FAIL in every[start : start + CHECKS] for start in range(0, checks - CHECKS + 1, CHECKS)]
    rows.append(["all", at_most(fails, checks), f"{every.count(Outcome.PASS) / checks:.3f}", ""])
    lines = [
        *paragraph(
            f"""`max_drop: 5%` at no change; looks, prompts, baseline and error rates as for speed-ups. Each row holds
            {checks // len(MACHINES):,} checks, as many each at {", ".join(map(percent, NOISES))} noise of a pair.
            Where nothing else is said, machines drift by 5 % over 50 calls and 2 % of their calls take 30 % longer on
            average; all of it hits both arms alike. Brackets hold the exact upper limit (Clopper–Pearson, one-sided,
            95 %)."""
        ),
        *table(["machine", "FAIL without a change", "share of PASS", "naive rule, FAIL"], rows),
        *paragraph(f"Builds of {CHECKS} such checks in which any failed: {at_most(sum(builds), len(builds))}."),
    ]
    goals = (
        Goal.at_most("FAIL of a check without a change", 0.001, fails, checks),
        Goal.at_most(f"FAIL of a build of {CHECKS} checks without a change", 0.01, sum(builds), len(builds)),
    )
    return Page("robustness.md", "No change on difficult machines", tuple(lines), goals)
