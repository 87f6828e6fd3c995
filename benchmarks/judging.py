"""How fast stored measurements are judged: 10,000 verdicts on one core, each case reduced once.

python benchmarks/judging.py [--cases 500] [--profile]

Every case is 16 prompts × 8 rounds of a scripted engine with 3 % noise, seen in four looks; half of the cases are
sampled. Twenty gates judge each, half of them against a baseline of 16 rounds: speed-ups, latencies, acceptance and
output. Most are decided early, as they are in use; a quarter lies so near to its limit that it takes every look.
"""

from __future__ import annotations

import argparse
import cProfile
import datetime as dt
import pstats
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_specgate import gates, interim
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import Location
from pytest_specgate.measure.schedule import order
from pytest_specgate.records import Arm, Measurement, Message, Pair, Request, Sampling, Stored
from pytest_specgate.stats.budget import share
from pytest_specgate.stats.looks import doubling
from pytest_specgate.suite.cases import Case, Gate, Scenario
from pytest_specgate.suite.model import EngineSpec, GateSpec, ScenarioSpec

PROMPTS, ROUNDS, STORED_ROUNDS, CHECKS = 16, 8, 16, 40
ASKED = (
    {"metric": "speedup", "limit": ">=1.2x"},
    {"metric": "speedup", "limit": ">=1.49x", "max_drop": "5%"},
    {"metric": "speedup", "max_drop": "1%"},
    {"metric": "decode_speedup", "limit": ">=1.2x", "population": True},
    {"metric": "decode_speedup", "max_drop": "5%"},
    {"metric": "ttft", "limit": "<=1 s"},
    {"metric": "ttft", "max_rise": "10%"},
    {"metric": "ttft", "limit": "<=28 ms", "statistic": "p95"},
    {"metric": "tpot", "limit": "<=1 s", "max_rise": "5%"},
    {"metric": "tpot", "limit": "<=6.7 ms", "statistic": "mean"},
    {"metric": "itl", "max_rise": "5%", "statistic": "mean"},
    {"metric": "e2el", "max_rise": "20%", "statistic": "p90"},
    {"metric": "throughput", "max_drop": "5%"},
    {"metric": "conditional_acceptance", "limit": ">=40%"},
    {"metric": "conditional_acceptance", "max_drop": "5%"},
    {"metric": "acceptance_length", "max_drop": "0.2"},
    {"metric": "exact_match", "limit": ">=90%"},
    {"metric": "length_ratio", "limit": "0.9x..1.1x"},
    {"metric": "token_accounting", "limit": "==100%"},
    {"metric": "chrf", "max_drop": "2"},
)


@dataclass(frozen=True, slots=True)
class Ready:
    """A measured case and its baseline, not reduced yet."""

    case: Case
    measurement: Measurement
    stored: Stored


def asked() -> tuple[Gate, ...]:
    where = Location(Path("judging.specgate.yaml"), 1, 1)
    return tuple(Gate(GateSpec.model_validate(spec), where) for spec in ASKED)


def measured(case: Case, seed: int, rounds: int) -> Measurement:
    """The case on the scripted engine, prompts one by one, arms in turn."""
    spec = EngineSpec.model_validate({"kind": "scripted", "options": {"seed": seed, "noise": 0.03}})
    engine = ScriptedEngine(EngineContext(case.engine, spec, Path()))
    pairs = []
    for number in range(rounds):
        for prompt in range(PROMPTS):
            # What is sampled differs from run to run and round to round, what is greedy does not.
            sampling = case.sampling if case.sampling.greedy else replace(case.sampling, seed=100 * seed + number)
            request = Request(f"p{prompt}", (Message("user", "Say it."),), 64, sampling)
            first = order(prompt, number)
            arms = (Arm.REFERENCE, Arm.CANDIDATE) if first == "AB" else (Arm.CANDIDATE, Arm.REFERENCE)
            traces = {arm: engine.generate([request], arm)[0] for arm in arms}
            pairs.append(Pair(f"p{prompt}", f"p{prompt}", number, first, traces[Arm.REFERENCE], traces[Arm.CANDIDATE]))
    return Measurement(case.id, "scripted", engine.place(), {}, {}, tuple(pairs), case.sampling.greedy)


def prepared(number: int, judges: tuple[Gate, ...]) -> Ready:
    sampling = Sampling() if number % 2 else Sampling(temperature=0.7)
    scenario = ScenarioSpec.model_validate({"category": "qa", "prompts": "p.jsonl"})
    at = judges[0].location
    spec = EngineSpec.model_validate({"kind": "scripted"})
    case = Case(f"e{number}", spec, Scenario("qa", scenario, at, ()), sampling, 1, judges)
    before = measured(case, 2 * number, STORED_ROUNDS)
    numbers = interim.all_of(before, case).samples
    return Ready(case, measured(case, 2 * number + 1, ROUNDS), Stored(before.place, {}, {}, "2030-01-01", numbers))


def judge_all(ready: Ready, seen: tuple[gates.Seen, ...]) -> Counter[str]:
    looks = doubling(ROUNDS)
    context = gates.JudgeContext(
        suite="judging",
        case=ready.case.id,
        engine="scripted",
        alpha=share(CHECKS),
        place=ready.measurement.place,
        today=dt.date(2030, 1, 1),
        looks=looks.count,
    )
    return Counter(gates.judge(gate, seen, ready.stored, context).outcome.value for gate in ready.case.gates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--profile", action="store_true", help="where the time of judging goes")
    chosen = parser.parse_args()
    judges, profile = asked(), cProfile.Profile()
    outcomes: Counter[str] = Counter()
    reducing = judging = 0.0
    for number in range(chosen.cases):
        ready = prepared(number, judges)
        begin = time.process_time()
        seen = interim.looks_at(ready.measurement, ready.case, doubling(ROUNDS))
        reduced = time.process_time()
        if chosen.profile:
            profile.enable()
        outcomes += judge_all(ready, seen)
        profile.disable()
        reducing, judging = reducing + reduced - begin, judging + time.process_time() - reduced
    verdicts = sum(outcomes.values())
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"reduced {chosen.cases} measurements in {reducing:.2f} s of processor time")
    print(f"{verdicts} verdicts in {judging:.2f} s of processor time, {judging / verdicts * 1e3:.2f} ms each: {said}")
    if chosen.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
