"""Advice on adopting speculation, per scenario and per engine: the rules, in the order in which they are asked.

The first rule that holds decides. Nothing is recommended on a number that its interval does not carry, and an output
that is not the target's ends the question, however fast it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.metrics import METRICS, Family, Unit
from pytest_specgate.records import Outcome
from pytest_specgate.report.advised import Advice, Recommendation, TokenCost, Wanted
from pytest_specgate.report.checklist import checklist
from pytest_specgate.report.document import Report
from pytest_specgate.report.evidence import (
    LOSES,
    OPEN,
    PAYS,
    UNMEASURED,
    Evidence,
    acceptance_said,
    capacity_said,
    evidence,
    memory_said,
    output_said,
    price_of,
    speed_said,
)
from pytest_specgate.report.numbers import text
from pytest_specgate.report.outline import CaseView, outline
from pytest_specgate.report.together import WRONG_OUTPUT, on_engine
from pytest_specgate.units import many

Group = Sequence[Evidence]


@dataclass(frozen=True, slots=True)
class Rule:
    """If ``holds`` says why, the recommendation is this; ``reason`` is that sentence."""

    name: str
    recommendation: Recommendation
    holds: Callable[[Group, Wanted], str]


# --- the rules, first to last ---


def _output_is_wrong(group: Group, wanted: Wanted) -> str:
    del wanted
    return next((one.wrong for one in group if one.wrong), "")


def _nothing_measured(group: Group, wanted: Wanted) -> str:
    del wanted
    if any(one.standing != UNMEASURED for one in group):
        return ""
    return group[0].view.problem or "no speedup was measured"


def _machine_unsteady(group: Group, wanted: Wanted) -> str:
    del wanted
    timed = [one for one in group if one.standing != UNMEASURED]
    return timed[0].unsteady if all(one.unsteady for one in timed) else ""


def _too_much_memory(group: Group, wanted: Wanted) -> str:
    known = [one for one in group if one.memory is not None]
    if not known or any((one.memory or 0.0) <= 1 + wanted.max_memory_rise for one in known):
        return ""
    return f"{memory_said(known[0])}, and at most {1 + wanted.max_memory_rise:.2f}x is wanted"


def _another_length_pays(group: Group, wanted: Wanted) -> str:
    if any(one.standing == PAYS for one in group):
        return ""
    for one in group:
        found, speed = one.suggestion, one.speed
        if one.unsteady or found is None or speed is None or found.k == found.present:
            continue
        if speed.low is not None and found.gain.low is not None and speed.low * found.gain.low >= wanted.min_speedup:
            promised = f"{speed.value:.2f}x at k = {found.present} becomes {speed.value * found.gain.value:.2f}x"
            return f"{promised} at k = {found.k}, as acceptance and costs predict"
    return ""


def _loses_everywhere(group: Group, wanted: Wanted) -> str:
    timed = [one for one in group if one.standing != UNMEASURED]
    if any(one.standing != LOSES for one in timed):
        return ""
    best = max(timed, key=lambda one: one.speed.value if one.speed else 0.0)
    return f"{speed_said(best)}, below the {wanted.min_speedup:.2f}x that is wanted"


def _not_decided(group: Group, wanted: Wanted) -> str:
    if any(one.standing == PAYS for one in group):
        return ""
    still = next(one for one in group if one.standing == OPEN)
    if still.unsteady:
        return still.unsteady
    return f"{speed_said(still)} cannot be told from the {wanted.min_speedup:.2f}x that is wanted; measure more rounds"


def _pays_within_bounds(group: Group, wanted: Wanted) -> str:
    found = conditions(group, wanted)
    return f"it pays {found[0]}" if found else ""


def _pays(group: Group, wanted: Wanted) -> str:
    del wanted
    return speed_said(max(group, key=lambda one: one.concurrency))


RULES = (
    Rule(WRONG_OUTPUT, Recommendation.REFUSE, _output_is_wrong),
    Rule("not measured", Recommendation.UNKNOWN, _nothing_measured),
    Rule("machine not steady", Recommendation.UNKNOWN, _machine_unsteady),
    Rule("too much memory", Recommendation.REFUSE, _too_much_memory),
    Rule("another draft length pays", Recommendation.CONDITIONS, _another_length_pays),
    Rule("loses everywhere", Recommendation.REFUSE, _loses_everywhere),
    Rule("not decided", Recommendation.UNKNOWN, _not_decided),
    Rule("pays within bounds", Recommendation.CONDITIONS, _pays_within_bounds),
    Rule("pays", Recommendation.ADOPT, _pays),
)


# --- the conditions: each a phrase, or empty where there is none ---


def _up_to_concurrency(group: Group, wanted: Wanted) -> str:
    del wanted
    paying = [one.concurrency for one in group if one.standing == PAYS]
    others = [one.concurrency for one in group if one.standing != PAYS]
    if not paying or not others:
        return ""
    if min(others) > max(paying):
        return f"up to {_at_once(max(paying))}"
    return f"at {', '.join(map(str, paying))} requests at once"


def _up_to_context(group: Group, wanted: Wanted) -> str:
    del wanted
    found = [one.context for one in group if one.context is not None]
    return f"up to a context of {min(found)} tokens" if found else ""


def _with_length(group: Group, wanted: Wanted) -> str:
    for one in group:
        found = one.suggestion
        if found is None or found.k == found.present or found.gain.low is None:
            continue
        if found.gain.low >= 1 + wanted.min_gain:
            gain = text(found.gain, Unit.RATIO)
            return f"with k = {found.k} instead of {found.present} (expected {gain} as fast; measure it)"
    return ""


def _with_memory(group: Group, wanted: Wanted) -> str:
    over = [one for one in group if one.memory is not None and one.memory > 1 + wanted.max_memory_rise]
    return (
        f"where there is room: at {over[0].load or _at_once(over[0].concurrency)} {memory_said(over[0])}"
        if over
        else ""
    )


def _with_first_token(group: Group, wanted: Wanted) -> str:
    late = [o for o in group if o.ttft and o.ttft.low is not None and o.ttft.low > 1 + wanted.max_ttft_rise]
    if not late or late[0].ttft is None:
        return ""
    return f"where the first token may come later ({text(late[0].ttft, Unit.RATIO)} of the reference arm's time)"


def _with_fewer_requests(group: Group, wanted: Wanted) -> str:
    lost = [one for one in group if one.capacity is not None and one.capacity < 1 - wanted.max_batch_loss]
    return f"where fewer requests may fit: {capacity_said(lost[0])}" if lost else ""


CONDITIONS = (_up_to_concurrency, _up_to_context, _with_length, _with_memory, _with_fewer_requests, _with_first_token)


def conditions(group: Group, wanted: Wanted) -> tuple[str, ...]:
    """What must hold for it to pay."""
    return tuple(said for condition in CONDITIONS if (said := condition(group, wanted)))


# --- what stands behind it, and what it does not cover ---


def _limits(group: Group) -> Iterator[str]:
    first = next((one for one in group if one.view.measurement is not None), None)
    if first is None or first.view.measurement is None or first.view.samples is None:
        return
    taken, prompts = first.view.measurement, len(first.view.samples.prompts)
    rounds = 1 + max((pair.round for pair in taken.pairs), default=0)
    sizes = f"{many(prompts, 'prompt')}, {many(rounds, 'round')}"
    yield f"measured on {taken.place.slug}, {sizes}; intervals are 95 %, for these prompts"
    for one in group:
        if one.unsteady:
            yield f"{one.at} {one.unsteady}"
    if all(one.memory is None for one in group):
        yield "memory was not measured"
    if all(one.capacity is None for one in group):
        yield "how many requests fit into memory with and without the draft (max_batch) was not measured"
    metrics = {v.metric for one in group for v in one.view.verdicts if v.outcome in (Outcome.PASS, Outcome.FAIL)}
    if taken.greedy and not metrics & {"greedy_exactness", "exact_match"}:
        yield "no gate judged the output: add greedy_exactness"
    failing = sorted({v.gate for one in group for v in one.view.verdicts if v.outcome is Outcome.FAIL})
    if failing:
        yield f"gates that fail: {', '.join(failing)}"


def _reasons(group: Group) -> Iterator[str]:
    timed = [one for one in group if one.standing != UNMEASURED]
    yield from map(speed_said, timed)
    for one in timed[:1]:
        yield acceptance_said(one)
        yield from filter(None, (memory_said(one), capacity_said(one), output_said(one)))
        if one.ttft is not None:
            yield f"the first token takes {text(one.ttft, Unit.RATIO)} of the reference arm's time"
        found = one.suggestion
        if found is not None and found.k == found.present:
            yield f"no draft length from 1 to {found.most} is expected to be faster than k = {found.present}"


# --- putting it together ---


def advise(report: Report) -> Report:
    """The report with advice on every engine, and before it on each of its scenarios."""
    found: list[Advice] = []
    engines: dict[tuple[str, str], list[CaseView]] = {}
    for view in outline(report):
        if not _asks_of_speed(view, report):
            continue
        if view.measurement is None or view.measurement.sweep is None:  # requests at the edge tell nothing of speed
            engines.setdefault((view.suite, view.engine), []).append(view)
    for (suite, _), views in engines.items():
        wanted = report.wanted.get(suite, Wanted())
        scenarios: dict[str, list[Evidence]] = {}
        for view in views:
            scenarios.setdefault(view.series[0] if view.series else view.name, []).append(evidence(view, wanted))
        groups = {name: sorted(group, key=lambda one: one.concurrency) for name, group in scenarios.items()}
        single = [on_scenario(name, group, wanted) for name, group in groups.items()]
        whole = on_engine(single)
        found += [*single, replace(whole, checks=checklist([one for g in groups.values() for one in g], wanted))]
    return replace(report, advice=tuple(found))


def _asks_of_speed(view: CaseView, report: Report) -> bool:
    """A matrix asks what works; only where a gate of it judges speed is adopting in question."""
    matrix = report.matrices.get(view.suite)
    if matrix is None or all(cell.engine != view.engine for cell in matrix.cells):
        return True
    return any(v.metric in METRICS and METRICS[v.metric].family is Family.SPEEDUP for v in view.verdicts)


def on_scenario(name: str, group: Group, wanted: Wanted) -> Advice:
    """Advice on one scenario from its cases, in the order of their concurrencies."""
    rule, why = next((rule, why) for rule in RULES if (why := rule.holds(group, wanted)))
    bounds: tuple[str, ...] = ()
    if rule.holds is _another_length_pays:
        bounds = (f"with k = {why.rpartition('k = ')[2].partition(',')[0]}, once measured",)
    elif rule.recommendation is Recommendation.CONDITIONS:
        bounds = conditions(group, wanted)
    costs = [
        TokenCost(name, one.concurrency, price_of(one, "reference_", wanted), price_of(one, "", wanted), one.load)
        for one in group
        if wanted.price is not None and one.standing != UNMEASURED
    ]
    view = group[0].view
    told = (bounds, tuple(dict.fromkeys([why, *_reasons(group)])), tuple(dict.fromkeys(_limits(group))))
    return Advice(view.suite, view.engine, name, rule.recommendation, rule.name, *told, costs=tuple(costs))


def _at_once(number: int) -> str:
    return f"{many(number, 'request')} at once"
