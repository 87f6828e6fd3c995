"""What one case says about adopting speculation, read off its numbers and verdicts; deciding is left to the rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_specgate.metrics import METRICS, Family, Unit
from pytest_specgate.records import Arm, Interval, Measurement, Outcome, Samples
from pytest_specgate.report import numbers, positions, prediction
from pytest_specgate.report.advised import Wanted
from pytest_specgate.report.escape import one_line
from pytest_specgate.report.numbers import Estimate, text
from pytest_specgate.report.outline import CaseView
from pytest_specgate.report.prediction import Suggestion
from pytest_specgate.units import format_value

PAYS, LOSES, OPEN, UNMEASURED = "pays", "loses", "open", "unmeasured"
_ARRIVALS = {"poisson": "Poisson", "fixed": "evenly"}
_SECONDS = 3600.0
_MOST_QUOTED = 400  # characters of another's sentence
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Evidence:
    """One case: ``standing`` is whether its speedup pays, loses, stays open or was not measured.

    ``wrong`` says why the output is not the target's, ``unsteady`` which environment rule was broken; both are empty
    where nothing is amiss. ``memory`` is candidate ÷ reference of the peaks, ``ttft`` of the medians,
    ``capacity`` of how many requests fit.
    ``context`` is the longest context, in tokens, up to which acceptance is not below break-even; None where it holds
    everywhere, or cannot be told. ``ratios`` are candidate ÷ reference, by what both arms have.
    """

    view: CaseView
    concurrency: int
    standing: str
    speed: Estimate | None = None
    ttft: Estimate | None = None
    memory: float | None = None
    capacity: float | None = None
    wrong: str = ""
    unsteady: str = ""
    context: int | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)
    suggestion: Suggestion | None = None

    @property
    def load(self) -> str:
        """``4 requests/s (Poisson)`` where requests come by the clock; empty in a closed loop."""
        words = self.view.measurement.workload.get("load", "").split() if self.view.measurement else []
        if len(words) < 2:
            return ""
        return f"{words[0].removesuffix('/s')} requests/s ({_ARRIVALS.get(words[1], words[1])})"

    @property
    def at(self) -> str:
        """``at 4 at once``, or at which rate."""
        return f"at {self.load or f'{self.concurrency} at once'}"


def evidence(view: CaseView, wanted: Wanted) -> Evidence:
    """All that the rules look at."""
    concurrency = view.series[1] if view.series else 1
    taken, samples = view.measurement, view.samples
    if taken is None or samples is None:
        return Evidence(view, concurrency, UNMEASURED, wrong=_wrong(view))
    broken = [f"environment rule '{one.rule}' did not hold: {one.detail}" for one in taken.findings if not one.held]
    speed = numbers.speedup(samples)
    rows = {row.label: row.ratio for row in numbers.arms(samples, dict(taken.memory))}
    return Evidence(
        view=view,
        concurrency=concurrency,
        standing=OPEN if broken and speed is not None else _standing(speed, wanted.min_speedup),
        speed=speed,
        ttft=rows.get("ttft, median"),
        memory=samples.scalars.get("vram_ratio", samples.scalars.get("host_memory_ratio")),
        capacity=samples.scalars.get("max_batch_ratio"),
        wrong=_wrong(view),
        unsteady=one_line(broken[0], _MOST_QUOTED) if broken else "",
        ratios={label: ratio.value for label, ratio in rows.items() if ratio},
        context=_context(taken, samples, wanted.min_speedup),
        suggestion=prediction.suggestion(samples, taken.costs),
    )


def _standing(speed: Estimate | None, least: float) -> str:
    if speed is None:
        return UNMEASURED
    if speed.low is not None and speed.low >= least:
        return PAYS
    return LOSES if speed.high is not None and speed.high < least else OPEN


def _wrong(view: CaseView) -> str:
    """A failed gate on the output; texts that differ are excused where scoring found every token the target's own."""
    exact = any(v.metric == "greedy_exactness" and v.outcome is Outcome.PASS for v in view.verdicts)
    for verdict in view.verdicts:
        family = METRICS[verdict.metric].family if verdict.metric in METRICS else None
        excused = verdict.metric == "exact_match" and exact
        if verdict.outcome is Outcome.FAIL and family in (Family.OUTPUT, Family.EXACTNESS) and not excused:
            return f"{verdict.metric} fails: {one_line(verdict.reason, _MOST_QUOTED)}"
    return ""


def _context(taken: Measurement, samples: Samples, least: float) -> int | None:
    """Where acceptance falls below what the round's time asks for, and stays there as far as was measured."""
    rounds, decode = prediction.per_round(samples), prediction.decode_times(samples)
    longest = max((r.drafted for pair in taken.pairs for r in pair.candidate.rounds or ()), default=0)
    if rounds is None or len(decode) < 2 or not longest:
        return None
    needed = least * decode["tpot"] * rounds.emitted / decode["reference_tpot"]

    def pays(share: Estimate) -> bool:
        rate = share.value if share.high is None else share.high
        return rounds.drafting * prediction.expected(min(rate, 1.0), longest) + 1 - rounds.drafting >= needed

    found = [(one.position, pays(one.share)) for one in positions.by_context(taken)]
    short = [place for place, holds in found if not holds]
    # All that begins at or beyond the first loser loses, and something before it does not.
    if not short or short[0] == found[0][0] or any(holds for place, holds in found if place > short[0]):
        return None
    return short[0]


# --- sentences ---


def speed_said(one: Evidence) -> str:
    """``speedup 1.62x [1.58x, 1.66x] at 4 at once, prompts from 1.21x to 1.90x``."""
    if one.speed is None:
        return f"no speedup was measured {one.at}"
    prompts = numbers.by_prompt(one.view.samples) if one.view.samples else []
    spread = f", prompts from {prompts[0][1].value:.2f}x to {prompts[-1][1].value:.2f}x" if len(prompts) > 1 else ""
    return f"speedup {text(one.speed, Unit.RATIO)} {one.at}{spread}"


def acceptance_said(one: Evidence) -> str:
    """How much of the drafts the target keeps, and what that and the costs predict."""
    samples, taken = one.view.samples, one.view.measurement
    rate = prediction.conditional(samples) if samples else None
    rounds = prediction.per_round(samples) if samples else None
    if samples is None or taken is None or rate is None or rounds is None:
        return "acceptance was not measured"
    said = f"{text(rate, Unit.FRACTION)} of tested draft tokens are kept, {rounds.emitted:.2f} tokens a round"
    predicted = prediction.predicted_speedup(samples, taken.costs) if taken.costs else None
    decode = prediction.decode_times(samples)
    if predicted is None or len(decode) < 2:
        return said
    measured = decode["reference_tpot"] / decode["tpot"]
    share = f"of which the loop keeps {measured / predicted:.0%}"
    return f"{said}; with what forwards cost that predicts {predicted:.2f}x for decoding, {share}"


def memory_said(one: Evidence) -> str:
    """Both peaks and their ratio."""
    taken = one.view.measurement
    name = "vram" if one.view.samples and "vram_ratio" in one.view.samples.scalars else "host_memory"
    peaks = [numbers.peak(taken.memory.get(arm), name) if taken else None for arm in (Arm.CANDIDATE, Arm.REFERENCE)]
    if one.memory is None or not all(peaks):
        return ""
    kind = "device" if name == "vram" else "host"
    mine, theirs = (format_value(peak, Unit.BYTES) for peak in peaks)
    return f"{kind} memory peaks at {mine} against {theirs} ({one.memory:.2f}x)"


def capacity_said(one: Evidence) -> str:
    """How many requests fit in each arm, and what the draft costs in room; empty where that was not measured."""
    scalars = one.view.samples.scalars if one.view.samples else {}
    fits, ratio = scalars.get("max_batch"), one.capacity
    if fits is None or not ratio:
        return ""
    lost = f"{1 - ratio:.0%} of the room is lost"
    return f"{fits:.0f} requests at once fit (max_batch) against {fits / ratio:.0f}: {lost}"


def output_said(one: Evidence) -> str:
    """Whether both arms say the same."""
    samples = one.view.samples
    if samples is None:
        return ""
    judged = next((v for v in one.view.verdicts if v.metric == "greedy_exactness" and v.outcome is Outcome.PASS), None)
    same = [all(p.series["exact_match"]) for p in samples.prompts if p.series.get("exact_match")]
    equal = f"{sum(same)} of {len(same)} prompts give the same tokens in both arms"
    return f"{equal}, and every token is the target's own choice within its noise" if judged else equal


# --- costs ---


def price_of(one: Evidence, prefix: str, wanted: Wanted) -> Interval | None:
    """A million output tokens of an arm, at its median throughput."""
    taken, samples = one.view.measurement, one.view.samples
    if wanted.price is None or taken is None or samples is None:
        return None
    rate = numbers.median(samples, f"{prefix}throughput")
    if rate is None or rate.value <= 0:
        return None
    hourly = wanted.price * max(taken.place.count, 1)

    def cost(throughput: float | None) -> float:
        usable = throughput if throughput and throughput > 0 and math.isfinite(throughput) else rate.value
        return hourly / (_SECONDS * usable) * _MILLION

    return Interval(cost(rate.value), cost(rate.high), cost(rate.low))
