"""What changed since the baseline: its date, its subject, one number a metric, and what a changed speed is made of.

A speedup is tokens per round × the reference arm's time per token ÷ the candidate arm's time per round. Where single
forwards were timed, the round is drafting, the target's forward, and the loop's own work. In logarithms the changes of
all parts add up to the change of the speedup, so none of it stays unexplained: a sum's change is shared among its parts
by their own changes (the logarithmic mean). Times are told relative to the reference arm's time per token, for what
slows down both arms explains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_specgate.metrics import METRICS, Unit
from pytest_specgate.records import Costs, Place, Samples, Stored
from pytest_specgate.report.prediction import PerRound, RoundTime, decode_times, draft_seconds, per_round, round_time
from pytest_specgate.samples.values import values
from pytest_specgate.units import format_value

_REFERENCE, _CANDIDATE, _LENGTH = "reference_tpot", "tpot", "acceptance_length"
_MOVED = 0.02  # below this, the reference arm's own change is not worth a word
_LEAST = 0.005  # changes below half a percent are not told: a reader would take noise for a reason


@dataclass(frozen=True, slots=True)
class Compared:
    """The baseline that a case was compared with.

    ``values`` are one number a metric; ``decode`` holds geometric means over prompts of both arms' seconds per decoded
    token (``tpot``, ``reference_tpot``), as far as they were stored; ``rounds`` and ``costs`` are what a round did and
    what its forwards cost, None where that was not told.
    """

    case: str
    recorded: str
    place: Place
    subject: Mapping[str, str]
    values: Mapping[str, float]
    decode: Mapping[str, float]
    rounds: PerRound | None = None
    costs: Costs | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a changed speedup: what it was, what it is, and by how much it moves the speedup, in logarithms."""

    name: str
    before: str
    after: str
    log_effect: float

    @property
    def effect(self) -> float:
        """By which share it alone changes the speedup."""
        return math.expm1(self.log_effect)


def compared(case: str, stored: Stored) -> Compared:
    """What a report keeps of a baseline entry."""
    samples = stored.samples
    told = (values(samples), decode_times(samples), per_round(samples), stored.costs)
    return Compared(case, stored.recorded, stored.place, stored.subject, *told)


def metric_changes(before: Compared, now: Samples) -> list[tuple[str, float, float]]:
    """(metric, stored, now) of every metric that both hold."""
    after = values(now)
    return [(name, before.values[name], after[name]) for name in METRICS if name in after and name in before.values]


def subject_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(what, before, now) of everything in the subject that is not what it was; ``-`` where it was not told."""
    pairs = ((name, before.get(name, "-"), now.get(name, "-")) for name in sorted({*before, *now}))
    return [(name, was, is_now) for name, was, is_now in pairs if was != is_now]


def parts(before: Compared, now: Samples, costs: Costs | None = None) -> list[Part]:
    """What the change of ``decode_speedup`` is made of; nothing where one of the parts was not measured."""
    after, times = values(now), decode_times(now)
    lengths = (before.values.get(_LENGTH), after.get(_LENGTH))
    if not all(lengths) or not times.keys() == before.decode.keys() == {_REFERENCE, _CANDIDATE}:
        return []
    (old_length, new_length) = (length or 1.0 for length in lengths)
    kept = Part(
        "acceptance", f"{old_length:.2f}", f"{new_length:.2f} tokens per round", math.log(new_length / old_length)
    )
    was = round_time(before.rounds, before.costs, dict(before.decode))
    is_now = round_time(per_round(now), costs, times)
    if was is None or is_now is None:
        return [kept, *_times_of_rounds(before, times, (old_length, new_length))]
    return [kept, *_parts_of_rounds((before.rounds, before.costs, was), (per_round(now), costs, is_now))]


def _times_of_rounds(before: Compared, times: Mapping[str, float], lengths: tuple[float, float]) -> Iterator[Part]:
    """Whole rounds, where nothing tells what they consist of."""
    rounds = (before.decode[_CANDIDATE] * lengths[0], times[_CANDIDATE] * lengths[1])
    alone = (before.decode[_REFERENCE], times[_REFERENCE])
    yield _timed("time per round", rounds, math.log(rounds[0] / rounds[1]))
    yield _timed("the reference arm's time per token", alone, math.log(alone[1] / alone[0]))


_Told = tuple[PerRound | None, Costs | None, RoundTime]


def _parts_of_rounds(before: _Told, after: _Told) -> Iterator[Part]:
    """Drafting, verifying and the loop, each by what it adds to a round relative to the reference arm's token."""
    (old_rounds, old_costs, was), (new_rounds, new_costs, now) = before, after
    if old_rounds is None or new_rounds is None or old_costs is None or new_costs is None:
        return
    mean = _logarithmic_mean(was.whole / was.alone, now.whole / now.alone)
    forwards = draft_seconds(old_costs), draft_seconds(new_costs)
    relative = forwards[0] / was.alone, forwards[1] / now.alone
    drafted = (old_rounds.drafted + new_rounds.drafted) / 2
    if any(forwards):
        effect = -drafted * (relative[1] - relative[0]) / mean
        yield _timed("draft forward", forwards, effect)
    longer = -(sum(relative) / 2) * (new_rounds.drafted - old_rounds.drafted) / mean
    yield Part("drafted tokens per round", f"{old_rounds.drafted:.2f}", f"{new_rounds.drafted:.2f}", longer)
    verify = -(now.verify / now.alone - was.verify / was.alone) / mean
    yield _timed("verify forward", (was.verify, now.verify), verify)
    loop = -(now.loop / now.alone - was.loop / was.alone) / mean
    yield Part("loop overhead", _seconds(was.loop), f"{_seconds(now.loop)} per round", loop)


def _timed(name: str, seconds: tuple[float, float], effect: float) -> Part:
    return Part(name, _seconds(seconds[0]), _seconds(seconds[1]), effect)


def _logarithmic_mean(one: float, other: float) -> float:
    return one if math.isclose(one, other, rel_tol=1e-9) else (other - one) / math.log(other / one)


def explanation(before: Compared, now: Samples, costs: Costs | None = None) -> str:
    """One sentence: ``speedup 1.62x → 1.31x (-19%): draft forward 2.1 → 3.4 ms explains -16%, acceptance ...``."""
    told = parts(before, now, costs)
    if not told:
        return ""
    times = decode_times(now)
    name, was, is_now = "decode speedup", *(t[_REFERENCE] / t[_CANDIDATE] for t in (before.decode, times))
    first = _first_token(before, now, math.log(is_now / was))
    if first is not None:
        told.append(first)
        name, was, is_now = "speedup", before.values["speedup"], values(now)["speedup"]
    told.sort(key=lambda part: -abs(part.log_effect))
    said = [f"{p.name} {p.before} → {p.after} explains {p.effect:+.1%}" for p in told if abs(p.effect) >= _LEAST]
    head = f"{name} {was:.3f}x → {is_now:.3f}x ({is_now / was - 1:+.1%})"
    return f"{head}: {', '.join(said) or 'nothing moved by half a percent'}{_reserve(before, times, costs)}"


def _first_token(before: Compared, now: Samples, decode: float) -> Part | None:
    """What the change of ``speedup`` is beyond that of the decoded tokens; None where it was not measured."""
    was, is_now = before.values.get("speedup"), values(now).get("speedup")
    if not was or not is_now:
        return None
    effect, ttft = math.log(is_now / was) - decode, (before.values.get("ttft"), values(now).get("ttft"))
    if ttft[0] is None or ttft[1] is None:
        return Part("time to the first token", "-", "-", effect)
    return _timed("time to the first token", (ttft[0], ttft[1]), effect)


def _reserve(before: Compared, times: Mapping[str, float], costs: Costs | None) -> str:
    """What keeps the parts from being told apart further, or what they are relative to."""
    if costs is None:
        return "; what forwards cost is not told by this engine"
    if before.costs is None:
        return "; the baseline holds no costs of forwards, so a round is not told apart"
    alone = before.decode[_REFERENCE], times[_REFERENCE]
    if abs(math.log(alone[1] / alone[0])) < _MOVED:
        return ""
    return f"; all relative to the target alone, {_seconds(alone[0])} → {_seconds(alone[1])} per token"


def _seconds(value: float) -> str:
    return format_value(value, Unit.SECONDS)
