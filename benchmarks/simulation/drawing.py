"""Speculative sampling on known laws: a world of positions, a decoder in exchangeable parts, and its tokens' scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from simulation.machine import Array

VOCABULARY, POSITIONS, TEMPERATURE, K = 1000, 2000, 0.7, 4
#: Log-normal scale of a position's scores: entropies as mixed as the earlier study's.
SCALE, SPREAD = 3.65, 0.48
#: Error of the draft's scores, by the share of drafts that are accepted with it.
BLUR = {0.6: 1.14, 0.8: 0.53}
BLOCKS = 400
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

    def tokens(self, random: np.random.Generator, w: World) -> tuple[Ids, Ids, NDArray[np.bool_]]:
        """Positions and tokens of some blocks, in order, and which are bonus tokens."""
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
        return at[emitted], block[emitted], (np.arange(K + 1) == np.full((BLOCKS, 1), K))[emitted]

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
