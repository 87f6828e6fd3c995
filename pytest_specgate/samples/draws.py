"""What ``distribution_fit`` is judged by: the scores of every token of both arms, in the order of the draws.

Every round draws anew, so every text counts, a short one that comes twice as well; of the reference arm those that the
control holds. A text ends with its end-of-text token, included, for beyond it there is nothing to draw. The place of a
token within its own chance is a random number of this reduction's own, the same at every reduction of the same
measurement.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from pytest_specgate.chances import Chances, DraftChances, Drawn, Draws, Places, Series, Spot
from pytest_specgate.errors import InvalidTrace
from pytest_specgate.records import Arm, Measurement, Pair, Trace
from pytest_specgate.samples.blocks import trace_of
from pytest_specgate.samples.choices import until_end

#: A text that comes again against these odds was not drawn again.
REPEATED = 1e-9
#: A log-probability that an engine tells may be off by so much: 16 bits move a rare token's by less.
QUOTED = 0.5

_Scored = Mapping[tuple[str, tuple[int, ...]], Chances]
#: Deviations and variances.
_Columns = tuple[list[float], list[float]]


def draws(measurement: Measurement) -> Draws | None:
    """None where no text was scored. Raises InvalidTrace where one of several was not."""
    if measurement.fit is None:
        return None
    scored = {(text.prompt, text.token_ids): text.chances for text in measurement.fit.texts}
    control = measurement.pairs[: measurement.fit.plain]
    candidate = _drawn(measurement, measurement.pairs, Arm.CANDIDATE, scored)
    reference = _drawn(measurement, control, Arm.REFERENCE, scored)
    return Draws(candidate, reference, measurement.fit.max_tv)


def _drawn(measurement: Measurement, pairs: Sequence[Pair], arm: Arm, scored: _Scored) -> Drawn:
    parts = defaultdict[str, list[_Columns]](list)
    outside: list[Spot] = []
    bonus: list[bool] = []
    places: list[Places | None] = []
    misquoted: list[Spot] = []
    tokens = 0
    for pair in pairs:
        trace = trace_of(pair, arm)
        found, end = _chances(measurement, trace, scored), until_end(trace)
        tokens += end
        for name, columns in _scores(found, end, f"{pair.prompt}:{pair.round}:{arm.value}").items():
            parts[name].append(columns)
        bonus += _bonus(trace)[:end]
        places.append(_places(trace, found))
        outside += [Spot(pair.prompt, pair.round, at, trace.token_ids[at]) for at in found.outside if at < end]
        wrong = _misquoted(trace, found, end)
        misquoted += [Spot(pair.prompt, pair.round, at, trace.token_ids[at]) for at in wrong]
    series = {name: _series(columns) for name, columns in parts.items()}
    complete = {name: one for name, one in series.items() if len(one.deviations) == tokens}
    marks = tuple(bonus) if len(bonus) == tokens else ()
    repeated = _repeated(measurement.pairs, arm, scored)
    return Drawn(complete, tokens, marks, tuple(outside), repeated, _sum(places), tuple(misquoted))


def _misquoted(trace: Trace, found: Chances, end: int) -> list[int]:
    """Output tokens of which the engine tells a log-probability that the target does not give them."""
    told = (trace.logprobs or ())[:end]
    known = [(at, quoted, chance) for at, (quoted, chance) in enumerate(zip(told, found.chance)) if chance > 0]
    return [at for at, quoted, chance in known if not abs(quoted - math.log(chance)) <= QUOTED]


def _bonus(trace: Trace) -> list[bool]:
    """Which output tokens follow a block of drafts kept whole; nothing where the engine tells no rounds."""
    if trace.rounds is None:
        return []
    found = [False] * trace.prefill_tokens
    for r in trace.rounds:
        found += [place == r.drafted > 0 for place in range(r.emitted)]
    return found


def _places(trace: Trace, found: Chances) -> Places | None:
    """The counts of one text; None where rounds or the draft's chances are not known."""
    if trace.rounds is None or found.draft is None:
        return None
    begin, seen, replaced, impossible = trace.prefill_tokens, list[int](), 0, 0
    told = list[_Offer]()
    for r in trace.rounds:
        tested = range(begin, begin + min(r.tested, r.emitted))
        seen += tested
        told += [_Offer(place, q, place - begin < r.accepted) for place, q in zip(tested, r.offered)]
        if r.accepted < r.tested and r.emitted > r.accepted:
            replaced += 1
            impossible += found.draft.kept[begin + r.accepted] >= 1
        begin += r.emitted
    overlaps = [found.draft.overlap[place] for place in seen]
    kept = len(seen) - replaced
    counted = Places(len(seen), kept, sum(overlaps), sum(x * (1 - x) for x in overlaps), replaced, impossible)
    return _with_offers(counted, told, found.draft)


@dataclass(frozen=True, slots=True)
class _Offer:
    """A tested draft: where it would stand in the output, its declared q, and whether it does stand there."""

    place: int
    declared: float
    kept: bool


def _with_offers(counted: Places, told: Sequence[_Offer], draft: DraftChances) -> Places:
    """Which drafts are tested depends on the tokens before them alone, so their declared q has a known expectation."""
    if not draft.usual or not told:
        return counted
    means = [(draft.usual[one.place], draft.usual_square[one.place]) for one in told]
    kept = [(one.declared, draft.chance[one.place]) for one in told if one.kept]
    return replace(
        counted,
        offers=len(told),
        offered=math.fsum(one.declared for one in told),
        usual=math.fsum(mean for mean, _ in means),
        scatter=math.fsum(max(square - mean**2, 0.0) for mean, square in means),
        checked=len(kept),
        foreign=sum(not _alike(declared, own) for declared, own in kept),
    )


def _alike(declared: float, own: float) -> bool:
    return declared > 0 and own > 0 and abs(math.log(declared / own)) <= QUOTED


def _sum(places: Sequence[Places | None]) -> Places | None:
    known = [one for one in places if one is not None]
    if len(known) < len(places):
        return None
    names = [one.name for one in fields(Places)]
    return Places(**{name: sum(getattr(one, name) for one in known) for name in names})


def _chances(measurement: Measurement, trace: Trace, scored: _Scored) -> Chances:
    found = scored.get((trace.prompt, trace.token_ids))
    if found is None or len(found.chance) != trace.output_tokens:
        what = f"{measurement.case}: {trace.prompt}: the {trace.arm.value} arm's text was not scored whole"
        raise InvalidTrace(f"{what} — measure again")
    return found


def _scores(found: Chances, end: int, name: str) -> dict[str, _Columns]:
    """Deviations and variances of the first ``end`` tokens, by score."""
    places = random.Random(name)
    columns = found.chance[:end], found.above[:end], found.highest[:end]
    rows = [(chance, above, highest, places.random()) for chance, above, highest in zip(*columns)]
    scores: dict[str, _Columns] = {
        "top1": ([(above == 0) - top for _, above, top, _ in rows], [top * (1 - top) for _, _, top, _ in rows]),
        "rank": ([0.5 - min(above + place * chance, 1.0) for chance, above, _, place in rows], [1 / 12] * end),
    }
    if found.draft is not None:
        kept, overlap, square = (column[:end] for column in (found.draft.kept, found.draft.overlap, found.draft.square))
        variances = [max(second - first**2, 0.0) for first, second in zip(overlap, square)]
        scores["draft"] = ([one - mean for one, mean in zip(kept, overlap)], variances)
    return scores


def _series(columns: Sequence[_Columns]) -> Series:
    deviations, variances = (tuple(x for one in several for x in one) for several in zip(*columns))
    return Series(deviations, variances)


def _repeated(pairs: tuple[Pair, ...], arm: Arm, scored: _Scored) -> tuple[str, ...]:
    """Prompts that got a text again which the target would hardly ever draw twice."""
    rounds = defaultdict[tuple[str, tuple[int, ...]], set[int]](set)
    for pair in pairs:
        rounds[pair.prompt, trace_of(pair, arm).token_ids].add(pair.round)
    again = {key for key, several in rounds.items() if len(several) > 1}
    most = math.log(REPEATED / max(len(pairs) ** 2, 1))
    return tuple(dict.fromkeys(key[0] for key in rounds if key in again and _log_chance(scored[key]) < most))


def _log_chance(found: Chances) -> float:
    return math.fsum(math.log(max(chance, 1e-300)) for chance in found.chance)
