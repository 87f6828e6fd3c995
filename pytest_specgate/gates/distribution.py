"""Sampling exactness: that the candidate's tokens are drawn from the target's own distribution.

Three scores of every token (see :mod:`pytest_specgate.chances`) deviate from what the target expects of them by zero on
average. Bets against that (:mod:`pytest_specgate.stats.betting`) may be looked at whenever one likes; a shift up to
:data:`MARGIN` is granted, which the rounding of 16 bits never reaches however many tokens are seen. A pass needs every
score within :data:`CLEAR`. A token that the request forbids is proof by itself, and so is a text that comes again in
another round against all odds. The reference arm's texts stand the same test first: they are plain draws, and where
they fail, the scorer does not know how this engine draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_specgate.chances import Drawn, Draws, Places, Series, Spot
from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.parts import declared, unmeasured
from pytest_specgate.records import Check, Interval, Outcome, Samples, Stored
from pytest_specgate.stats.betting import Shift, Stake, shift, stake
from pytest_specgate.stats.proportions import exact_limits
from pytest_specgate.suite.cases import Gate

#: A mean deviation that is granted before anything is called a fault.
MARGIN = 0.005
#: Every mean deviation must clearly be below this for a pass.
CLEAR = 0.010
#: A larger part of the tokens than this with a wrong log-probability is no matter of rounding.
MISQUOTED = 0.01
#: Standard errors that a clear deviation stays below: wrong once in 20 times for one that lies right at the limit.
SURE = 1.645
#: Standard errors beyond which a part is called wrong once the whole is known to be.
_DOUBT = 4.0
#: Share of replacements that rounding may put where q and p are as good as equal.
_ROUNDED = 0.01
#: Share of declared chances that rounding may move far: at the edge of a filter a token is in or out.
_FOREIGN = 0.02

_UNTOLD = ": see whether drafts are really drawn from the q that the accept rule takes"

_READING = {
    ("draft", 1): "what the draft likes is drawn too often",
    ("draft", -1): "what the draft likes is drawn too rarely",
    ("top1", 1): "the first choice is drawn too often, as at a lower temperature",
    ("top1", -1): "the first choice is drawn too rarely, as at a higher temperature",
    ("rank", 1): "likely tokens are drawn too often, as at a lower temperature",
    ("rank", -1): "unlikely tokens are drawn too often, as at a higher temperature or without a filter",
}


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:  # noqa: ARG001 - as all
    """The check of one gate. Raises NoVerdict where no text was scored, or the scorer is wrong about plain draws."""
    found = _found(gate, samples, context)
    _refuse_wrong_scorer(found, context)
    shifts = {name: shift(one.deviations, one.variances) for name, one in found.candidate.scores.items()}
    outcome, reason, needed = _judged(found, shifts, context)
    value = _overlap(shifts)
    required = gate.spec.limit.text if gate.spec.limit else ""
    said = f"distribution fit: {declared(found.max_tv)}{reason}"
    check = Check("limit", required, outcome, said, value, needed)
    notes = (*_notes(found), *(_blamed(found.candidate) if outcome is Outcome.FAIL else ()))
    return Judged((check,), value, warnings=notes)


def _found(gate: Gate, samples: Samples, context: JudgeContext) -> Draws:
    if samples.greedy:
        what = f"{gate.spec.metric} asks how tokens are drawn, and this case is greedy"
        raise NoVerdict(what, "narrow the gate with 'scenarios', or give the scenario a temperature above 0")
    if samples.draws is None or not samples.draws.candidate.tokens or not samples.draws.reference.tokens:
        raise unmeasured(gate.spec.metric, context.engine, "remove the gate, or use an engine that scores drawn texts")
    return samples.draws


def _refuse_wrong_scorer(found: Draws, context: JudgeContext) -> None:
    plain = found.reference
    hint = "find out what the reference arm does to its scores that the scorer does not: processors, dtype, vocabulary"
    if plain.repeated:
        what = f"{context.engine}: the reference arm draws the same text again in another round ({plain.repeated[0]})"
        raise NoVerdict(what, "let the engine draw by the request's seed, which is another in every round")
    if plain.outside:
        raise NoVerdict(f"{context.engine}: the control failed: the reference arm's {_forbidden(plain)}", hint)
    bets = _bets(plain, MARGIN, context.alpha)
    if bets.won_at is not None:
        what = f"{context.engine}: the control failed: plain draws of the reference arm do not fit either"
        raise NoVerdict(f"{what} ({_evidence(plain, bets)})", hint)


def _bets(drawn: Drawn, margin: float, alpha: float) -> Stake:
    parts = {"bonus": drawn.bonus} if any(drawn.bonus) else {}
    return stake({name: one.deviations for name, one in drawn.scores.items()}, margin, alpha, parts)


def _judged(found: Draws, shifts: dict[str, Shift], context: JudgeContext) -> tuple[Outcome, str, str]:
    """(outcome, what was found, what would decide)."""
    drawn, margin, clear = found.candidate, found.max_tv or MARGIN, found.max_tv or CLEAR
    if fault := _proof(found):
        return Outcome.FAIL, fault, ""
    bets = _bets(drawn, margin, context.alpha)
    if bets.won_at is not None:
        return Outcome.FAIL, _evidence(drawn, bets), ""
    told = ", ".join(f"{name} {_points(one)}" for name, one in sorted(shifts.items()))
    if all(abs(one.mean) + SURE * one.error <= clear for one in shifts.values()):
        return Outcome.PASS, f"{drawn.tokens} tokens fit the target within {clear * 100:g} points ({told})", ""
    needed = _needed(drawn.tokens, shifts, clear)
    said = f"{drawn.tokens} tokens show no fault beyond doubt, and none of {clear * 100:g} points is excluded ({told})"
    return Outcome.INCONCLUSIVE, f"{said}; {needed}", needed


def _proof(found: Draws) -> str:
    """What no draw from the target can do; empty if there is nothing."""
    drawn = found.candidate
    if drawn.repeated:
        said = f"{len(drawn.repeated)} prompts get the same text again in another round, as if seeds were not honoured"
        return f"{said} (first: {drawn.repeated[0]})"
    allowed = found.max_tv is not None and exact_limits(len(drawn.outside), drawn.tokens)[0] <= found.max_tv
    if drawn.outside and not allowed:
        return _forbidden(drawn)
    # Where the reference arm's are wrong too, the engine means something else by a log-probability.
    return _wrong_quotes(drawn) if not _wrong_quotes(found.reference) else ""


def _wrong_quotes(drawn: Drawn) -> str:
    """What is wrong with the log-probabilities that the engine tells; empty if nothing is, or if it tells none."""
    if len(drawn.misquoted) <= MISQUOTED * drawn.tokens:
        return ""
    told = f"{len(drawn.misquoted)} of {drawn.tokens} tokens are told"
    return f"{told} with another log-probability than the target gives: first {_at(drawn.misquoted[0])}"


def _forbidden(drawn: Drawn) -> str:
    first = _at(drawn.outside[0])
    return f"{len(drawn.outside)} of {drawn.tokens} tokens are such as the request forbids: first {first}"


def _at(spot: Spot) -> str:
    return f"{spot.prompt}, round {spot.round + 1}, output token {spot.position + 1} (id {spot.token})"


def _evidence(drawn: Drawn, bets: Stake) -> str:
    marks = drawn.bonus if bets.part else (True,) * drawn.tokens
    seen = _shift_of(drawn.scores[bets.score], marks[: bets.peak_at])
    odds = f"odds of {_power(bets.log_peak)} to 1 against draws from the target"
    where = "of the tokens that follow a block of drafts kept whole, " if bets.part else ""
    reading = f"{where}{_READING[bets.score, bets.sign]} ({bets.score} score {_points(seen)} points)"
    return f"{odds}, enough after {bets.won_at} of {drawn.tokens} tokens: {reading}"


def _shift_of(one: Series, marks: Sequence[bool]) -> Shift:
    kept = [(d, v) for d, v, marked in zip(one.deviations, one.variances, marks) if marked]
    return shift([d for d, _ in kept], [v for _, v in kept])


def _power(log: float) -> str:
    return f"{math.exp(log):.3g}" if log < 30 else f"1e{log / math.log(10):.0f}"


def _points(one: Shift) -> str:
    return f"{one.mean * 100:+.2f} ± {one.error * 100:.2f}"


def _needed(tokens: int, shifts: dict[str, Shift], clear: float) -> str:
    if any(abs(one.mean) - SURE * one.error > clear / 2 for one in shifts.values()):
        return "more rounds would tell"
    # What looks like a shift while the error is large is taken for half of what may be.
    rooms = [(max(clear - abs(one.mean), clear / 2), one.error) for one in shifts.values()]
    more = max(math.ceil(tokens * (SURE * error / room) ** 2) for room, error in rooms)
    return f"about {max(more, tokens + 1)} tokens would decide (this run had {tokens})"


def _overlap(shifts: dict[str, Shift]) -> Interval:
    worst = max(shifts.values(), key=lambda one: abs(one.mean))
    size, half = abs(worst.mean), SURE * worst.error
    return Interval(1 - size, max(1 - size - half, 0.0), min(1 - size + half, 1.0))


def _notes(found: Draws) -> Iterator[str]:
    if "draft" not in found.candidate.scores:
        said = "the draft could not be asked, so faults of what replaces a rejected draft, of the bonus token and of a"
        yield f"{said} lenient accept rule stay next to invisible"
    if found.max_tv is not None and found.candidate.outside:
        yield f"declared lossy: {_forbidden(found.candidate)}"


def _blamed(drawn: Drawn) -> Iterator[str]:
    """Which part of the decoder it is, as far as its rounds tell; for decoders that keep drafts by p and q.

    Not evidence by itself: a decoder may be sound by other rules than these.
    """
    if drawn.places is None or not drawn.places.tested:
        return
    declared_q = _declared_q(drawn.places)
    # Accept rule and residual are judged by the draft's own q, and follow from another one that they were told.
    told = declared_q is None or declared_q[1]
    parts = [declared_q, *((_accept_rule(drawn.places), _residual(drawn.places)) if told else ()), _bonus(drawn)]
    for name, fits, said in filter(None, parts):
        yield f"{name} {'fits' if fits else 'is wrong'}: {said}"
    if all(part is None or part[1] for part in parts):
        yield f"no part is wrong by itself{'' if drawn.places.offers else _UNTOLD}"


_Part = tuple[str, bool, str]


def _declared_q(places: Places) -> _Part | None:
    """Whether drafts are drawn from the chances that the accept rule is told, as far as the engine tells them."""
    if not places.offers:
        return None
    name = "the declared q"
    if places.checked and exact_limits(places.foreign, places.checked)[0] > _FOREIGN:
        said = f"{places.foreign} of {places.checked} kept drafts are declared with another chance than the draft gives"
        return name, False, said
    mean, usual = places.offered / places.offers, places.usual / places.offers
    error = math.sqrt(places.scatter) / places.offers
    said = f"{places.offers} drafts have {mean:.1%} of it on average, and draws from the draft have {usual:.1%}"
    return name, abs(mean - usual) <= MARGIN + _DOUBT * error, f"{said} ± {error:.1%}"


def _accept_rule(places: Places) -> _Part:
    rate, allowed = places.kept / places.tested, places.expected / places.tested
    error = math.sqrt(places.variance) / places.tested
    said = f"{rate:.1%} of {places.tested} tested drafts were kept, and p and q allow {allowed:.1%} ± {error:.1%}"
    return "the accept rule", abs(rate - allowed) <= _DOUBT * error, said


def _residual(places: Places) -> _Part | None:
    if not places.replaced:
        return None
    said = f"{places.impossible} of {places.replaced} tokens are such as the draft likes no less than the target"
    fits = exact_limits(places.impossible, places.replaced)[0] <= _ROUNDED
    return "what replaces rejected drafts", fits, said


def _bonus(drawn: Drawn) -> _Part | None:
    if not any(drawn.bonus):
        return None
    shifts = {name: _shift_of(one, drawn.bonus) for name, one in drawn.scores.items()}
    name, worst = max(shifts.items(), key=lambda item: abs(item[1].mean) / max(item[1].error, 1e-12))
    fits = abs(worst.mean) <= MARGIN + _DOUBT * worst.error
    return "what follows a block kept whole", fits, f"{name} score {_points(worst)} points in {sum(drawn.bonus)} tokens"
