"""What users may write, checked by mypy --strict and never run: a change of a type here is a change of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import assert_never, assert_type

import pytest_specgate
from pytest_specgate import Measurement, Outcome, Report, SpecgateError, Verdict, run
from pytest_specgate.engines.base import Engine, EngineContext, Queues
from pytest_specgate.records import Arm, Capability, Chunk, MemoryReading, Place, Request, Round, Trace

# --- running a suite --------------------------------------------------------------------------------------------


def judge_a_build(suite: Path) -> int:
    try:
        report = run(suite, baselines="baselines", device="cuda:1", budget=90.0)
    except SpecgateError as error:
        raise SystemExit(str(error)) from error
    assert_type(report, Report)
    return report.exit_status


def by_text() -> Report:
    return pytest_specgate.run("suites/smoke.specgate.yaml", baselines=Path("baselines"), device=None, budget=None)


run("x", speed=2)  # type: ignore[call-arg]  # an unknown argument is an error
run("x", "baselines")  # type: ignore[call-arg]  # all but the suite are named
run(3)  # type: ignore[arg-type]  # a suite is a path
run("x", budget="90 s")  # type: ignore[arg-type]  # a budget is seconds


# --- its values -------------------------------------------------------------------------------------------------

assert_type(pytest_specgate.__version__, str)
assert_type(pytest_specgate.__all__, list[str])


def read(report: Report) -> None:
    assert_type(report.schema, int)
    assert_type(report.version, str)
    assert_type(report.created, str)
    assert_type(report.exit_status, int)
    assert_type(report.verdicts, tuple[Verdict, ...])
    assert_type(report.measurements, Mapping[str, tuple[Measurement, ...]])
    assert_type(report.machine, Mapping[str, str])
    assert_type(report.warnings, tuple[str, ...])
    report.exit_status = 0  # type: ignore[misc]  # results are frozen


def explain(verdict: Verdict) -> str | None:
    assert_type(verdict.outcome, Outcome)
    if verdict.outcome is Outcome.PASS or verdict.softened:
        return None
    measured = "-" if verdict.measured is None else f"{verdict.measured.value:.3g}"
    return f"{verdict.location}: {verdict.gate} on {verdict.case}: {measured}: {verdict.reason} {verdict.advice}"


def unmeasured(verdict: Verdict) -> float:
    return verdict.measured.value  # type: ignore[union-attr]  # what was not measured is None, never 0


def every_outcome(outcome: Outcome) -> str:
    # Exhaustive: a new outcome makes mypy ask for its branch.
    if outcome is Outcome.PASS or outcome is Outcome.FAIL:
        return "decided"
    if outcome is Outcome.INCONCLUSIVE or outcome is Outcome.ERROR:
        return "undecided"
    assert_never(outcome)


def tokens(measurement: Measurement) -> int:
    assert_type(measurement.case, str)
    assert_type(measurement.place, Place)
    assert_type(measurement.workload, Mapping[str, str])
    return sum(pair.candidate.output_tokens - pair.reference.output_tokens for pair in measurement.pairs)


# --- a decoder of one's own -------------------------------------------------------------------------------------


class Mine:
    """The least that is an engine: it inherits from nothing."""

    def __init__(self, context: EngineContext) -> None:
        self.options: Mapping[str, Any] = context.spec.options
        self.capabilities: frozenset[Capability] = frozenset({Capability.ROUNDS})

    def start(self) -> None: ...

    def check(self, concurrency: int, greedy: bool) -> None: ...

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        return [self._one(request, arm) for request in requests]

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        return MemoryReading()

    def place(self) -> Place:
        return Place("my device", 1, "float32")

    def workload(self) -> dict[str, str]:
        return {"target": "0123456789abcdef"}

    def subject(self) -> dict[str, str]:
        return {"engine": "mine"}

    def close(self) -> None: ...

    def _one(self, request: Request, arm: Arm) -> Trace:
        return Trace(
            prompt=request.prompt,
            arm=arm,
            token_ids=(5, 2),
            text=request.messages[-1].content,
            prompt_tokens=1,
            submit_ns=0,
            chunks=(Chunk(t_ns=1, tokens=2),),
            finish="eos",
            rounds=(Round(drafted=1, tested=1, accepted=1, emitted=2, t_ns=1),) if arm is Arm.CANDIDATE else None,
        )


class Queued(Mine):
    """More requests may be handed over than run at once."""

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        return [self._one(request, arm) for block in (requests[:slots], requests[slots:]) for request in block]


class Half:
    """No engine: it cannot generate."""

    capabilities: frozenset[Capability] = frozenset()

    def start(self) -> None: ...

    def close(self) -> None: ...


def build(context: EngineContext) -> Engine:
    return Mine(context)


def queue(context: EngineContext) -> Queues:
    return Queued(context)


no_queue: Queues = Half()  # type: ignore[assignment]  # it lets nobody wait
engine: Engine = Half()  # type: ignore[assignment]  # it lacks members
