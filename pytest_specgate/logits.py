"""What the target's logits say of texts: the evidence behind greedy exactness.

A *regret* is the highest logit minus that of the token which the text has there: 0 where the text took the target's own
choice. A *margin* is the logit of the text's token minus the highest of all others; its change between two legitimate
evaluations of the same tokens is what bounds a regret that means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scores:
    """The target's logits on one text, teacher-forced: one entry per output token.

    ``best`` is the highest logit, that of token ``best_ids``; ``runner_up`` the highest of all other tokens;
    ``emitted`` that of the text's own token. All are finite.
    """

    best: tuple[float, ...]
    best_ids: tuple[int, ...]
    runner_up: tuple[float, ...]
    emitted: tuple[float, ...]

    @property
    def regrets(self) -> tuple[float, ...]:
        """How far below the target's choice each token lies, in logits."""
        return tuple(best - emitted for best, emitted in zip(self.best, self.emitted))

    @property
    def margins(self) -> tuple[float, ...]:
        """How far above all other tokens each token lies, in logits: negative where it is not the choice."""
        rows = zip(self.best, self.runner_up, self.emitted)
        return tuple(emitted - (runner_up if emitted == best else best) for best, runner_up, emitted in rows)


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A text that an arm gave to a prompt, with its scores."""

    prompt: str
    token_ids: tuple[int, ...]
    scores: Scores


@dataclass(frozen=True, slots=True)
class Between:
    """How far what chose a text disagrees with what scored it, told by the reference arm's texts.

    ``scale`` is the upper limit of the noise's scale, in logits (see :mod:`pytest_specgate.stats.choosing`);
    ``density`` the part of tokens in each logit of margin, where margins are small; ``worst`` the largest regret of the
    reference arm's tokens.
    """

    scale: float
    density: float
    worst: float


@dataclass(frozen=True, slots=True)
class Control:
    """What the target's own arithmetic does to the margins of ``tokens`` tokens that it chose itself.

    Largest changes of a small margin against one-token forwards: of forwards of ``width`` tokens (``wide_change``), of
    the scorer's own (``scoring_change``), and of one-token forwards run again (``self_change``). ``wide_ties`` counts
    the tokens that a decoder verifying ``width`` at a time would choose and the scorer regrets. ``agree`` is whether
    all margins, large ones too, are the same to the last bit at both widths. ``median_best`` is the median of the
    highest logits. ``seconds`` is what measuring it took, once.

    ``between`` stands in place of the changes where forwards cannot be run at will: the target is a server's. There
    ``self_change`` is that of scores asked for again, ``scoring_change`` that of texts cut to their first halves, and
    ``agree`` whether neither changes a margin; 0, 0 and false where nobody asked.
    """

    tokens: int
    width: int
    wide_change: float
    scoring_change: float
    self_change: float
    wide_ties: int
    agree: bool
    median_best: float
    seconds: float
    between: Between | None = None

    @property
    def gap_change(self) -> float:
        """The largest change of a margin that right software shows."""
        return max(self.wide_change, self.scoring_change, self.self_change)


@dataclass(frozen=True, slots=True)
class Exactness:
    """The scoring pass of a case: every distinct text of both arms, and the control.

    ``control_fresh`` is whether the control was measured in this run rather than found in the cache; ``max_tv`` the
    distance from the target that the suite declares for a lossy candidate, None for an exact one.
    """

    texts: tuple[ScoredText, ...]
    control: Control
    control_fresh: bool
    max_tv: float | None = None


@dataclass(frozen=True, slots=True)
class TextRegrets:
    """The regrets of one text of an arm; ``bad_end`` says what is wrong with its end, or is empty.

    ``own`` are the output tokens (from 0) that tell of this arm alone, None for all: neither in what both arms have
    in common from the beginning, nor in a repetition of what the text said before.
    """

    prompt: str
    regrets: tuple[float, ...]
    bad_end: str = ""
    own: tuple[int, ...] | None = None

    @property
    def own_regrets(self) -> tuple[float, ...]:
        """The regrets of the arm's own tokens."""
        return self.regrets if self.own is None else tuple(self.regrets[at] for at in self.own)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where the arms' texts part: output token ``position`` (from 0), each arm's token and its logit there.

    An id is None where that arm's text has ended; a gap is known where neither has. ``regret`` is the larger of both
    tokens' regrets; where one text has ended, by an end of text that its ids do not show, the least by which it lies
    below what the other text says there; None where no token tells of that end.
    """

    prompt: str
    position: int
    reference_id: int | None
    candidate_id: int | None
    reference_logit: float | None
    candidate_logit: float | None
    regret: float | None = None

    @property
    def gap(self) -> float | None:
        """How far apart the target scores the two tokens, in logits."""
        if self.reference_logit is None or self.candidate_logit is None:
            return None
        return abs(self.reference_logit - self.candidate_logit)


@dataclass(frozen=True, slots=True)
class Choices:
    """What greedy exactness is judged by: the regrets of both arms, where they part, and the control.

    ``restless`` counts the prompts to which the reference arm gave different texts in different rounds; ``max_tv`` is
    what the suite declares (see :class:`Exactness`).
    """

    candidate: tuple[TextRegrets, ...]
    reference: tuple[TextRegrets, ...]
    divergences: tuple[Divergence, ...]
    restless: int
    control: Control
    control_fresh: bool
    max_tv: float | None = None
