"""The native decoder beside transformers and beside itself: every goal of speed is a row of one run.

Arms run interleaved in one process on one thread. Wall time counts whatever else the machine does; CPU time of this
process does not, and is the better witness. All is decoding alone: what the target takes to read a prompt is taken off.
Prompts are those of the full suite, subsampled; greedy. What the loop's own counters cost comes last.

taskset -c 0 python benchmarks/decoding.py [--page docs/decoding.md] [--dtype bfloat16 float32] [--prompts 2]
    [--rounds 2] [--tokens 48] [--pairs 12] [--only plain suite assisted copy batch queue meter] [--others plain copy]
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path

import meter
import torch
from decoders import page
from decoders.arms import Models, Native
from decoders.clock import Timed, in_turn
from decoders.parts import shares
from decoders.sections import BOTH, CATEGORIES, DRAFTS, SECTIONS, Plan, Section

from pytest_specgate.engines.hf.machine import cpu_model

METER = "meter"
_BEGUN = time.perf_counter()
#: How drafts are made → the arm that was chosen.
_Chosen = dict[str, str]


def pages(options: argparse.Namespace) -> Iterator[str]:
    """The page as far as it is measured, after every section: what is stopped early has told something."""
    begun, goals, details = head(options), list[list[str]](), list[str]()
    for dtype in options.dtype:
        say(f"{dtype}: load")
        models, plan = Models(options.draft, dtype), Plan(dtype, options.prompts, options.rounds)
        for name in options.only if dtype == options.dtype[0] else options.others:
            tell = partial(say, begin=f"{dtype}, {name}: ")
            if name == METER:
                tell(f"{options.pairs} pairs of either arm")
                details.append(meter.section(models.network, models.small, meter.Size(dtype, options.pairs)))
            else:
                rows, text = measured(SECTIONS[name](models, plan), plan, options, tell)
                goals += rows
                details.append(text)
            took = f"It took {_minutes():.1f} minutes.\n"
            yield "\n".join([begun + took, "## Goals\n", page.table(page.GOALS, goals), *details])


def measured(
    section: Section, plan: Plan, options: argparse.Namespace, tell: Callable[[str], None]
) -> tuple[list[list[str]], str]:
    """Rows in the table of goals, and a section. What was chosen is kept in the plan."""
    found = in_turn(section.arms, section.groups[: options.turns], options.tokens, tell)
    rows, chosen, texts = list[list[str]](), _Chosen(), [page.details(section, found, plan.dtype)]
    for goal in section.goals:
        chosen[goal.how], row = page.reached(goal, section, found, plan.dtype)
        rows.append(row)
    if section.queues:
        texts.append(page.gain(found))
    if section.settles:
        _keep(plan, section, found, chosen)
        tell("profile")
        arms = dict.fromkeys((section.base, *chosen.values()))
        texts.append(page.shares({arm: shares(section.arms[arm], section.groups[0], options.tokens) for arm in arms}))
    return rows, "\n".join(texts)


def _keep(plan: Plan, section: Section, found: dict[str, Timed], chosen: _Chosen) -> None:
    """Hand on what the next sections compare with others: they take no part in choosing it."""
    both = section.arms[chosen[BOTH]]
    assert isinstance(both, Native)
    assert both.setting is not None
    if section.settles == "eight":
        plan.eight = both.setting
        return
    plan.both = both.setting
    constant = {str(one): one.k for one in DRAFTS if one.constant}
    plan.k = constant[page.best(found, section.base, tuple(constant))]


def _minutes() -> float:
    return (time.perf_counter() - _BEGUN) / 60


def say(what: str, begin: str = "") -> None:
    """A line of progress."""
    print(f"{_minutes():5.1f} min  {begin}{what}", file=sys.stderr, flush=True)


def head(options: argparse.Namespace) -> str:
    """Title, command, machine, versions, and how to read the tables."""
    now = datetime.now(timezone.utc)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    command = shlex.join(one for one in ["python", "benchmarks/decoding.py", *sys.argv[1:]] if not one.startswith("/"))
    return f"""# How fast the native decoder is on a CPU

Made by `{command}` on {now:%Y-%m-%d %H:%M} UTC: {cpu_model()}, {os.cpu_count()} cores,
one thread, load average before it {load}; Python {platform.python_version()}, torch {torch.__version__}, transformers
{version("transformers")}. SmolLM2-135M-Instruct and the bundled draft, greedy, {options.tokens} tokens at most, first
turns of prompts of the suite's {len(CATEGORIES)} categories. Decoding alone: what the target takes to read the prompt
is taken off, what the draft takes to read it is not.

A ratio is taken within a turn of all arms on the same prompts; the median over turns is told, by CPU time and by wall
time, and decides whether a goal is reached, by CPU time. *All tokens* is all tokens over all CPU time.
Where a goal is for the best of several arms, the arm is *chosen among* them by its median on one half of the turns,
with prompts from the beginning of their categories, and its row tells the other half, with prompts from their end: that
leaves out the luck of the best. The tables below the goals' tell all turns of all arms.
*Draft alone* is the draft model at one length; *lookup, else draft* copies where the text repeats itself and asks the
draft model elsewhere, which suites write as `options: {{lookup_first: true}}`.
Which goals are reached depends on the machine and on what else it does; read the ratios.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SECTIONS, METER]
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--prompts", type=int, default=2, help="of each category, for choosing and for telling each")
    parser.add_argument("--rounds", type=int, default=2, help="of several prompts, for choosing and for telling each")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--turns", type=int, help="at most so many of each section, two or more: for a trial")
    parser.add_argument("--pairs", type=int, default=12, help="of runs with the counters and without")
    parser.add_argument("--draft", default="models/smollm2-draft")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--others", nargs="*", choices=names, default=["plain", "copy"], help="of further dtypes")
    parser.add_argument("--page", type=Path, help="write the page there instead of printing it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = ""
    for text in pages(options):
        if options.page:
            options.page.write_text(text, encoding="utf-8")
    if not options.page:
        print(text)


if __name__ == "__main__":
    main()
