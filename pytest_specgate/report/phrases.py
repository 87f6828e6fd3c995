"""Sentences and cells that the faces for people share, as plain text: each face escapes them its own way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_specgate.measure.texts import arm_seconds
from pytest_specgate.metrics import METRICS, Family, Unit
from pytest_specgate.records import Check, Interval, Measurement, Outcome, Samples, Verdict
from pytest_specgate.report import prediction
from pytest_specgate.report.advised import Advice
from pytest_specgate.report.document import Report
from pytest_specgate.report.numbers import UNMEASURED
from pytest_specgate.report.outline import CaseView, counts
from pytest_specgate.report.since import Compared, explanation, subject_changes
from pytest_specgate.report.terminal import shown
from pytest_specgate.units import format_value

_MOST_REASONS, _MOST_COSTS = 4, 2
_SAID = {
    Outcome.FAIL: "failed",
    Outcome.ERROR: "could not be measured",
    Outcome.INCONCLUSIVE: "undecided",
    Outcome.PASS: "passed",
}


def headline(report: Report) -> str:
    """``Speculation gates: 2 failed, 1 undecided, 9 passed``: what came of the run, the worst first."""
    found = counts(report.verdicts)
    parts = [f"{found[outcome]} {words}" for outcome, words in _SAID.items() if found[outcome]]
    softened = sum(1 for verdict in report.verdicts if verdict.softened and verdict.outcome is not Outcome.PASS)
    if softened:
        parts.append(f"{softened} of them not counted (waived or warned)")
    return f"Speculation gates: {', '.join(parts) or 'nothing was judged'}"


def place_of(report: Report) -> str:
    """When, by which version, where, and the exit status that pytest ended with."""
    places = dict.fromkeys(one.place.slug for taken in report.measurements.values() for one in taken)
    where = f" on {', '.join(places)}" if places else ""
    status = f"exit status {report.exit_status}"
    return f"pytest-specgate {report.version}, {report.created}{where}, {status}"


def shown_or_unmeasured(metric: str, interval: Interval | None) -> str:
    """A value with its interval, or that there is none."""
    return UNMEASURED if interval is None else shown(metric, interval)


def scoring(taken: Measurement) -> str:
    """What scoring the case's texts added to the candidate arm's time; empty where none was scored."""
    cost = taken.scoring
    if cost is None or cost.share is None:
        return ""
    aside = f"; control aside, {cost.control:.1f} s" if cost.control else ""
    return f"{cost.texts:.1f} s, {cost.share:.1%} of the candidate arm's{aside}"


def scoring_of_all(report: Report) -> str:
    """The same over all cases of the run, those that nothing was scored of included; empty where none was."""
    taken = [one for ones in report.measurements.values() for one in ones]
    texts = sum(one.scoring.texts for one in taken if one.scoring is not None)
    arm = sum(map(arm_seconds, taken))
    if not texts or not arm:
        return ""
    return f"Scoring took {texts / arm:.1%} of the candidate arms' measured time in all, controls aside"


def required(check: Check) -> str:
    """``>=1.2x`` for a limit, ``drop ≤ 5%`` for an allowed change."""
    if check.kind == "limit":
        return check.required
    return f"{check.kind.removeprefix('max_')} ≤ {check.required}"


def looks_of(check: Check) -> str:
    """``INCONCLUSIVE after 1, FAIL after 2 rounds``; empty where there was one look, or none."""
    if len(check.looks) < 2:
        return ""
    return ", ".join(f"{look.outcome.value} after {look.rounds}" for look in check.looks) + " rounds"


def since(view: CaseView) -> list[str]:
    """What :func:`history` tells of the case; nothing where there was no baseline."""
    if view.baseline is None or view.measurement is None:
        return []
    return history(view.baseline, view.measurement, view.samples)


def behind(verdict: Verdict, view: CaseView) -> list[str]:
    """What a comparison or a speed rests on: the baseline and what changed since; without one, what a round is made of.

    Nothing for a verdict that is neither, or passed.
    """
    speed = verdict.metric in METRICS and METRICS[verdict.metric].family is Family.SPEEDUP
    compares = any(check.kind != "limit" for check in verdict.checks)
    if view.measurement is None or verdict.outcome is Outcome.PASS or not (speed or compares):
        return []
    if view.baseline is not None:
        return since(view)
    return composition(view.measurement, view.samples) if speed else []


def composition(taken: Measurement, now: Samples | None) -> list[str]:
    """What a speed is made of, where no baseline tells what it was; nothing without costs."""
    rounds = prediction.per_round(now) if now is not None else None
    spent = prediction.round_time(rounds, taken.costs, prediction.decode_times(now)) if now is not None else None
    if now is None or rounds is None or spent is None or taken.costs is None:
        return []
    draft, verify, loop = (format_value(part, Unit.SECONDS) for part in (spent.draft, spent.verify, spent.loop))
    alone, predicted = format_value(spent.alone, Unit.SECONDS), prediction.predicted_speedup(now, taken.costs)
    said = f"a round yields {rounds.emitted:.2f} tokens and takes drafting {draft}, the target's forward {verify}, "
    said += f"the loop {loop}; the target alone takes {alone} a token; "
    return [f"{said}without the loop's own work it would be {predicted:.2f}x"]


def history(before: Compared, taken: Measurement, now: Samples | None) -> list[str]:
    """What a changed speed is made of, when the baseline was recorded, and what changed in the subject since."""
    made_of = explanation(before, now, taken.costs) if now is not None else ""
    changed = subject_changes(before.subject, taken.subject)
    told = ", ".join(f"{name} {was} → {is_now}" for name, was, is_now in changed) or "nothing in the subject"
    where = f" on another machine ({before.place.slug})" if before.place != taken.place else ""
    said = [f"baseline of {before.recorded}{where}; changed since: {told}"]
    return [made_of, *said] if made_of else said


def money(found: Interval | None) -> str:
    """``0.412 [0.405, 0.419]``; "not measured" where there is none."""
    if found is None:
        return UNMEASURED
    value, low, high = (f"{end:.3g}" for end in (found.value, found.low, found.high))
    return value if low == high else f"{value} [{low}, {high}]"


def advised(found: Sequence[Advice]) -> Iterator[tuple[str, list[str]]]:
    """For every engine one sentence of advice, and a few that tell why and at which price."""
    for whole in (one for one in found if not one.scenario):
        bounds = f": {'; '.join(whole.conditions)}" if whole.conditions else f": {whole.rule}"
        said = list(whole.reasons[:_MOST_REASONS])
        if len(whole.reasons) > _MOST_REASONS:
            said.append(f"and {len(whole.reasons) - _MOST_REASONS} more scenarios; reports hold all of them")
        for cost in whole.costs[:_MOST_COSTS]:
            arms = f"{money(cost.reference)} without speculation, {money(cost.candidate)} with it"
            said.append(f"a million tokens of {cost.scenario} at {cost.load or f'{cost.concurrency} at once'}: {arms}")
        yield f"{whole.suite} · {whole.engine}: {whole.recommendation.value}{bounds}", said


def soft(verdict: Verdict) -> str:
    """In a word or two, what keeps a failure from failing the build."""
    return verdict.softened.partition(":")[0]
