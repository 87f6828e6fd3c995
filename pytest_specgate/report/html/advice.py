"""The page's advice: what to do with each engine, why, within which bounds, at which price; then the check list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_specgate.report.advised import Advice, Recommendation, TokenCost
from pytest_specgate.report.html.markup import EMPTY, Markup, joined, table, tag
from pytest_specgate.report.phrases import money

_COLOURS = {
    Recommendation.ADOPT: "pass",
    Recommendation.CONDITIONS: "inconclusive",
    Recommendation.REFUSE: "fail",
    Recommendation.UNKNOWN: "unknown",
}
_MOST_SCENARIOS = 60  # of one engine; the JSON report holds all of them


def advice(found: Sequence[Advice]) -> Markup:
    """A section for all engines; nothing where there is no advice."""
    whole = [one for one in found if not one.scenario]
    if not whole:
        return EMPTY
    parts = [part for one in whole for part in _engine(one, [o for o in found if o.scenario and _same(o, one)])]
    return tag("section", tag("h2", "Adopt speculation?", id="advice"), *parts, aria_labelledby="advice")


def _same(one: Advice, other: Advice) -> bool:
    return (one.suite, one.engine) == (other.suite, other.engine)


def _engine(whole: Advice, scenarios: Sequence[Advice]) -> Iterator[Markup]:
    yield tag("h3", f"{whole.engine} ", tag("small", whole.suite))
    yield tag("p", _badge(whole.recommendation), " ", tag("b", whole.rule), class_="advice")
    if whole.conditions:
        yield _list(whole.conditions)
    yield _scenarios(scenarios)
    if whole.costs:
        yield _costs(whole.costs)
    yield _folded("Check list: throughput, output quality, resources", _checks(whole))
    yield _folded("What this does not cover", _list(whole.limits))
    yield _folded("When to measure again", _list(whole.again))


def _badge(recommendation: Recommendation) -> Markup:
    return tag("span", recommendation.value, class_=f"badge {_COLOURS[recommendation]}")


def _scenarios(found: Sequence[Advice]) -> Markup:
    heads = ("scenario", "advice", "bounds", "because")
    rows = [
        (one.scenario, _badge(one.recommendation), _list(one.conditions) if one.conditions else "no bounds", _why(one))
        for one in found[:_MOST_SCENARIOS]
    ]
    more = len(found) - len(rows)
    note = tag("p", f"{more} more scenarios stand in the JSON report.", class_="problem") if more else EMPTY
    return joined([table("Advice by scenario", heads, rows, class_="advised"), note])


def _why(one: Advice) -> Markup:
    first, *others = one.reasons
    if not others:
        return tag("div", first)
    listed = tag("ul", *(tag("li", reason) for reason in others), class_="note")
    return joined([tag("div", first), tag("details", tag("summary", "what was measured"), listed)])


def _costs(found: Sequence[TokenCost]) -> Markup:
    heads = ("scenario", "requests at once", "reference", "candidate")
    shown = found[:_MOST_SCENARIOS]
    rows = [(c.scenario, c.load or str(c.concurrency), money(c.reference), money(c.candidate)) for c in shown]
    return table("A million output tokens, in the currency of the price given (95 % intervals)", heads, rows)


def _checks(whole: Advice) -> Markup:
    heads = ("part", "metric", "method", "expected", "measured", "reading")
    rows = [(c.part, c.metric, c.method, c.expected, c.measured, c.reading) for c in whole.checks]
    return table("Check list", heads, rows)


def _list(sentences: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", said) for said in sentences), class_="plain")


def _folded(title: str, inside: Markup) -> Markup:
    return tag("details", tag("summary", title), inside)
