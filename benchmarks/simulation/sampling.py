"""Drawn tokens: how soon ``distribution_fit`` sees each fault of a sampling decoder, and what it says of sound ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.chances import Drawn, Draws, Series
from pytest_specgate.gates import Seen, judge
from pytest_specgate.gates.distribution import MARGIN
from pytest_specgate.records import Outcome, Samples
from pytest_specgate.stats.betting import stake
from pytest_specgate.stats.looks import Looks
from simulation.judging import context, gate
from simulation.machine import Array
from simulation.pages import Effort, Goal, Page, paragraph, table

VOCABULARY, POSITIONS, TEMPERATURE, K, ALPHA = 1000, 2000, 0.7, 4, 1e-3
#: Log-normal scale of a position's scores: entropies as mixed as the earlier study's.
SCALE, SPREAD = 3.65, 0.48
#: Error of the draft's scores, by the share of drafts that are accepted with it.
BLUR = {0.6: 1.14, 0.8: 0.53}
MOST, BLOCKS = 25_000, 400
FIT = gate("distribution_fit", limit="==100%")
Ids = NDArray[np.int64]


class Law:
    """Chances ``[POSITIONS, VOCABULARY]``, and draws from them without a look at whole rows."""

    def __init__(self, odds: Array) -> None:
        self.odds = odds
        cumulated = odds.cumsum(axis=1)
        # Row i ends at i + 1: one search in all rows at once.
        self._steps = (cumulated / cumulated[:, -1:] + np.arange(len(odds))[:, None]).ravel()

    def draw(self, random: np.random.Generator, at: Ids) -> Ids:
        """A token for every position."""
        found = np.searchsorted(self._steps, at + random.random(at.shape), side="right")
        return np.minimum(found - at * VOCABULARY, VOCABULARY - 1)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The laws of target and draft at many positions: as asked for, at temperature 1, and what faults make of them.

    ``noisy`` is the target's with errors on its scores, as a verifier with other rounding has them.
    """

    p: Law
    q: Law
    p_plain: Law
    q_plain: Law
    noisy: Law
    q_cut: Law
    q_best: Law
    nothing: Law


@dataclass(frozen=True, slots=True)
class Scored:
    """What the scorer looks up, by position and token: the chance, min(1, q/p), the chance ranked before; and sums."""

    p: Array
    kept: Array
    above: Array
    best: Array
    overlap: Array
    square: Array

    def series(self, random: np.random.Generator, at: Ids, tokens: Ids) -> dict[str, tuple[Array, Array]]:
        """Deviations and variances of tokens at positions."""
        above, best, overlap = self.above[at, tokens], self.best[at], self.overlap[at]
        place = above + random.random(len(at)) * self.p[at, tokens]
        return {
            "draft": (self.kept[at, tokens] - overlap, self.square[at] - overlap**2),
            "top1": ((above == 0) - best, best * (1 - best)),
            "rank": (0.5 - np.minimum(place, 1), np.full(len(at), 1 / 12)),
        }


@cache
def looked_up(w: World) -> Scored:
    p, q = w.p.odds, w.q.odds
    kept, order = np.minimum(1, q / np.maximum(p, 1e-300)), np.argsort(-p, axis=1)
    ordered, above = np.take_along_axis(p, order, axis=1), np.empty_like(p)
    np.put_along_axis(above, order, np.cumsum(ordered, axis=1) - ordered, axis=1)
    # The first of a row has nothing above it, to the last digit.
    np.put_along_axis(above, order[:, :1], 0.0, axis=1)
    return Scored(p, kept, above, p.max(axis=1), np.minimum(p, q).sum(axis=1), (p * kept**2).sum(axis=1))


@cache
def world(acceptance: float, seed: int, noise: float = 0.1) -> World:
    """Positions whose drafts are accepted about so often."""
    random = np.random.default_rng([seed, 41])
    scale = SCALE * np.exp(SPREAD * random.standard_normal((POSITIONS, 1)))
    scores = scale * random.standard_normal((POSITIONS, VOCABULARY))
    drafts = scores + BLUR[acceptance] * random.standard_normal(scores.shape)
    errors = noise * random.standard_normal(scores.shape)
    at = (scores / TEMPERATURE, drafts / TEMPERATURE, scores, drafts, (scores + errors) / TEMPERATURE)
    p, q, p_plain, q_plain, noisy = (softmax(one) for one in at)
    laws = (p, q, p_plain, q_plain, noisy, nucleus(q), best(q))
    nothing = Law(np.full((POSITIONS, VOCABULARY), 1e-300))
    return World(*map(Law, laws), nothing)


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Array = powers / powers.sum(axis=1, keepdims=True)
    return found


def best(odds: Array) -> Array:
    found = np.zeros_like(odds)
    np.put_along_axis(found, odds.argmax(axis=1)[:, None], 1.0, axis=1)
    return found


def nucleus(odds: Array, share: float = 0.9) -> Array:
    """The most likely tokens that hold this share, and nothing else."""
    order = np.argsort(-odds, axis=1)
    ordered, found = np.take_along_axis(odds, order, axis=1), np.zeros_like(odds)
    np.put_along_axis(found, order, ordered * (ordered.cumsum(axis=1) - ordered < share), axis=1)
    kept: Array = found / found.sum(axis=1, keepdims=True)
    return kept


# --- decoders, sound and faulty ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decoder:
    """Speculative sampling in parts, each named after a law of the world.

    ``proposes`` is what drafts are drawn from, ``offered`` the q and ``wanted`` the p of the ratio, ``taken`` and
    ``after`` those of what replaces a rejected draft; ``bonus`` follows a full block. A draft also passes where it is
    the target's first choice (``best_passes``) or has a chance of ``passes``, and the ratio is ``lenient`` times its
    own. ``late``: the rows of the ratio, and of what replaces, are those of the position before.
    """

    proposes: str = "q"
    offered: str = "q"
    wanted: str = "p"
    taken: str = "q"
    after: str = "p"
    bonus: str = "p"
    best_passes: bool = False
    passes: float = 2.0
    lenient: float = 1.0
    late: tuple[bool, bool] = (False, False)

    def tokens(self, random: np.random.Generator, w: World) -> tuple[Ids, Ids]:
        """Positions and tokens of some blocks, in order."""
        at = random.integers(POSITIONS, size=(BLOCKS, K + 1))
        before = np.concatenate((random.integers(POSITIONS, size=(BLOCKS, 1)), at[:, :-1]), axis=1)
        drafts = law(w, self.proposes).draw(random, at[:, :K])
        judged = (before if self.late[0] else at)[:, :K]
        count = np.cumprod(self._kept(random, w, (at[:, :K], judged, drafts)), axis=1).sum(axis=1)
        row, rejected = np.arange(BLOCKS), count < K
        here, there = (before if self.late[1] else at)[row, count][rejected], at[row, count][rejected]
        block = np.concatenate((drafts, law(w, self.bonus).draw(random, at[:, K:])), axis=1)
        after, taken = law(w, self.after).odds[here], law(w, self.taken).odds[there]
        block[row[rejected], count[rejected]] = from_rows(random, np.maximum(after - taken, 1e-30))
        emitted = np.arange(K + 1) <= count[:, None]
        return at[emitted], block[emitted]

    def _kept(self, random: np.random.Generator, w: World, drafted: tuple[Ids, Ids, Ids]) -> NDArray[np.bool_]:
        at, judged, drafts = drafted
        wanted, offered = law(w, self.wanted).odds[judged, drafts], law(w, self.offered).odds[at, drafts]
        kept: NDArray[np.bool_] = random.random(drafts.shape) * offered < self.lenient * wanted
        kept |= wanted >= self.passes
        if self.best_passes:
            kept |= law(w, self.wanted).odds.argmax(axis=1)[judged] == drafts
        return kept


def law(w: World, name: str) -> Law:
    found: Law = getattr(w, name)
    return found


def from_rows(random: np.random.Generator, weights: Array) -> Ids:
    """One token from each row of weights."""
    cumulated = weights.cumsum(axis=1)
    found: Ids = (cumulated < random.random((len(weights), 1)) * cumulated[:, -1:]).sum(axis=1)
    return found


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
    count, scored = 0, looked_up(w)
    while count < tokens:
        at, made = decoder.tokens(random, w)
        parts.append(scored.series(random, at, made))
        count += len(at)
    whole = {name: tuple(np.concatenate([part[name][i] for part in parts]) for i in (0, 1)) for name in parts[0]}
    return Drawn({name: Series(*map(tuple, columns)) for name, columns in whole.items()}, count)


def needed(random: np.random.Generator, decoder: Decoder, w: World) -> float:
    """Tokens until the bets are worth 1/alpha; infinite where MOST do not do."""
    for tokens in (1000, 6000, MOST):
        state = random.bit_generator.state
        found = stream(random, decoder, w, tokens)
        bets = stake({name: one.deviations for name, one in found.scores.items()}, MARGIN, ALPHA)
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
            row += [shown(middle), shown(most), shown(before), f"{np.isfinite(counts).mean():.0%}"]
            goal = f"{name}, acceptance {acceptance:g}: tokens in 95 of 100 runs against the known {shown(before)}"
            goals.append(Goal.of(goal, "at most 1.5 times", f"{shown(most)}", met=most <= 1.5 * before))
        yield row, goals


def shown(tokens: float) -> str:
    return f"{tokens:,.0f}" if math.isfinite(tokens) else f"> {MOST:,}"


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
    return Drawn(cut, count)


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
