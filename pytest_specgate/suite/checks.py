"""How many checks of a suite draw on the build's error budget; known before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_specgate.metrics import Family
from pytest_specgate.suite.cases import Case, Gate

#: Bookkeeping is right or wrong whatever the sampling: never a matter of scatter.
ALWAYS_EXACT = frozenset({"token_accounting"})


def statistical(gate: Gate, *, greedy: bool) -> int:
    """Demands of the gate that carry sampling error: exact comparisons draw on no budget.

    A drop of a speed-up is judged twice, by the typical pair and by what stalls.
    """
    family = gate.spec.info.family
    if gate.spec.metric in ALWAYS_EXACT or family in (Family.MEMORY, Family.SERVING, Family.REQUESTS):
        return 0
    if greedy and family in (Family.ACCEPTANCE, Family.OUTPUT):
        return 0
    if family is Family.EXACTNESS:  # its near ties are counted against chance, once
        return 1
    if family is Family.DISTRIBUTION:  # the candidate's tokens, and the reference arm's as a control
        return 2
    twice = family is Family.SPEEDUP and gate.spec.max_drop is not None
    return twice + sum(demand is not None for demand in (gate.spec.limit, gate.spec.max_drop, gate.spec.max_rise))


def by_rounds(gate: Gate, *, greedy: bool) -> bool:
    """Whether the gate is judged look by look, more rounds telling more: neither exact nor a pass of its own.

    A greedy engine repeats itself, so later rounds tell nothing of its acceptance either.
    """
    family = gate.spec.info.family
    once = family in (Family.EXACTNESS, Family.GROWTH, Family.TASK) or (greedy and family is Family.DECAY)
    return not once and statistical(gate, greedy=greedy) > 0


def checks_in(cases: Iterable[Case]) -> int:
    """Statistical checks of all gates of all cases."""
    return sum(statistical(gate, greedy=case.sampling.greedy) for case in cases for gate in case.gates)
