"""What was measured as tables and sentences in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tabulate import tabulate

from decoders.arms import Native
from decoders.clock import CHOOSING, TELLING, Timed, ratio, spent
from decoders.parts import BETWEEN, OTHER, PARTS
from decoders.sections import BLOCKS, QUEUE, Goal, Section

GOALS = ["goal", "", "median by CPU", "by wall", "all tokens by CPU", "turns", "arm", "chosen among", ""]
HEADS = ["arm", "tokens per CPU second", "ratio by CPU", "by wall", "all tokens", "same texts"]
HEADS += ["ms a round: draft", "verify", "sample", "host", "drafted a row", "kept a row"]
HEADS += ["slots taken"]


def best(found: Mapping[str, Timed], base: str, contenders: Sequence[str]) -> str:
    """The one with the highest median of ratios by CPU on the half of the turns that is for choosing."""
    return max(contenders, key=lambda name: ratio(found[name], found[base], CHOOSING).cpu)


def reached(goal: Goal, section: Section, found: Mapping[str, Timed], dtype: str) -> tuple[str, list[str]]:
    """The arm that tells of a goal, and its row in the table of goals: on the half of the turns that did not choose."""
    several = len(goal.contenders) > 1
    arm = best(found, section.base, goal.contenders) if several else goal.contenders[0]
    told = ratio(found[arm], found[section.base], TELLING if several else None)
    title = ", ".join(filter(None, (section.title, goal.how, dtype)))
    numbers = [f"{told.cpu:.2f}", f"{told.wall:.2f}", f"{told.whole:.2f}", str(told.turns)]
    verdict = "reached" if told.cpu >= goal.least else "**not reached**"
    return arm, [title, f"≥ {goal.least}", *numbers, arm, str(len(goal.contenders)) if several else "", verdict]


def details(section: Section, found: Mapping[str, Timed], dtype: str) -> str:
    """A section with all its arms, over all turns."""
    return f"## {section.title}, {dtype}\n\n" + table(HEADS, list(_compared(section, found)))


def _compared(section: Section, found: Mapping[str, Timed]) -> Iterator[list[str]]:
    """Each arm's rate, its ratios, where a round's time goes, and what it drafts and keeps."""
    for name, timed in found.items():
        told = ratio(timed, found[section.base])
        ratios = [f"{told.cpu:.2f}", f"{told.wall:.2f}", f"{told.whole:.2f}", told.same]
        arm = section.arms[name]
        parts = [f"{value:.2f}" for value in spent(arm)] if isinstance(arm, Native) else [""] * 7
        yield [name, f"{timed.rate():.1f}", *ratios, *parts]


def gain(found: Mapping[str, Timed]) -> str:
    """What a queue gives over blocks, in a sentence."""
    names = [name.removesuffix(QUEUE) for name in found if name.endswith(QUEUE)]
    told = [f"{found[name + QUEUE].rate() / found[name + BLOCKS].rate():.2f} ({name})" for name in names]
    return f"A queue gives so many times the tokens per CPU second of blocks of eight: {'; '.join(told)}.\n"


def shares(profiled: Mapping[str, Mapping[str, float]]) -> str:
    """Where the time goes."""
    rows = [[name, *(f"{told[part]:.0%}" for part in (*PARTS, OTHER, BETWEEN))] for name, told in profiled.items()]
    said = "Where the time goes, of one prompt or batch with its prefill: by torch's profiler, to which small\n"
    said = f"{said}operations look dearer than they are."
    return f"{said}\n\n" + table(["arm", *PARTS, OTHER, BETWEEN], rows)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table, numbers as they are written."""
    return str(tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)) + "\n"
