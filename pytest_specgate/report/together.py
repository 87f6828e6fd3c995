"""Advice on all scenarios of an engine together, and what makes it void: pure functions of the single advices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_specgate.report.advised import Advice, Recommendation

#: The rule that decides for a whole engine where it decided for one scenario.
WRONG_OUTPUT = "output is not the target's"

#: What changes → what it makes uncertain.
AGAIN = (
    ("another target, or other weights or tokenizer of it", "everything: acceptance, speed, memory and texts"),
    ("another draft, draft length or drafting method", "acceptance, speed and memory"),
    ("another device model, dtype or driver, another torch or engine", "speed, memory and texts"),
    ("other kinds of prompts, longer contexts, more requests at once", "that scenario"),
)


def on_engine(scenarios: Sequence[Advice]) -> Advice:
    """Advice on all scenarios of an engine together."""
    by: Mapping[Recommendation, list[str]] = {
        kind: [one.scenario for one in scenarios if one.recommendation is kind] for kind in Recommendation
    }
    recommendation, rule = _together(scenarios, by)
    told = (
        _bounds(scenarios, by) if recommendation is Recommendation.CONDITIONS else (),
        tuple(f"{one.scenario}: {one.recommendation.value}: {one.reasons[0]}" for one in scenarios),
        tuple(dict.fromkeys(limit for one in scenarios for limit in one.limits)),
        tuple(f"{changed}: measure {what} again" for changed, what in AGAIN),
        tuple(cost for one in scenarios for cost in one.costs),
    )
    return Advice(scenarios[0].suite, scenarios[0].engine, "", recommendation, rule, *told)


def _together(scenarios: Sequence[Advice], by: Mapping[Recommendation, list[str]]) -> tuple[Recommendation, str]:
    """The recommendation on all scenarios, and why; one whose output is wrong decides alone."""
    if wrong := [one.scenario for one in scenarios if one.rule == WRONG_OUTPUT]:
        return Recommendation.REFUSE, f"{WRONG_OUTPUT} in {_named(wrong)}"
    if len(by[Recommendation.ADOPT]) == len(scenarios):
        return Recommendation.ADOPT, "pays in every scenario"
    if by[Recommendation.ADOPT] or by[Recommendation.CONDITIONS]:
        return Recommendation.CONDITIONS, "pays in some scenarios, or within bounds"
    if by[Recommendation.REFUSE]:
        return Recommendation.REFUSE, "pays in no scenario"
    return Recommendation.UNKNOWN, "not decided in any scenario"


def _bounds(scenarios: Sequence[Advice], by: Mapping[Recommendation, list[str]]) -> tuple[str, ...]:
    whole, against, unknown = (
        _named(by[kind]) for kind in (Recommendation.ADOPT, Recommendation.REFUSE, Recommendation.UNKNOWN)
    )
    partly = [f"{one.scenario}: {'; '.join(one.conditions)}" for one in scenarios if one.conditions]
    said = [f"for {whole}" if whole else "", *partly, f"not for {against}" if against else ""]
    return tuple(filter(None, [*said, f"{unknown} undecided" if unknown else ""]))


def _named(scenarios: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(scenarios[:most])
    return shown if len(scenarios) <= most else f"{shown} and {len(scenarios) - most} more"
