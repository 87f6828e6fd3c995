"""What target and draft think of drawn texts: the evidence behind ``distribution_fit``.

All chances are those of the *processed* distribution: after temperature, filters, penalties and whatever else the
request asks for. A *score* of a token lies in [0, 1] and has a known expectation under the target, so its deviation
averages zero where tokens are drawn from the target, and a mean deviation D shows a mean total variation distance of
|D| at least:

* ``draft``: min(1, q(x) / p(x)), expected Σ min(p, q). It rises where drafts are kept too often, or where a rejected
  one may be drawn again;
* ``top1``: whether x is the target's first choice, expected max p;
* ``rank``: one half less the place of x among the target's chances in falling order, drawn uniformly within its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftChances:
    """The draft's side, one entry per output token: min(1, q/p) of the token, Σ min(p, q), and Σ p · min(1, q/p)².

    ``chance`` is q of the token; ``usual`` and ``usual_square`` are what q and q² of a draw from q average, Σ q² and
    Σ q³. They are empty where the scorer does not tell.
    """

    kept: tuple[float, ...]
    overlap: tuple[float, ...]
    square: tuple[float, ...]
    chance: tuple[float, ...] = ()
    usual: tuple[float, ...] = ()
    usual_square: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Chances:
    """The target's chances along one text, teacher-forced: one entry per output token.

    ``chance`` is that of the text's own token, ``above`` that of all tokens ranked before it (of equal ones the lower
    id first), ``highest`` that of the first. ``draft`` is None where no draft can be asked. ``outside`` holds the
    output positions (from 0) whose token the request forbids whatever rounding did.
    """

    chance: tuple[float, ...]
    above: tuple[float, ...]
    highest: tuple[float, ...]
    draft: DraftChances | None = None
    outside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnText:
    """A text that an arm drew for a prompt, with its chances."""

    prompt: str
    token_ids: tuple[int, ...]
    chances: Chances


@dataclass(frozen=True, slots=True)
class Fit:
    """The scoring pass of a sampled case: every distinct text of the candidate arm, and those of the control.

    The control is the reference arm in the first ``plain`` pairs, in the order in which they were drawn; None says in
    all of them. ``max_tv`` is the distance from the target that the suite declares for a lossy candidate, None for an
    exact one.
    """

    texts: tuple[DrawnText, ...]
    plain: int | None = None
    max_tv: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A score along all tokens of an arm, in the order in which they were drawn: deviations, and their variances."""

    deviations: tuple[float, ...]
    variances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Spot:
    """One output token (from 0) of the text that a prompt got in a round."""

    prompt: str
    round: int
    position: int
    token: int


@dataclass(frozen=True, slots=True)
class Places:
    """What rounds tell of the parts of speculative sampling, as counts.

    Of ``tested`` drafts ``kept`` were kept, and a sound accept rule keeps ``expected`` (Σ min(p, q) over their places)
    with this ``variance``. Of ``replaced`` rejected drafts, ``impossible`` got a token of which q ≥ p, which the
    residual p − q never gives.
    Of ``offers`` tested drafts the declared q is known: ``offered`` is its sum, ``usual`` what it comes to where drafts
    are drawn from the draft's own chances, with the variance ``scatter``. Of ``checked`` kept ones the draft's own
    chance is known as well, and ``foreign`` of them are declared with another.
    """

    tested: int = 0
    kept: int = 0
    expected: float = 0.0
    variance: float = 0.0
    replaced: int = 0
    impossible: int = 0
    offers: int = 0
    offered: float = 0.0
    usual: float = 0.0
    scatter: float = 0.0
    checked: int = 0
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """One arm's side of the evidence.

    ``scores`` maps ``draft``, ``top1`` and ``rank`` to their series; ``draft`` is missing where no draft was asked.
    ``bonus`` marks the tokens that follow a block of drafts kept whole, and is empty where rounds are not known;
    ``places`` is None there, and where no draft was asked.
    ``outside`` are the tokens that the request forbids, ``repeated`` the prompts that got the same text again in
    another round though the target gives that next to no chance. ``misquoted`` are tokens of which the engine tells
    another log-probability than the target gives them.
    """

    scores: Mapping[str, Series]
    tokens: int
    bonus: tuple[bool, ...] = ()
    outside: tuple[Spot, ...] = ()
    repeated: tuple[str, ...] = ()
    places: Places | None = None
    misquoted: tuple[Spot, ...] = ()


@dataclass(frozen=True, slots=True)
class Draws:
    """What ``distribution_fit`` is judged by: both arms, and what the suite declares (see :class:`Fit`)."""

    candidate: Drawn
    reference: Drawn
    max_tv: float | None = None
