"""The native decoder beside transformers and beside itself: every goal of speed is a row of one run.

Arms run interleaved in one process on one thread. Wall time counts whatever else the machine does; CPU time of this
process does not, and is the better witness. All is decoding alone: a run that makes one token is taken off. Prompts are
those of the full suite, subsampled; greedy.

taskset -c 0 python benchmarks/decoding.py [--dtype bfloat16 float32] [--prompts 1] [--rounds 3] [--tokens 48]
    [--only plain suite assisted copy batch queue] [--others plain copy queue] [--page docs/decoding.md]
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import torch
from decoders.arms import Arm, Models, Native, Prompt
from decoders.clock import Timed, in_turn, ratio, spent
from decoders.parts import BETWEEN, OTHER, PARTS, shares
from meter import TITLE
from tabulate import tabulate

from pytest_specgate.engines.hf.machine import cpu_model

#: Prompts of the suite that each section takes, by category.
CATEGORIES = ("qa", "chat", "summarization", "code", "long-form", "math", "rag", "translation", "copy")
REFERENCE = "native, no draft"
#: Lengths of texts that end at different times, as shares of the longest.
RAGGED = (1.0, 0.35, 0.7, 0.25, 0.85, 0.5, 0.3, 0.6)
Table = list[list[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """Arms, whom they are compared with, the prompts of each turn, and what should be reached by the best of some."""

    title: str
    arms: Mapping[str, Arm]
    base: str
    groups: list[list[Prompt]]
    goal: float
    contenders: tuple[str, ...]


def plain(models: Models, options: argparse.Namespace) -> Section:
    """The reference arm against ``generate``."""
    groups = [models.prompts(category, 1) for category in ("qa", "chat", "code")]
    arms = {REFERENCE: models.native(), "transformers generate": models.generate()}
    goal = 1.4 if "bfloat16" in options.now else 1.3
    return Section("Reference arm ÷ generate", arms, "transformers generate", groups, goal, (REFERENCE,))


def drafts(models: Models) -> dict[str, Native]:
    """The draft model at every length that may be the best."""
    arms = {f"draft, k={k}": models.drafting(k) for k in (1, 2, 3, 4)}
    arms["draft, k=6, min_confidence 0.1"] = models.drafting(6, confidence=0.1)
    arms["draft, k=6, min_confidence 0.2"] = models.drafting(6, confidence=0.2)
    return arms


def suite(models: Models, options: argparse.Namespace) -> Section:
    """The candidate arm against the reference arm, over all categories of the full suite."""
    arms, groups = drafts(models), _one_by_one(models, CATEGORIES, options.prompts)
    every = {REFERENCE: models.native(), **arms}
    return Section("Candidate ÷ reference over the full suite", every, REFERENCE, groups, 1.3, tuple(arms))


def assisted(models: Models, options: argparse.Namespace) -> Section:
    """The candidate arm against assisted generation with the same draft and the same k."""
    k, groups = options.k, _one_by_one(models, CATEGORIES[:6], 1)
    mine, theirs = f"draft, k={k}", f"transformers assisted, k={k}"
    arms: dict[str, Arm] = {mine: models.drafting(k), theirs: models.assisted(k)}
    return Section("Candidate ÷ assisted generation, same draft", arms, theirs, groups, 2.0, (mine,))


def copy(models: Models, options: argparse.Namespace) -> Section:
    """Prompt lookup against the reference arm where much is copied."""
    arms: dict[str, Native] = {f"lookup, k={k}": models.copying(k, 3) for k in (8, 16)}
    arms["lookup, k=16, max_ngram 8, drafts_per_match 2"] = models.copying(16, 8, 2)
    groups = _one_by_one(models, ("copy",), max(3, 2 * options.prompts))
    every = {REFERENCE: models.native(), **arms}
    return Section("Prompt lookup ÷ reference on copy prompts", every, REFERENCE, groups, 2.0, tuple(arms))


def batch(models: Models, options: argparse.Namespace) -> Section:
    """The candidate arm against the reference arm, eight texts side by side."""
    arms = {f"draft, k={k}": models.drafting(k) for k in (1, 2)}
    arms["draft, k=3, min_confidence 0.3"] = models.drafting(3, confidence=0.3)
    arms["draft, k=1, min_acceptance 0.4"] = models.drafting(1, acceptance=0.4)
    groups = [models.prompts(category, 8) for category in ("qa", "chat", "math")[: options.rounds]]
    every = {REFERENCE: models.native(), **arms}
    return Section("Eight texts: candidate ÷ reference", every, REFERENCE, groups, 1.0, tuple(arms))


def queue(models: Models, options: argparse.Namespace) -> Section:
    """Twenty-four texts of ragged lengths through eight slots, where the next enters, against blocks of eight."""
    prompts = [prompt for category in ("qa", "chat", "math") for prompt in models.prompts(category, 8)]
    arms: dict[str, Native] = {}
    for name, make in ((REFERENCE, models.native), ("draft, k=1", lambda: models.drafting(1))):
        arms[f"{name}, blocks"] = make().through(8, RAGGED, blocks=True)
        arms[f"{name}, queue"] = make().through(8, RAGGED)
    title = "24 texts through 8 slots: candidate ÷ reference, both with a queue"
    groups = [prompts for _ in range(max(2, options.rounds))]
    return Section(title, arms, f"{REFERENCE}, queue", groups, 1.0, ("draft, k=1, queue",))


SECTIONS = {"plain": plain, "suite": suite, "assisted": assisted, "copy": copy, "batch": batch, "queue": queue}


def _one_by_one(models: Models, categories: tuple[str, ...], count: int) -> list[list[Prompt]]:
    return [[prompt] for category in categories for prompt in models.prompts(category, count)]


# --- tables -----------------------------------------------------------------------------------------------------------


def compared(section: Section, found: Mapping[str, Timed]) -> Iterator[list[str]]:
    """Each arm's rate, its ratios, where a round's time goes, and what it drafts and keeps."""
    for name, timed in found.items():
        told = ratio(timed, found[section.base])
        ratios = [f"{told.cpu:.2f}", f"{told.wall:.2f}", f"{told.whole:.2f}", told.same]
        arm = section.arms[name]
        parts = [f"{value:.2f}" for value in spent(arm)] if isinstance(arm, Native) else [""] * 7
        yield [name, f"{timed.rate():.1f}", *ratios, *parts]


HEADS = ["arm", "tokens per CPU second", "ratio by CPU", "by wall", "all tokens", "same texts"]
HEADS += ["ms a round: draft", "verify", "sample", "host", "drafted a row", "kept a row"]
HEADS += ["slots taken"]


def reached(section: Section, found: Mapping[str, Timed], dtype: str) -> tuple[str, list[str]]:
    """The best of the contenders, and its row in the table of goals."""
    ratios = {name: ratio(found[name], found[section.base]) for name in section.contenders}
    best = max(ratios, key=lambda name: ratios[name].whole)
    told = ratios[best]
    verdict = "reached" if min(told.cpu, told.whole) >= section.goal else "**not reached**"
    numbers = [f"{told.cpu:.2f}", f"{told.wall:.2f}", f"{told.whole:.2f}"]
    return best, [f"{section.title}, {dtype}", f"≥ {section.goal}", *numbers, str(told.turns), best, verdict]


GOALS = ["goal", "", "median by CPU", "by wall", "all tokens by CPU", "turns", "arm", ""]


def pages(options: argparse.Namespace) -> Iterator[str]:
    """The page as far as it is measured, after every section: what is stopped early has told something."""
    begun, goals, details = head(options), list[list[str]](), list[str]()
    for dtype in options.dtype:
        options.now, options.k, models = dtype, 2, Models(options.draft, dtype)
        for name in options.only if dtype == options.dtype[0] else options.others:
            section = SECTIONS[name](models, options)
            rounds = options.rounds if name in {"plain", "batch"} else 1
            found = in_turn(section.arms, section.groups, options.tokens, rounds)
            best, row = reached(section, found, dtype)
            goals.append(row)
            details.append(f"## {section.title}, {dtype}\n\n" + _table(HEADS, list(compared(section, found))))
            if name == "queue":
                details.append(_gain(found))
            if name == "suite":
                options.k = _constant(found)
            if name in {"suite", "batch"}:
                arms = {arm: section.arms[arm] for arm in dict.fromkeys((section.base, best))}
                told = {arm: shares(run, section.groups[0], options.tokens) for arm, run in arms.items()}
                details.append(_shares(told))
            yield "\n".join([begun, "## Goals\n", _table(GOALS, goals), *details])


def _gain(found: Mapping[str, Timed]) -> str:
    """What a queue gives over blocks, in a sentence."""
    plain, drafting = (
        found[f"{arm}, queue"].rate() / found[f"{arm}, blocks"].rate() for arm in (REFERENCE, "draft, k=1")
    )
    said = f"A queue gives {plain:.2f} times the tokens per CPU second that blocks of eight give without a draft, "
    return f"{said}{drafting:.2f} times with it.\n"


def _constant(found: Mapping[str, Timed]) -> int:
    """The best constant draft length."""
    lengths = {k: found[f"draft, k={k}"].rate() for k in (1, 2, 3, 4)}
    return max(lengths, key=lambda k: lengths[k])


def _shares(profiled: Mapping[str, Mapping[str, float]]) -> str:
    rows = [[name, *(f"{told[part]:.0%}" for part in (*PARTS, OTHER, BETWEEN))] for name, told in profiled.items()]
    said = "Where the time goes, of one prompt or batch with its prefill: by torch's profiler, to which small "
    said = f"{said}operations look dearer than they are."
    return f"{said}\n\n" + _table(["arm", *PARTS, OTHER, BETWEEN], rows)


def _table(heads: list[str], rows: Table) -> str:
    return str(tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)) + "\n"


def head(options: argparse.Namespace) -> str:
    """Title, command, machine and versions."""
    now = datetime.now(timezone.utc)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    command = shlex.join(one for one in sys.argv[1:] if not one.startswith("/"))
    sampled = f"{options.prompts} prompt(s) of each of the suite's {len(CATEGORIES)} categories"
    return f"""# How fast the native decoder is on a CPU

Made by `python benchmarks/decoding.py {command}` on {now:%Y-%m-%d %H:%M} UTC: {cpu_model()}, {os.cpu_count()} cores,
one thread, load average before it {load}; Python {platform.python_version()}, torch {torch.__version__}, transformers
{version("transformers")}. SmolLM2-135M-Instruct and the bundled draft, greedy, {options.tokens} tokens at most,
{sampled} (first turns). Decoding alone: what one token takes is taken off.
A ratio is taken within a turn of all arms on the same prompts, and the median over turns is told, by CPU time and by
wall time; *all tokens* is all tokens over all CPU time.
Which goals are reached depends on the machine and on what else it does; read the ratios.
"""


def _counters(page: Path | None) -> str:
    """The section that benchmarks/meter.py made of the page as it stands."""
    _, title, told = (page.read_text(encoding="utf-8") if page and page.is_file() else "").partition(TITLE)
    return f"\n{title}{told}" if title else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--prompts", type=int, default=1, help="of each category")
    parser.add_argument("--rounds", type=int, default=3, help="of the plain section, and batches of the batch section")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--draft", default="models/smollm2-draft")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--others", nargs="*", choices=SECTIONS, default=list(SECTIONS), help="of further dtypes")
    parser.add_argument("--page", type=Path, help="write the page there instead of printing it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept, page = _counters(options.page), ""
    for page in pages(options):
        if options.page:
            options.page.write_text(page + kept, encoding="utf-8")
    if not options.page:
        print(page)


if __name__ == "__main__":
    main()
