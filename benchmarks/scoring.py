"""What scoring adds: its time as a share of the candidate arm's, on the cases of the bundled suites.

The candidate arm runs round by round, and texts are scored where a run would: those of a drawn case at looks after 1,
2, 4 and so on rounds, as ``distribution_fit`` does, those of a greedy case once each at the end, as
``greedy_exactness`` does, controls aside. So both sides of the ratio are measured in turn, in one process; it is told
of wall time and of this process's CPU time, which others on the machine disturb less.

Smoke's greedy cases ask for no scores; here they are scored as if ``greedy_exactness`` were among their gates.

python benchmarks/scoring.py [--suites suites/smoke.specgate.yaml ...] [--rounds 4] [--threads 1] [--limit 0]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.measure.schedule import blocks
from pytest_specgate.records import Arm, Request, Trace
from pytest_specgate.stats.looks import doubling
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


def scored(engine: Any, case: Case, texts: Sequence[tuple[Request, tuple[int, ...]]]) -> None:
    """As the pass after the rounds does, or the one between them."""
    requests, ids = [request for request, _ in texts], [ids for _, ids in texts]
    if case.sampling.greedy:
        engine.score(requests, ids)
    else:
        engine.chances(requests, ids)


def compare(suite: Suite, case: Case, engine: Any, options: argparse.Namespace) -> tuple[Spent, Spent]:
    """Print one line for a case; return what the arm and what scoring took."""
    asked, said = answered(engine, case, 0, 1)
    scored(engine, case, [(asked[0], said[0].token_ids)])
    looks = (options.rounds,) if case.sampling.greedy else doubling(options.rounds).rounds
    spent: dict[str, list[Spent]] = {"arm": [], "scoring": []}
    new: dict[tuple[str, tuple[int, ...]], Request] = {}
    texts = tokens = 0
    for number in range(options.rounds):
        took, (requests, traces) = timed(lambda number=number: answered(engine, case, number, options.limit))
        spent["arm"].append(took)
        new |= {(trace.prompt, trace.token_ids): request for request, trace in zip(requests, traces)}
        tokens += sum(len(trace.token_ids) for trace in traces)
        if number + 1 in looks:
            due = [(request, ids) for (_, ids), request in new.items()]
            took, _ = timed(lambda due=due: scored(engine, case, due))
            spent["scoring"].append(took)
            texts += len(due)
            new.clear()
    arm, score = total(spent["arm"]), total(spent["scoring"])
    print(
        f"{suite.name} {case.id:30} {options.rounds} rounds, {tokens} tokens, {texts} texts scored: {share(arm, score)}"
    )
    return arm, score


def total(spent: Sequence[Spent]) -> Spent:
    """The sum of several times."""
    return sum(wall for wall, _ in spent), sum(cpu for _, cpu in spent)


def share(arm: Spent, score: Spent) -> str:
    """What scoring takes beside the arm, in words."""
    said = f"CPU seconds {arm[1]:.2f} and {score[1]:.2f}"
    return f"{said}; share {score[0] / arm[0]:.1%} of wall time, {score[1] / arm[1]:.1%} of CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suites = ["suites/smoke.specgate.yaml", "suites/sampling.specgate.yaml"]
    parser.add_argument("--suites", nargs="+", default=suites)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="so many prompts of each case; 0 for all")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for path in options.suites:
        suite, both = load_suite(Path(path), Path.cwd()), list[tuple[Spent, Spent]]()
        for name, spec in suite.spec.engines.items():
            cases = [case for case in expand(suite) if case.engine == name and not case.scenario.generated]
            engine = create(EngineContext(name, spec, suite.path.parent))
            engine.start()
            for case in cases:
                both.append(compare(suite, case, engine, options))
            engine.close()
        arms, scores = (total([each[number] for each in both]) for number in (0, 1))
        print(f"{suite.name} as a whole: {share(arms, scores)}", flush=True)


if __name__ == "__main__":
    main()
