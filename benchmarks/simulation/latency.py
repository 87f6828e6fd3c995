"""A time of the candidate arm against its stored median: what drift does, and what the reference arm saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_specgate.stats.budget import WRONG_PASS, share
from simulation.judging import CHECKS, Tally, batches, gate, judged, tally
from simulation.machine import Array, Machine, Runs
from simulation.pages import Effort, Goal, Page, paragraph, table

RISES = (0.0, 0.02, 0.05, 0.10, 0.20)
STEADY = "neither drift nor spikes"
MACHINES = {
    STEADY: Machine(drift=0.0, spikes=(0.0, 0.0)),
    "drift 5 %, spikes 2 % × +30 %": Machine(),
    "the same, and its level moves by 5 % from run to run": Machine(session=0.05),
    "the same, and its level moves by 15 % from run to run": Machine(session=0.15),
}
RISE = gate("tpot", max_rise="5%")


def series(runs: Runs, build: int, *, reference: bool) -> Mapping[str, Array]:
    """What a run stores of its times; the reference arm's are what shows a slower machine."""
    own = {"tpot": runs.candidate[build]}
    return {**own, "reference_tpot": runs.reference[build]} if reference else own


def counted(seed: list[int], count: int, machine: Machine, rise: float, *, reference: bool) -> Tally:
    """Verdicts on builds whose candidate arm takes longer by ``rise``."""
    found = Tally()
    for builds in batches(seed, count, machine, 1 - 1 / (1 + rise)):
        found += tally(
            judged(
                RISE,
                series(builds.now, build, reference=reference),
                series(builds.stored, build, reference=reference),
                share(CHECKS),
            )
            for build in range(len(builds))
        )
    return found


def cells(effort: Effort) -> Iterator[tuple[str, bool, dict[float, Tally]]]:
    """(machine, whether the reference arm was measured, tallies by rise)."""
    for number, (name, machine) in enumerate(MACHINES.items()):
        for reference in (True, False):
            found = {
                rise: counted(
                    [effort.seed, 7, number, round(100 * rise)], effort.runs(1000), machine, rise, reference=reference
                )
                for rise in RISES
            }
            yield name, reference, found


def goals(steady: Tally, drifting: Tally, unchanged: Tally) -> Iterator[Goal]:
    """Of checks with the reference arm: right at the limit on a steady and on other machines, and without a change."""
    yield Goal.at_most("FAIL of a latency check without a change", 0.001, unchanged.fails, unchanged.runs)
    for found, where in ((steady, "a machine that does not drift"), (drifting, "machines that do")):
        name = f"latency check right at the limit, {where}"
        yield Goal.at_most(f"wrong FAIL: {name}", share(CHECKS), found.fails, found.runs)
        yield Goal.at_most(f"wrong PASS: {name}", WRONG_PASS, found.passes, found.runs)


def page(effort: Effort) -> Page:
    """docs/statistics/latency.md."""
    rows, steady, drifting, unchanged = [], Tally(), Tally(), Tally()
    for name, reference, found in cells(effort):
        rows.append([name, "yes" if reference else "no", *(f"{t.shares} / {t.pairs:.0f}" for t in found.values())])
        if not reference:
            continue
        unchanged += found[0.0]
        if name == STEADY:
            steady += found[0.05]
        else:
            drifting += found[0.05]
    lines = [
        *paragraph(
            f"""`max_rise: 5%` on the median of a time, 3 % noise of a pair; looks, prompts, baseline and error rates
            as for speed-ups. Share of FAIL / share of PASS / mean pairs; the rest is INCONCLUSIVE.
            {effort.runs(1000):,} builds a cell. With the reference arm's times a rise that both arms share is the
            machine's, and the check stays open; without them (an engine that does not give them) it is taken for the
            candidate's."""
        ),
        *table(["machine", "reference arm", *(f"rise {rise:.0%}" for rise in RISES)], rows),
        *paragraph(
            """An absolute time is as uncertain as its machine. Drift moves the candidate arm's times away from the
            stored ones whether the decoder changed or not, and no interval from within a run sees that. So the error
            rates hold for a machine that does not drift. On others the reference arm keeps an unchanged decoder from
            failing, but near the limit FAIL is more frequent than its rate, and PASS has no rate at all: it says that
            the time did not rise, which a faster moment of the machine can bring about too. Where the decoder is
            meant, gate a ratio."""
        ),
    ]
    return Page("latency.md", "A time against a baseline", tuple(lines), tuple(goals(steady, drifting, unchanged)))
