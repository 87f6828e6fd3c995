"""A plan for a terminal: a row for each case, the sum in minutes, and what is not in it."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from pytest_specgate.planning import CasePlan, RunPlan, Seconds
from pytest_specgate.report.escape import flat, in_ascii
from pytest_specgate.units import many

_UNKNOWN = "unknown"


def lines(found: RunPlan, *, ascii_only: bool = False) -> Iterator[str]:
    """The whole plan; nothing was run for it."""
    spell = in_ascii if ascii_only else str
    headers = ["case", "prompts", "rounds", "generations", "tokens", "minutes", "times from"]
    for suite in dict.fromkeys(case.suite for case in found.cases):
        yield spell(flat(suite))
        rows = [[spell(cell) for cell in _row(case)] for case in found.cases if case.suite == suite]
        yield from tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()
        yield ""
    for line in (*_sum(found), *_beside(found)):
        yield spell(flat(line))
    yield from (spell(f"note: {flat(note)}") for note in found.notes)


def _row(case: CasePlan) -> list[str]:
    fewest, most = case.generations
    rounds = _span(str(case.looks.rounds[0]), str(case.looks.most))
    times = f" × {case.sessions} sessions" if case.sessions > 1 else ""
    if not case.conversations:  # made up once the engine is there to say what bounds them
        time, source = (_UNKNOWN, "-") if case.seconds is None else (_minutes(case.seconds), flat(case.seconds.source))
        return [flat(case.case), "made up", "1", _UNKNOWN, _UNKNOWN, time, source]
    prompts = str(case.turns) if case.turns == case.conversations else f"{case.turns} turns of {case.conversations}"
    return [
        flat(case.case),
        prompts,
        f"{rounds}{times}",
        _span(f"{fewest:,}", f"{most:,}"),
        f"≤ {case.tokens:,}",
        _UNKNOWN if case.seconds is None else _minutes(case.seconds),
        "-" if case.seconds is None else flat(case.seconds.source),
    ]


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"


def shown(seconds: float) -> str:
    """Minutes to two digits: ``0.4``, ``3.1``, ``12``."""
    minutes = seconds / 60
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.1f}"


def _minutes(found: Seconds) -> str:
    span = _span(shown(found.least), shown(found.most))
    return span if found.usual is None else f"{span}, usually {shown(found.usual)}"


def _sum(found: RunPlan) -> Iterator[str]:
    known, count = len(found.known), len(found.cases)
    if known:
        least, most = found.seconds
        of = "all cases" if known == count else f"{known} of {count} cases"
        yield f"measuring: {_span(shown(least), shown(most))} minutes for {of}{_usually(found)}"
        if found.gpus:
            yield f"GPU minutes: {_span(shown(least * found.gpus), shown(most * found.gpus))} on {found.gpus}"
    if known < count:
        untimed = many(count - known, "case")
        yield f"no time is known of {untimed}: run once with --specgate-history, or store a baseline"
    if found.whole is not None:
        yield f"whole run: the last one of at least these cases took {shown(found.whole[0])} minutes ({found.whole[1]})"
    if found.budget is not None:
        yield f"--specgate-budget ends measuring after {shown(found.budget)} minutes"


def _usually(found: RunPlan) -> str:
    usual = [one.usual for one in found.known if one.usual is not None]
    if len(usual) < len(found.cases):
        return ""
    total = sum(usual)
    return f", usually {shown(total if found.budget is None else min(total, found.budget))}"


def _beside(found: RunPlan) -> Iterator[str]:
    passes = {"memory": "memory passes (two processes a case)", "scoring": "scoring texts"}
    used = {name for case in found.cases for name in case.passes}
    beside = ["starting engines", *(said for name, said in passes.items() if name in used)]
    yield f"not counted in measuring: {', '.join(beside)}"
    yield "nothing was run"
