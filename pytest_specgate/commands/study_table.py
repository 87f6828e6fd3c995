"""A study's report for a terminal: a table per kind of builds, a row per gate, the naive rule below, then reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.report.escape import flat, in_ascii
from pytest_specgate.study.naive import LARGEST_RISE
from pytest_specgate.study.run import shown_time
from pytest_specgate.study.tally import CaseTally, GateTally, KindTally, Rate, StudyReport
from pytest_specgate.units import many

#: Which gates a planted loss is meant for; others may see it too.
_MEANT_FOR = {
    "delay": frozenset({Family.SPEEDUP, Family.LATENCY}),
    "acceptance": frozenset({Family.ACCEPTANCE}),
    "memory": frozenset({Family.MEMORY}),
    "leak": frozenset({Family.GROWTH}),
    "sampler": frozenset({Family.OUTPUT, Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS, Family.TASK}),
}


def lines(report: StudyReport, *, ascii_only: bool = False) -> Iterator[str]:
    """The whole report. In the tables of planted losses, gates that never saw one share a line."""
    spell = in_ascii if ascii_only else str
    for kind in report.kinds:
        yield from map(spell, _kind(kind))
        yield ""
    yield spell("Rates have exact 95 % limits (Clopper-Pearson); of 0, the one-sided limit.")
    rule = f"FAIL where the mean candidate time per token is above {LARGEST_RISE:g} × the stored mean"
    yield spell(f"Naive rule: {rule}.")


def _kind(kind: KindTally) -> Iterator[str]:
    yield flat(f"{kind.planted or 'unchanged'}: {_builds(kind)}")
    if not kind.builds:
        return
    shown = [gate for gate in kind.gates if not kind.planted or not _silent(gate)]
    yield from _table(kind, shown)
    if silent := [_name(gate) for gate in kind.gates if gate not in shown]:
        yield flat(f"PASS in every build: {', '.join(silent)}")
    yield from _nothing_to_see(kind)
    for gate in kind.gates:
        yield from _examples(gate, kind)


def _table(kind: KindTally, shown: Sequence[GateTally]) -> list[str]:
    headers = ["gate", "detected" if kind.planted else "false FAIL", "INCONCLUSIVE", "ERROR"]
    rows = [_row(gate) for gate in (kind.whole, *shown)] + [_naive_row(case, kind) for case in kind.cases]
    if not kind.whole.errors:
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()


def _nothing_to_see(kind: KindTally) -> Iterator[str]:
    """A loss that no gate of the study is meant for: its rate says nothing about gates."""
    if kind.planted and not any(_meant(gate, kind) for gate in kind.gates):
        families = " or ".join(sorted(family.value for family in _MEANT_FOR[_plant(kind)]))
        yield flat(f"note: {kind.planted} is meant for {families} gates, and none was studied")


def _plant(kind: KindTally) -> str:
    return kind.planted.partition("=")[0]


def _meant(gate: GateTally, kind: KindTally) -> bool:
    return METRICS[gate.metric].family in _MEANT_FOR.get(_plant(kind), ())


def _builds(kind: KindTally) -> str:
    if kind.median_seconds is None or kind.p90_seconds is None:
        return "no build yet"
    times = f"{shown_time(kind.median_seconds)} (median), {shown_time(kind.p90_seconds)} (p90)"
    return f"{many(kind.builds, 'build')}, verdicts after {times}"


def _silent(gate: GateTally) -> bool:
    return not (gate.fail.hits or gate.inconclusive.hits or gate.errors)


def _row(gate: GateTally) -> tuple[str, ...]:
    errors = f"{gate.errors}/{gate.builds}"
    return _name(gate), shown_rate(gate.fail), shown_rate(gate.inconclusive, brief=True), errors


def _naive_row(case: CaseTally, kind: KindTally) -> tuple[str, ...]:
    engines = {one.case.partition("::")[0] for one in kind.cases}
    name = case.case if len(engines) > 1 else case.case.partition("::")[2]
    return flat(f"naive rule [{name}]"), shown_rate(case.naive), "-", "-"


def _name(gate: GateTally) -> str:
    if not gate.case:
        return gate.gate
    engine, _, case = gate.case.partition("::")
    return flat(f"{engine}: {gate.gate}[{case}]")


def shown_rate(rate: Rate, *, brief: bool = False) -> str:
    """``3/20 = 15.0% [3.2%, 37.9%]``, ``0/20, at most 13.9%``; ``brief`` says no more of none than ``0/20``."""
    if rate.value is None or rate.low is None or rate.high is None or rate.upper is None:
        return "unmeasured"
    if not rate.hits:
        return f"0/{rate.trials}" if brief else f"0/{rate.trials}, at most {rate.upper:.1%}"
    return f"{rate.hits}/{rate.trials} = {rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}]"


def _examples(gate: GateTally, kind: KindTally) -> Iterator[str]:
    """The first reason of each outcome that asks for one: what went wrong, or how a gate meant for a loss missed it."""
    wanted = {"ERROR", "INCONCLUSIVE"}
    wanted |= {"PASS"} if _meant(gate, kind) and not gate.fail.hits else set()
    wanted |= set() if kind.planted else {"FAIL"}
    for outcome, reason in gate.examples.items():
        if outcome in wanted:
            yield flat(f"{outcome} {_name(gate)}: {reason}")
