"""How often the speed-up gates are right and wrong, on simulated machines: regenerates docs/statistics/speedup.md.

python benchmarks/simulate_speedup.py [--runs 1000] [--seed 0] [--output docs/statistics/speedup.md]

The simulated machine: every call's time is the prompt's own, times a slow drift (AR(1) in logs, sd 5 %, correlation
length 50 calls), times white noise; arms alternate as ABBA. The gate is the shipped one, at the error rates that a
suite of ten statistical checks would give it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.errors import Location
from pytest_specgate.gates import JudgeContext, judge_once
from pytest_specgate.records import Outcome, Place, PromptSamples, Samples, Stored
from pytest_specgate.stats.budget import WRONG_PASS, share
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.model import GateSpec

PROMPTS, STORED_ROUNDS, CHECKS = 16, 16, 10
NOISES, ROUNDS, LOSSES = (0.01, 0.03, 0.10), (2, 4, 8), (0.0, 0.02, 0.05, 0.10, 0.20)
PLACE = Place("simulated", 1, "none")
CONTEXT = JudgeContext("suite", "engine::case", "scripted", share(CHECKS), PLACE, dt.date(2030, 1, 1))
DRIFT, LENGTH, PROMPT_SPREAD, SPEEDUP = 0.05, 50, 0.12, 1.5


def session(random: np.random.Generator, levels: NDArray[np.float64], rounds: int, noise: float) -> Samples:
    """One run's log ratios, prompt by prompt."""
    keep = math.exp(-1 / LENGTH)
    steps = random.normal(0, DRIFT * math.sqrt(1 - keep**2), 2 * PROMPTS * rounds)
    steps[0] = random.normal(0, DRIFT)
    drift = np.empty_like(steps)
    for call, step in enumerate(steps):
        drift[call] = step + (keep * drift[call - 1] if call else 0)
    between = (drift[0::2] - drift[1::2]).reshape(rounds, PROMPTS)
    turns = np.where(np.add.outer(np.arange(rounds), np.arange(PROMPTS)) % 2 == 0, 1, -1)
    values = levels[:, None] + (turns * between).T + random.normal(0, noise, (PROMPTS, rounds))
    prompts = [PromptSamples(f"p{i}", f"p{i}", {"speedup": tuple(row)}) for i, row in enumerate(values.tolist())]
    return Samples("engine::case", greedy=True, prompts=tuple(prompts))


def outcomes(gate: Gate, seed: int, runs: int, cell: tuple[float, int, float]) -> Counter[Outcome]:
    """Verdicts of ``runs`` builds that lost ``loss`` since a baseline of their own (or, for a limit, of it)."""
    noise, rounds, loss = cell
    random = np.random.default_rng([seed, round(noise * 1000), rounds, round(loss * 1000)])
    found: Counter[Outcome] = Counter()
    for _ in range(runs):
        levels = random.normal(0, PROMPT_SPREAD, PROMPTS)
        levels += math.log(SPEEDUP) - levels.mean()
        before = session(random, levels, STORED_ROUNDS, noise)
        now = session(random, levels + math.log1p(-loss), rounds, noise)
        found[judge_once(gate, now, Stored(PLACE, {}, {}, "2030-01-01", before), CONTEXT).outcome] += 1
    return found


def table(gate: Gate, seed: int, runs: int) -> Iterator[str]:
    """Rows of fail / pass shares over noise, rounds and loss."""
    yield "| noise of a pair | rounds (pairs) | " + " | ".join(f"loss {loss:.0%}" for loss in LOSSES) + " |"
    yield "|---|---|" + "---|" * len(LOSSES)
    for noise in NOISES:
        for rounds in ROUNDS:
            cells = [outcomes(gate, seed, runs, (noise, rounds, loss)) for loss in LOSSES]
            shown = [f"{c[Outcome.FAIL] / runs:.3f} / {c[Outcome.PASS] / runs:.3f}" for c in cells]
            yield f"| {noise:.0%} | {rounds} ({rounds * PROMPTS}) | " + " | ".join(shown) + " |"


def document(seed: int, runs: int) -> Iterator[str]:
    """The whole page."""
    where = Location(Path("simulated.specgate.yaml"), 1, 1)
    drop = Gate(GateSpec.model_validate({"metric": "speedup", "max_drop": "5%"}), where)
    limit = Gate(GateSpec.model_validate({"metric": "speedup", "limit": f">={SPEEDUP * 0.95:.3f}x"}), where)
    yield "# How often a speed-up gate is right"
    yield ""
    yield f"Made by `python benchmarks/simulate_speedup.py --runs {runs} --seed {seed}`; do not edit."
    yield "Simulated times, no device: a machine that drifts by 5 % over 50 calls, white noise per pair as given,"
    spread, errors = f"{PROMPT_SPREAD:.0%}", f"{share(CHECKS):.2g} for a wrong FAIL, {WRONG_PASS} for a wrong PASS"
    yield f"{PROMPTS} prompts whose speed-ups differ by {spread}, a baseline of {STORED_ROUNDS} rounds, and the"
    yield f"error rates of a suite of {CHECKS} statistical checks: {errors}."
    rest = "the rest is INCONCLUSIVE, and 0.000 means that none"
    yield f"Every cell is the share of FAIL / PASS in {runs} builds; {rest}"
    yield "was seen."
    yield ""
    yield "A loss of 5 % lies right at the limit: neither verdict is right there, and each may come as often as its"
    yield "error rate."
    for title, gate in (("max_drop: 5%", drop), (f"limit: '{limit.spec.limit.text}'", limit)):  # type: ignore[union-attr]
        yield ""
        yield f"## `{title}`"
        yield ""
        yield from table(gate, seed, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("docs/statistics/speedup.md"))
    chosen = parser.parse_args()
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text("\n".join(document(chosen.seed, chosen.runs)) + "\n", encoding="utf-8")
    print(f"wrote {chosen.output}")


if __name__ == "__main__":
    main()
