"""One case of the page: its gates, both arms side by side, pictures, where texts part, what the machine did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_specgate.metrics import METRICS, Unit
from pytest_specgate.records import Check, Look, Measurement, Outcome, Verdict
from pytest_specgate.report import numbers
from pytest_specgate.report.divergence import Parting, Side, partings
from pytest_specgate.report.html import costs, plots, tables
from pytest_specgate.report.html.markup import EMPTY, Markup, badge, joined, model_text, pairs, table, tag
from pytest_specgate.report.numbers import text
from pytest_specgate.report.outline import CaseView, worst_first
from pytest_specgate.report.phrases import required, scoring, shown_or_unmeasured, since
from pytest_specgate.report.since import metric_changes
from pytest_specgate.report.terminal import shown
from pytest_specgate.units import format_value

_MOST_PARTINGS = 3


def case(view: CaseView, anchor: str, *, pictures: bool = True) -> Markup:
    """A section that opens and closes; open where something did not pass. ``pictures`` off leaves the tables."""
    speed = numbers.speedup(view.samples) if view.samples else None
    outcomes = [badge(outcome, f"{number} {outcome.value}") for outcome, number in view.outcomes.items()]
    head = tag("h4", view.name, " ", tag("small", f"speedup {text(speed, Unit.RATIO)}"))
    is_open = "" if view.worst not in (None, Outcome.PASS) else None
    body = [gates_table(view.verdicts), *_measured(view, pictures=pictures)]
    return tag("details", tag("summary", head, *outcomes), *body, class_="case", id=anchor, open=is_open)


def gates_table(verdicts: Sequence[Verdict], caption: str = "Gates") -> Markup:
    """Every gate with what was measured, stored and asked, what came of it, and why."""
    heads = ("gate", "verdict", "measured", "baseline", "limit", "looks", "reason")
    rows = [_gate(verdict) for verdict in worst_first(verdicts)]
    return table(caption, heads, rows, class_="gates") if rows else tag("p", "No gate judged this case.", class_="note")


def label(verdict: Verdict) -> Markup:
    """The outcome, and what softens it."""
    return joined([badge(verdict.outcome), f"({verdict.softened}) " if verdict.softened else ""])


def _gate(verdict: Verdict) -> tuple[Markup | str, ...]:
    measured = shown_or_unmeasured(verdict.metric, verdict.measured)
    baseline = "none" if verdict.baseline is None else shown(verdict.metric, verdict.baseline)
    limits = joined(tag("div", required(check)) for check in verdict.checks if check.required)
    looks = joined(tag("div", _looks(verdict, check)) for check in verdict.checks if check.looks)
    notes = [tag("p", f"note: {warning}", class_="note") for warning in verdict.warnings]
    advice = [tag("p", f"next: {verdict.advice}", class_="note")] if verdict.advice else []
    why = joined([tag("div", verdict.reason), *notes, *advice, tag("code", verdict.location)])
    definition = METRICS[verdict.metric].definition if verdict.metric in METRICS else None
    name = tag("span", verdict.gate, title=definition)
    return (name, label(verdict), measured, baseline, limits or "none", looks or "one", why)


def _looks(verdict: Verdict, check: Check) -> str:
    return f"{check.kind}: {', '.join(_look(verdict.metric, check, look) for look in check.looks)}"


def _look(metric: str, check: Check, look: Look) -> str:
    """``FAIL after 2 (1.100x [..])``; a drift check compares changes, which carry no unit of the metric."""
    seen = f" ({shown(metric, look.interval)})" if look.interval is not None and check.kind == "limit" else ""
    return f"{look.outcome.value} after {look.rounds}{seen}"


def _measured(view: CaseView, *, pictures: bool) -> Iterator[Markup]:
    if view.problem:
        yield tag("p", view.problem, class_="problem")
    if view.measurement is None:
        return
    taken = view.measurement
    for warning in taken.warnings:
        yield tag("p", f"warning: {warning}", class_="problem")
    yield from _since(view)
    if view.samples is not None:
        yield _arms(view)
        if pictures:
            yield tag("div", *_pictures(view, taken), class_="figures")
        yield tables.by_context(taken)
        yield tables.room(taken)
        yield costs.costs_table(taken)
        yield _divergence(taken)
    yield _findings(taken)
    yield _workload(taken)


def _arms(view: CaseView) -> Markup:
    memory = dict(view.measurement.memory) if view.measurement else {}
    rows = (
        [
            (row.label, text(row.reference, row.unit), text(row.candidate, row.unit), numbers.ratio_text(row))
            for row in numbers.arms(view.samples, memory)
        ]
        if view.samples
        else []
    )
    return table("Both arms (95 % intervals)", ("quantity", "reference", "candidate", "candidate ÷ reference"), rows)


def _pictures(view: CaseView, taken: Measurement) -> Iterator[Markup]:
    if view.samples is None:
        return
    yield plots.speedup_by_prompt(view.samples, view.verdicts)
    yield plots.rounds_and_looks(view.samples, view.verdicts)
    yield plots.acceptance_by_draft(taken)
    yield plots.acceptance_by_context(taken)
    yield plots.times(view.samples, "ttft", "Time to first token (TTFT)")
    yield plots.times(view.samples, "itl", "Time between tokens (ITL)")
    yield plots.memory(taken.memory)
    yield from costs.pictures(view.samples, taken)


def _divergence(taken: Measurement) -> Markup:
    """The texts where they first part, for the first prompts whose arms differ; real divergences before ties."""
    prompts = len({pair.prompt for pair in taken.pairs})
    found = sorted(partings(taken), key=lambda one: one.kind == "numerical_tie")
    if not found:
        return tag("p", f"All {prompts} prompts gave the same tokens in both arms.", class_="note")
    heads = ("prompt", "output token", "the target's own logits", "reference", "candidate")
    shown_ones = found[:_MOST_PARTINGS]
    caption = f"Texts part on {len(found)} of {prompts} prompts; where, for the first {len(shown_ones)}"
    return table(caption, heads, (_parting(one) for one in shown_ones), class_="diff")


def _parting(parting: Parting) -> tuple[Markup | str, ...]:
    sides = (_side(parting.common, side, mark) for side, mark in zip(parting.sides, ("del", "ins")))
    where = str(parting.number) if parting.unit == "output token" else f"{parting.unit} {parting.number}"
    return (parting.prompt, where, _gap(parting), *sides)


def _gap(parting: Parting) -> str:
    """Whether rounding explains the difference, and how far the two tokens lie apart."""
    one, other = (side.logit for side in parting.sides)
    if not parting.kind:
        return numbers.UNMEASURED
    kind = parting.kind.replace("_", " ")
    return kind if one is None or other is None else f"{kind}: {abs(one - other):.4g} logits apart"


def _side(common: str, side: Side, mark: str) -> Markup:
    """What both arms said, then what this one said in its own way."""
    said = side.found
    said += "" if side.logit is None else f", logit {side.logit:.6g}"
    own = tag(mark, model_text(side.text)) if side.text else EMPTY
    return joined([model_text(common), own, " ", tag("small", f"({said})")])


def _since(view: CaseView) -> Iterator[Markup]:
    """What the baseline held and what there is now, for every metric that both have."""
    for said in since(view):
        yield tag("p", f"{said[0].upper()}{said[1:]}.", class_="since")
    if view.baseline is None or view.samples is None:
        return
    rows = [_changed(*one) for one in metric_changes(view.baseline, view.samples)]
    if rows:
        note = "point values; whether a change is more than noise is what gates tell"
        made = table(f"Stored and now ({note})", ("metric", "stored", "now", "change"), rows)
        yield _folded(f"Every metric since the baseline of {view.baseline.recorded}", made)


def _changed(metric: str, was: float, now: float) -> tuple[str, ...]:
    unit = METRICS[metric].unit
    return metric, format_value(was, unit), format_value(now, unit), f"{(now - was) / abs(was):+.1%}" if was else "-"


def _findings(taken: Measurement) -> Markup:
    """What the environment rules saw."""
    if not taken.findings:
        return tag("p", "Environment rules: not measured.", class_="note")
    words = {(True, False): "held", (True, True): "held, noted", (False, False): "broken", (False, True): "broken"}
    # What several rules say alike is one row: most of them have nothing to look at on most machines.
    said: dict[tuple[str, str], list[str]] = {}
    for f in taken.findings:
        said.setdefault((words[f.held, f.noted], f.detail or "nothing to tell"), []).append(f.rule)
    rows = [(", ".join(rules), *told) for told, rules in said.items()]
    broken = sum(1 for finding in taken.findings if not finding.held)
    caption = f"Environment rules: {broken} of {len(taken.findings)} broken"
    made = table(caption, ("rule", "outcome", "what was seen"), rows)
    return _folded(caption, made, is_open=bool(broken))


def setting(views: Sequence[CaseView]) -> Markup:
    """Where the engine's cases ran, and what the gates judge; folded, as it seldom changes."""
    taken = [view.measurement for view in views if view.measurement is not None]
    tables = [
        *_agreed("Place", map(_place, taken)),
        *_agreed("Subject: what the gates judge", (t.subject for t in taken)),
    ]
    return _folded("Subject and place", *tables) if tables else EMPTY


def _agreed(caption: str, told: Iterable[Mapping[str, str]]) -> Iterator[Markup]:
    """What all cases tell alike as one table; where some differ, every value that there is."""
    values: dict[str, dict[str, None]] = {}
    for one in told:
        for name, value in one.items():
            values.setdefault(name, {})[value] = None
    if values:
        yield pairs(caption, {name: " | ".join(found) for name, found in values.items()})


def _place(taken: Measurement) -> dict[str, str]:
    place = taken.place
    return {"device": place.device, "count": str(place.count), "dtype": place.dtype, "engine": taken.engine_kind}


def _workload(taken: Measurement) -> Markup:
    found = {"seconds measured": f"{taken.seconds:.1f}", "pairs": str(len(taken.pairs)), **taken.workload}
    found |= {"scoring": said} if (said := scoring(taken)) else {}
    return _folded("Workload", pairs("Workload", found))


def _folded(title: str, *inside: Markup, is_open: bool = False) -> Markup:
    return tag("details", tag("summary", title), *inside, open="" if is_open else None)
