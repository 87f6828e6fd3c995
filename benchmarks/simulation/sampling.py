"""Drawn tokens: how soon ``distribution_fit`` sees each fault of a sampling decoder, and what it says of sound ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.chances import Drawn, Draws, Series
from pytest_specgate.gates import Seen, judge
from pytest_specgate.gates.distribution import MARGIN
from pytest_specgate.records import Outcome, Samples
from pytest_specgate.stats.betting import stake
from pytest_specgate.stats.looks import Looks
from simulation.drawing import BLUR, POSITIONS, TEMPERATURE, VOCABULARY, Decoder, K, World, looked_up, world
from simulation.judging import context, gate
from simulation.machine import Array
from simulation.pages import Effort, Goal, Page, paragraph, table

ALPHA, MOST, KNOWN_MOST = 1e-3, 30_000, 25_000
FIT = gate("distribution_fit", limit="==100%")

SOUND = Decoder()
NOISY = Decoder(wanted="noisy", after="noisy", bonus="noisy")
#: Name → (decoder, tokens that 95 of 100 runs of the earlier study needed at acceptance .6 and .8).
FAULTS: Mapping[str, tuple[Decoder, tuple[float, float]]] = {
    "replaces a rejected draft from p": (Decoder(taken="nothing"), (455, 1039)),
    "q without temperature in the ratio": (Decoder(offered="q_plain"), (3457, 4662)),
    "the same in the residual too": (Decoder(offered="q_plain", taken="q_plain"), (1190, 936)),
    "keeps a draft that is the first choice": (Decoder(best_passes=True), (3136, 6225)),
    "bonus from q": (Decoder(bonus="q"), (24600, math.inf)),
    "draft cut to a nucleus, q told whole": (Decoder(proposes="q_cut"), (11300, 6451)),
    "one row late in ratio and residual": (Decoder(late=(True, True)), (63, 60)),
    "one row late in the ratio": (Decoder(late=(True, False)), (119, 117)),
    "target at temperature 1": (Decoder(wanted="p_plain", after="p_plain", bonus="p_plain"), (223, 230)),
    "lenient by a tenth": (Decoder(lenient=1.1), (20000, 17700)),
    "keeps a draft of chance .1": (Decoder(passes=0.1), (570, 1670)),
    "drafts the best, q told soft": (Decoder(proposes="q_best"), (630, 233)),
}


# --- streams of tokens -------------------------------------------------------------------------------------------


def stream(random: np.random.Generator, decoder: Decoder, w: World, tokens: int) -> Drawn:
    """Scores of at least so many tokens."""
    parts: list[dict[str, tuple[Array, Array]]] = []
    bonus: list[NDArray[np.bool_]] = []
    count, scored = 0, looked_up(w)
    while count < tokens:
        at, made, last = decoder.tokens(random, w)
        bonus.append(last)
        parts.append(scored.series(random, at, made))
        count += len(at)
    whole = {name: tuple(np.concatenate([part[name][i] for part in parts]) for i in (0, 1)) for name in parts[0]}
    series = {name: Series(*map(tuple, columns)) for name, columns in whole.items()}
    return Drawn(series, count, tuple(np.concatenate(bonus).tolist()))


def needed(random: np.random.Generator, decoder: Decoder, w: World) -> float:
    """Tokens until the bets are worth 1/alpha; infinite where MOST do not do."""
    for tokens in (1000, 6000, 15000, MOST):
        state = random.bit_generator.state
        found = stream(random, decoder, w, tokens)
        series = {name: one.deviations for name, one in found.scores.items()}
        bets = stake(series, MARGIN, ALPHA, {"bonus": found.bonus})
        if bets.won_at is not None and bets.won_at <= tokens:
            return float(bets.won_at)
        random.bit_generator.state = state  # the same tokens again, and more of them
    return math.inf


def detection(effort: Effort) -> Iterator[tuple[list[str], list[Goal]]]:
    """A row for each fault, and whether its counts stay within 1.5 times those known."""
    for number, (name, (decoder, known)) in enumerate(FAULTS.items()):
        row, goals = [name], []
        for acceptance, before in zip(BLUR, known):
            w, random = world(acceptance, effort.seed), np.random.default_rng([effort.seed, 42, number])
            counts = np.array([needed(random, decoder, w) for _ in range(effort.runs(100))])
            middle, most = (float(np.quantile(counts, share, method="higher")) for share in (0.5, 0.95))
            row += [shown(middle), shown(most), shown(before, KNOWN_MOST), f"{np.isfinite(counts).mean():.0%}"]
            goal = f"{name}, acceptance {acceptance:g}: tokens in 95 of 100 runs, known {shown(before, KNOWN_MOST)}"
            goals.append(Goal.of(goal, "at most 1.5 times", f"{shown(most)}", met=most <= 1.5 * before))
        yield row, goals


def shown(tokens: float, most: int = MOST) -> str:
    return f"{tokens:,.0f}" if math.isfinite(tokens) else f"> {most:,}"


# --- verdicts ------------------------------------------------------------------------------------------------------


def verdicts(effort: Effort, decoder: Decoder, noise: float, runs: int) -> list[tuple[Outcome, int]]:
    """What the gate says within 40,000 tokens, looking after every 2,000, and after how many tokens."""
    w, random = world(0.6, effort.seed, noise), np.random.default_rng([effort.seed, 43, round(1000 * noise)])
    found, plain = [], stream(random, SOUND, w, 4000)
    for _ in range(runs):
        tokens = stream(random, decoder, w, 40000)
        looks = [Seen(n, Samples("e::c", False, (), draws=Draws(first(tokens, 2000 * n), plain))) for n in range(1, 21)]
        said = judge(FIT, looks, None, context(ALPHA, Looks(tuple(range(1, 21)))))
        found.append((said.outcome, 2000 * said.checks[0].looks[-1].rounds))
    return found


def first(tokens: Drawn, count: int) -> Drawn:
    cut = {name: Series(s.deviations[:count], s.variances[:count]) for name, s in tokens.scores.items()}
    return Drawn(cut, count, tokens.bonus[:count])


def sound(effort: Effort) -> Iterator[tuple[list[str], Goal]]:
    """A row for each kind of sound decoder."""
    for name, decoder, noise in (
        ("exact", SOUND, 0.0),
        ("verifier's scores off by .1", NOISY, 0.1),
        ("verifier's scores off by .2", NOISY, 0.2),
    ):
        found = verdicts(effort, decoder, noise, effort.runs(100))
        failed, passed = (sum(said is wanted for said, _ in found) for wanted in (Outcome.FAIL, Outcome.PASS))
        tokens = np.mean([count for _, count in found])
        row = [name, f"{failed} of {len(found)}", f"{passed} of {len(found)}", f"{tokens:,.0f}"]
        yield row, Goal.at_most(f"FAIL of a sound decoder, {name}", ALPHA, failed, len(found))


def page(effort: Effort) -> Page:
    """docs/statistics/sampling.md."""
    rows, goals = zip(*detection(effort))
    right, kept = zip(*sound(effort))
    head = ["fault"]
    for acceptance in BLUR:
        head += [f"median, acceptance {acceptance:g}", "95 of 100 runs", "known", f"found by {MOST:,}"]
    lines = [
        *paragraph(
            f"""`distribution_fit` at an error rate of {ALPHA:g}: tokens until a faulty decoder fails. A vocabulary of
            {VOCABULARY:,}, {POSITIONS:,} positions of mixed entropy, temperature {TEMPERATURE:g}, blocks of {K} drafts
            that a blurred copy of the target proposes. {effort.runs(100)} runs a cell. "Known" is what an earlier study
            of the same bets found for 95 of 100 runs on positions of its own."""
        ),
        *table(head, rows),
        "",
        "## Sound decoders",
        *paragraph(
            f"""Looks after every 2,000 tokens up to 40,000 ({effort.runs(100)} runs a row); errors are normal, in
            logits, on every score that the verifier sees and the scorer does not."""
        ),
        *table(["decoder", "FAIL", "PASS", "mean tokens"], right),
    ]
    return Page("sampling.md", "Drawn tokens", tuple(lines), (*(g for several in goals for g in several), *kept))
