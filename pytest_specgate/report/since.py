"""What changed since the baseline: its date, its subject, one number a metric, and what a changed speed is made of.

Speed over the decoded tokens is a product of measured parts: the reference arm's time per token, tokens per round, and
the candidate arm's time per round. In logarithms their changes add up to the change of ``decode_speedup``, so none of
it stays unexplained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from pytest_specgate.metrics import METRICS, Unit
from pytest_specgate.records import Place, Samples, Stored
from pytest_specgate.samples.values import values
from pytest_specgate.stats.paired import sane
from pytest_specgate.units import format_value

_REFERENCE, _CANDIDATE, _LENGTH = "reference_tpot", "tpot", "acceptance_length"
_LEAST = 0.005  # changes below half a percent are not told: a reader would take noise for a reason


@dataclass(frozen=True, slots=True)
class Compared:
    """The baseline that a case was compared with.

    ``values`` are one number a metric; ``decode`` holds geometric means over prompts of both arms' seconds per decoded
    token (``tpot``, ``reference_tpot``), as far as they were stored.
    """

    case: str
    recorded: str
    place: Place
    subject: Mapping[str, str]
    values: Mapping[str, float]
    decode: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Part:
    """One factor of a changed speedup: what it was, what it is, and by which share it alone changes the speedup."""

    name: str
    before: str
    after: str
    effect: float


def compared(case: str, stored: Stored) -> Compared:
    """What a report keeps of a baseline entry."""
    return Compared(
        case, stored.recorded, stored.place, stored.subject, values(stored.samples), decode_times(stored.samples)
    )


def decode_times(samples: Samples) -> dict[str, float]:
    """Geometric means over prompts of both arms' time per decoded token; only of what every prompt has."""
    found = {}
    for name in (_REFERENCE, _CANDIDATE):
        series = [p.series.get(name, ()) for p in samples.prompts]
        if series and all(times and sane(times) and min(times) > 0 for times in series):
            found[name] = math.exp(fmean(fmean(map(math.log, times)) for times in series))
    return found


def metric_changes(before: Compared, now: Samples) -> list[tuple[str, float, float]]:
    """(metric, stored, now) of every metric that both hold."""
    after = values(now)
    return [(name, before.values[name], after[name]) for name in METRICS if name in after and name in before.values]


def subject_changes(before: Compared, now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(what, stored, now) of everything in the subject that is not what it was."""
    return [
        (name, before.subject.get(name, "-"), now.get(name, "-"))
        for name in sorted({*before.subject, *now})
        if before.subject.get(name, "-") != now.get(name, "-")
    ]


def parts(before: Compared, now: Samples) -> list[Part]:
    """What the change of ``decode_speedup`` is made of; nothing where one of the parts was not measured."""
    after, times = values(now), decode_times(now)
    lengths = (before.values.get(_LENGTH), after.get(_LENGTH))
    if not all(lengths) or not times.keys() == before.decode.keys() == {_REFERENCE, _CANDIDATE}:
        return []
    (old_length, new_length) = (length or 1.0 for length in lengths)
    rounds = (before.decode[_CANDIDATE] * old_length, times[_CANDIDATE] * new_length)
    alone = (before.decode[_REFERENCE], times[_REFERENCE])
    return [
        Part("tokens per round", f"{old_length:.2f}", f"{new_length:.2f}", new_length / old_length - 1),
        Part("time per round", _seconds(rounds[0]), _seconds(rounds[1]), rounds[0] / rounds[1] - 1),
        Part("the reference arm's time per token", _seconds(alone[0]), _seconds(alone[1]), alone[1] / alone[0] - 1),
    ]


def explanation(before: Compared, now: Samples) -> str:
    """One sentence: ``decode speedup 1.62x → 1.31x (−19 %): time per round 21 → 25 ms explains −16 %, ...``."""
    told = sorted(parts(before, now), key=lambda part: -abs(math.log1p(part.effect)))
    if not told:
        return ""
    was, is_now = (t[_REFERENCE] / t[_CANDIDATE] for t in (before.decode, decode_times(now)))
    said = [f"{p.name} {p.before} → {p.after} explains {p.effect:+.1%}" for p in told if abs(p.effect) >= _LEAST]
    head = f"decode speedup {was:.3f}x → {is_now:.3f}x ({is_now / was - 1:+.1%})"
    return f"{head}: {', '.join(said) or 'nothing moved by half a percent'}"


def _seconds(value: float) -> str:
    return format_value(value, Unit.SECONDS)
