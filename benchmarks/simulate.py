"""How often gates are right and wrong, on simulated machines: regenerates the tables of docs/statistics.

python benchmarks/simulate.py [--seed 0] [--scale 1] [--only speedup.md ...] [--output docs/statistics]

The gates are the shipped ones, asked through ``gates.judge``; simulated are the times and the counts that they judge.
Each page has a seed of its own, so one page can be made again without the others. ``--scale 0.1`` takes a tenth of the
runs, and of the time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from simulation import acceptance, floors, latency, multiplicity, robustness, sampling, speedup
from simulation.pages import Effort, Goal, Page, paragraph, table

PAGES: Mapping[str, Callable[[Effort], Page]] = {
    "speedup.md": speedup.page,
    "robustness.md": robustness.page,
    "floors.md": floors.page,
    "latency.md": latency.page,
    "acceptance.md": acceptance.page,
    "multiplicity.md": multiplicity.page,
    "sampling.md": sampling.page,
}


def text(page: Page, effort: Effort) -> Iterator[str]:
    """The whole page, its goals after its tables."""
    yield f"# {page.title}"
    made = f"Made by `python benchmarks/simulate.py --seed {effort.seed} --scale {effort.scale:g}`; do not edit."
    yield from paragraph(f"{made} Simulated times and counts, no device; the gates are the shipped ones.")
    yield from page.lines
    if page.goals:
        yield ""
        yield "## Goals"
        yield from table(["what", "goal", "found", ""], list(told(page.goals)))


def told(goals: Iterable[Goal]) -> Iterator[list[str]]:
    """A row for each goal."""
    for goal in goals:
        yield [goal.name, goal.wanted, goal.found, goal.verdict]


def overview(pages: Sequence[Page]) -> Page:
    """docs/statistics/README.md: where what stands, and all goals."""
    lines = [
        *paragraph(
            """How often verdicts are right and wrong, and what they cost, by simulation. A verdict is FAIL, PASS or
            INCONCLUSIVE; error rates bound FAIL and PASS, and what a machine's noise cannot decide stays open."""
        ),
        "",
        *(f"- [{page.title}]({page.file})" for page in pages),
    ]
    return Page("README.md", "How often gates are right", tuple(lines), tuple(goal for p in pages for goal in p.goals))


def write(page: Page, effort: Effort, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / page.file).write_text("\n".join(text(page, effort)) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the runs that the stored pages took")
    parser.add_argument("--only", nargs="+", choices=PAGES, default=list(PAGES), metavar="PAGE")
    parser.add_argument("--output", type=Path, default=Path("docs/statistics"))
    chosen = parser.parse_args()
    effort, pages = Effort(chosen.seed, chosen.scale), []
    for name in chosen.only:
        begin = time.process_time()
        page = PAGES[name](effort)
        pages.append(page)
        write(page, effort, chosen.output)
        print(f"wrote {chosen.output / name} in {time.process_time() - begin:.0f} s of processor time", flush=True)
        for goal in page.goals:
            print(f"  {goal.verdict}: {goal.name}: {goal.found} (goal: {goal.wanted})", flush=True)
    if len(pages) == len(PAGES):  # the overview tells all goals or none
        write(overview(pages), effort, chosen.output)


if __name__ == "__main__":
    main()
