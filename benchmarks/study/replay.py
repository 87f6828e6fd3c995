"""More builds from a study's own noise: whole rounds of its unchanged builds, drawn anew and judged as a build is.

python benchmarks/study/replay.py STUDY SUITE [--builds 1000] [--loss 13%] [--seed 0]

A round keeps its prompts together, and with them what the machine did at that time; rounds of one build are drawn
apart, so drift over a whole build is not in it. STUDY is a finished study's folder, SUITE the suite that it ran.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pytest_specgate import baseline, gates
from pytest_specgate.metrics import Family
from pytest_specgate.records import Outcome, PromptSamples, Samples, Stored
from pytest_specgate.stats.budget import share
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.stats.proportions import upper_limit
from pytest_specgate.study import ledger
from pytest_specgate.suite.cases import Case, Gate, Suite, expand
from pytest_specgate.suite.checks import checks_in
from pytest_specgate.suite.load import load_suite

Round = Mapping[str, float]


def recorded_rounds(builds: Sequence[ledger.Build], case: str) -> list[Round]:
    """Log ratios by prompt of every round that an unchanged build measured of the case."""
    runs = [run for build in builds if not build.planted for run in build.cases if run.case == case]
    return [{prompt: series[n] for prompt, series in run.log_ratios.items()} for run in runs for n in range(run.rounds)]


def build_of(rounds: Sequence[Round], case: Case, loss: float, looks: Sequence[int]) -> list[gates.Seen]:
    """A build's looks at such rounds, slower by ``loss``."""
    lost = math.log1p(-loss)
    seen = []
    for look in looks:
        series = {prompt: tuple(one[prompt] + lost for one in rounds[:look]) for prompt in rounds[0]}
        prompts = tuple(PromptSamples(name, name, {"speedup": values}) for name, values in series.items())
        seen.append(gates.Seen(look, Samples(case.id, case.sampling.greedy, prompts)))
    return seen


@dataclass(frozen=True, slots=True)
class Question:
    """One gate on one case, with its baseline, its rounds to draw from, and how it is judged."""

    gate: Gate
    case: Case
    stored: Stored
    rounds: Sequence[Round]
    looks: Looks
    context: gates.JudgeContext


def questions(study: Path, suite: Suite) -> Iterator[Question]:
    """The gates on drops of a ratio that the study has rounds for."""
    cases, builds, looks = expand(suite), ledger.read(study), doubling(suite.spec.measure.rounds)
    for path in sorted((study / "baselines").glob("*/*.json")):
        entries, alpha = baseline.read(path), share(checks_in(cases))
        for case in cases:
            rounds = recorded_rounds(builds, case.id)
            if case.id not in entries or not rounds:
                continue
            stored, today = entries[case.id], dt.datetime.now().astimezone().date()
            context = gates.JudgeContext(suite.shown, case.id, "", alpha, stored.place, today, looks=looks.count)
            for gate in case.gates:
                if gate.spec.info.family is Family.SPEEDUP and gate.spec.compares:
                    yield Question(gate, case, stored, rounds, looks, context)


def answer(question: Question, builds: int, loss: float, source: random.Random) -> str:
    """How so many drawn builds come out, in one line."""
    q = question
    verdicts = [
        gates.judge(q.gate, build_of(drawn, q.case, loss, q.looks.rounds), q.stored, q.context)
        for drawn in (source.choices(q.rounds, k=q.looks.most) for _ in range(builds))
    ]
    found = Counter(verdict.outcome for verdict in verdicts)
    rounds = fmean(verdict.checks[0].looks[-1].rounds for verdict in verdicts)
    shown = ", ".join(f"{outcome.value} {found[outcome]}" for outcome in Outcome if found[outcome])
    limit = upper_limit(found[Outcome.FAIL], builds)
    what = f"{q.case.id} {q.gate.spec.label}, loss {loss:.0%}, {builds} builds of {len(q.rounds)} recorded rounds"
    return f"{what}: {shown}; FAIL at most {limit:.2%}; {rounds:.2f} rounds to a verdict"


def main() -> None:
    """Print a line for each gate, unchanged and with the loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--builds", type=int, default=1000)
    parser.add_argument("--loss", type=lambda text: float(text.rstrip("%")) / 100, default=0.13)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    source = random.Random(chosen.seed)
    for question in questions(chosen.study, load_suite(chosen.suite, Path.cwd())):
        for loss in (0.0, chosen.loss):
            sys.stdout.write(f"{answer(question, chosen.builds, loss, source)}\n")


if __name__ == "__main__":
    main()
