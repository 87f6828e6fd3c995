"""One gate's test: setup measures and judges, the call says what came of it.

"Could not measure" is pytest's ERROR and "worse" its FAILED; an undecided gate is skipped under its own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate import outcomes
from pytest_specgate.errors import AlreadyStored
from pytest_specgate.plugin.keys import RUN, VERDICT
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.report.junit import properties

if TYPE_CHECKING:
    from pytest_specgate.plugin.collect import GateItem


class GateFailed(Exception):
    """A gate that fails the build; ``text`` is what the user reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def set_up(item: GateItem) -> None:
    """Measure the item's case unless that is done, and judge; fail where the gate could not be judged."""
    run = item.config.stash[RUN]
    if reason := run.skip_reason(item):
        pytest.skip(reason)
    try:
        verdict = run.judge(item)
    except AlreadyStored as stored:
        pytest.skip(str(stored))
    finally:
        run.progress.clear()
    if verdict is None:
        pytest.skip(f"no planted loss strikes {item.gate.spec.metric}")
    item.stash[VERDICT] = verdict
    # A rerun sets up again: its properties take the place of those before.
    others = [pair for pair in item.user_properties if not pair[0].startswith("specgate.")]
    item.user_properties[:] = [*others, *properties(verdict)]
    if verdict.outcome is Outcome.FAIL:
        run.failed.setdefault(item.engine_id, set()).add(item.case.id)
    if verdict.outcome is Outcome.ERROR:
        pytest.fail(error_text(verdict), pytrace=False)


def tell(item: GateItem) -> None:
    """Raise GateFailed for a gate that fails the build, and skip an undecided one."""
    verdict = item.stash[VERDICT]
    if verdict.outcome is Outcome.FAIL and not verdict.softened:
        raise GateFailed(_failure(item, verdict))
    if verdict.outcome is Outcome.INCONCLUSIVE:
        if must_decide(item):
            raise GateFailed(f"{_failure(item, verdict)}\n  {_demand(item)}")
        pytest.skip(verdict.reason)


def must_decide(item: GateItem) -> bool:
    """Whether an undecided gate fails the build; one that only warns never does."""
    return outcomes.must_decide(item.suite, item.gate, strict=item.config.stash[RUN].options.strict)


def _demand(item: GateItem) -> str:
    if item.config.stash[RUN].options.strict:
        return "an undecided gate fails under --specgate-strict"
    return "an undecided gate fails under policy prove"


def error_text(verdict: Verdict) -> str:
    """Say in one line where, what, and what to do."""
    from pytest_specgate.report.escape import harmless

    advice = f" — {verdict.advice}" if verdict.advice else ""
    return harmless(f"{verdict.location}: {verdict.gate} on {verdict.case}: {verdict.reason}{advice}")


def _failure(item: GateItem, verdict: Verdict) -> str:
    """Tell what was found; a gate only fails on numbers, so that its case was measured."""
    from pytest_specgate.metrics import METRICS, Family
    from pytest_specgate.report.failure import failure_text
    from pytest_specgate.report.phrases import composition, history
    from pytest_specgate.report.since import compared

    if item.config.stash[RUN].options.selftest:  # what was measured is an engine with a loss, which is no news
        return failure_text(verdict)
    result = item.config.stash[RUN].session(item).case(item.case)
    told: list[str] = []
    speed = METRICS[verdict.metric].family is Family.SPEEDUP
    if result.found is not None and (speed or any(check.kind != "limit" for check in verdict.checks)):
        stored = compared(item.case.id, result.found.stored)
        told = [f"since: {line}" for line in history(stored, result.measurement, result.samples)]
    elif speed:
        told = [f"made of: {line}" for line in composition(result.measurement, result.samples)]
    return failure_text(verdict, result.measurement, told)


def text_of(error: BaseException) -> str | None:
    """Give the text of a gate that failed, None for any other exception."""
    return error.text if isinstance(error, GateFailed) else None
