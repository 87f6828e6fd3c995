"""What scoring adds: its time as a share of the candidate arm's, interleaved, on the cases of the bundled suites.

Each round runs the candidate arm on all prompts of a case, and then scores what it said: greedy texts as
``greedy_exactness`` does, drawn ones as ``distribution_fit`` does (controls aside). Shares are taken within a round,
of wall and of this process's CPU time, and their median is told. A greedy case scores its texts once however many
rounds it has, so its share of a whole run is that of a round divided by the rounds.

python benchmarks/scoring.py [--suites suites/smoke.specgate.yaml ...] [--rounds 3] [--threads 1] [--limit 0]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.measure.schedule import blocks
from pytest_specgate.records import Arm, Request, Trace
from pytest_specgate.suite.cases import Case, Suite, expand
from pytest_specgate.suite.load import load_suite

Spent = tuple[float, float]


def timed(run: Callable[[], Any]) -> tuple[Spent, Any]:
    """Seconds of wall and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = run()
    return (time.perf_counter() - wall, time.process_time() - cpu), made


def answered(engine: Any, case: Case, number: int, limit: int) -> tuple[list[Request], list[Trace]]:
    """The candidate arm on the case's first turns, as many side by side as the case says."""
    dialogue, requests, traces = Dialogue(case), list[Request](), list[Trace]()
    for block in blocks(case.scenario.conversations[: limit or None], case.concurrency):
        asked = [dialogue.request(conversation, 0, number) for conversation in block]
        traces += engine.generate(asked, Arm.CANDIDATE)
        requests += asked
    return requests, traces


def scored(engine: Any, case: Case, requests: Sequence[Request], traces: Sequence[Trace]) -> None:
    """As the pass after the rounds does, or the one between them."""
    texts = [trace.token_ids for trace in traces]
    if case.sampling.greedy:
        engine.score(requests, texts)
    else:
        engine.chances(requests, texts)


def compare(suite: Suite, case: Case, engine: Any, options: argparse.Namespace) -> None:
    """Print one line for a case."""
    shares: list[Spent] = []
    asked, said = answered(engine, case, 0, 1)
    scored(engine, case, asked, said)
    for number in range(options.rounds):
        arm, (requests, traces) = timed(lambda number=number: answered(engine, case, number, options.limit))
        score, _ = timed(lambda requests=requests, traces=traces: scored(engine, case, requests, traces))
        shares.append((score[0] / arm[0], score[1] / arm[1]))
    tokens = sum(len(trace.token_ids) for trace in traces)
    wall, cpu = (median(share[kind] for share in shares) for kind in (0, 1))
    print(
        f"{suite.name} {case.id:40} {len(traces)} texts, {tokens} tokens a round: arm {arm[0]:.2f} s, scoring "
        f"{score[0]:.2f} s; share {wall:.1%} wall, {cpu:.1%} CPU",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suites = ["suites/smoke.specgate.yaml", "suites/sampling.specgate.yaml"]
    parser.add_argument("--suites", nargs="+", default=suites)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="so many prompts of each case; 0 for all")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for path in options.suites:
        suite = load_suite(Path(path), Path.cwd())
        for name, spec in suite.spec.engines.items():
            cases = [case for case in expand(suite) if case.engine == name and not case.scenario.generated]
            engine = create(EngineContext(name, spec, suite.path.parent))
            engine.start()
            for case in cases:
                compare(suite, case, engine, options)
            engine.close()


if __name__ == "__main__":
    main()
