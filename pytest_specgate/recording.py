"""How much a baseline needs: enough that later builds resolve half of what each gate allows, within reason."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.gates.resolution import Resolution, resolutions
from pytest_specgate.records import Samples
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.suite.cases import Case

#: More rounds than this buy little: the stored medians' noise is then a small part of a build's own.
MOST_ROUNDS = 16
#: A baseline is good when a change of this part of the allowed one can be told from none.
MARGIN = 0.5


def rounds_to_record(case: Case, rounds: int) -> Looks:
    """When to look while recording: from the suite's own number of rounds on, and further only for what compares."""
    compares = any(gate.spec.compares for gate in case.gates)
    return Looks(tuple(range(rounds, MOST_ROUNDS + 1))) if compares and rounds < MOST_ROUNDS else Looks((rounds,))


def too_coarse(case: Case, samples: Samples, rounds: int, alpha: float, margin: float = 1.0) -> Iterator[Resolution]:
    """Allowed changes of which not even ``margin`` times can be resolved by builds of at most ``rounds`` rounds.

    ``alpha`` is the error rate of a check over all its looks.
    """
    each = alpha / doubling(rounds).count
    for found in resolutions(case.gates, samples, rounds, each):
        if found.least > margin * found.allowed:
            yield found


def still_coarse(case: Case, samples: Samples, rounds: int, alpha: float) -> tuple[str, ...]:
    """What more rounds of recording would help, in words."""
    return tuple(
        f"{one.gate}: resolves {one.least:.1%}, wanted {MARGIN * one.allowed:.1%}"
        for one in too_coarse(case, samples, rounds, alpha, MARGIN)
    )
