"""What undecided verdicts do to a build: one rule for pytest, the commands and the library alike."""

from __future__ import annotations

from collections.abc import Mapping, Set

from pytest_specgate.records import Outcome
from pytest_specgate.suite.cases import Gate, Suite
from pytest_specgate.suite.model import Policy

_DECIDED = frozenset({Outcome.PASS, Outcome.FAIL})


def must_decide(suite: Suite, gate: Gate, *, strict: bool) -> bool:
    """Whether an undecided gate fails the build; one that only warns never does."""
    policy = gate.spec.policy or suite.spec.policy
    return gate.spec.on_fail != "warn" and (strict or policy is Policy.PROVE)


def never_decided(outcomes: Mapping[str, Set[Outcome]]) -> list[str]:
    """One line for each engine (by its name for people) that was judged and never decided: then nothing was gated."""
    hint = "act on a reason above, or raise measure.rounds"
    return [
        f"{engine}: no gate reached PASS or FAIL, so nothing was gated — {hint}"
        for engine, reached in outcomes.items()
        if Outcome.INCONCLUSIVE in reached and not reached & _DECIDED
    ]
