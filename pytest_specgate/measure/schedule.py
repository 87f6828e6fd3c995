"""Who runs when: arms alternate run by run, and their order alternates by run and by round (ABBA).

Over two rounds every run has been made in both orders, so linear drift and a penalty for going first cancel
(statistics: order matters more than any interval). A run is a block of as many conversations as the case's concurrency;
with an engine that has a queue it is one turn of all of them, so many at once, and the next enters where one leaves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from pytest_specgate.records import Arm, Capability
from pytest_specgate.suite.arrivals import LoadSpec
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.prompts import Conversation

T = TypeVar("T")


def order(block: int, round_number: int) -> str:
    """``AB`` when the reference arm goes first in this block and round, else ``BA``."""
    return "AB" if (block + round_number) % 2 == 0 else "BA"


def arms_in(an_order: str) -> tuple[Arm, Arm]:
    """The arms in this order."""
    return (Arm.REFERENCE, Arm.CANDIDATE) if an_order == "AB" else (Arm.CANDIDATE, Arm.REFERENCE)


def blocks(all_of_them: Sequence[T], concurrency: int) -> Iterator[tuple[T, ...]]:
    """The conversations (or requests) in their order, ``concurrency`` at a time; the last block may be smaller."""
    for start in range(0, len(all_of_them), concurrency):
        yield tuple(all_of_them[start : start + concurrency])


def slots(case: Case, capabilities: frozenset[Capability]) -> int | None:
    """How many requests of the case run at once while others wait; None where none waits.

    One at a time is one after the other, whoever sees to it, and pairs of single requests tell more than one long run.
    """
    few = 1 < case.concurrency < len(case.scenario.conversations)
    return case.concurrency if few and Capability.QUEUE in capabilities and case.scenario.spec.load is None else None


def turns(case: Case, capabilities: frozenset[Capability]) -> Iterator[tuple[int, tuple[Conversation, ...]]]:
    """Every run of a round: (turn, those who talk in it). A turn waits for the answers to the one before."""
    everybody = case.scenario.conversations
    together = len(everybody) if slots(case, capabilities) else case.concurrency
    for block in blocks(everybody, together):
        for turn in range(max(len(conversation.turns) for conversation in block)):
            yield turn, tuple(conversation for conversation in block if turn < len(conversation.turns))


def arrivals(load: LoadSpec, count: int, round_number: int, turn: int = 0) -> list[float]:
    """When each of so many requests comes, in seconds; both arms of a round, and every run, have the same times."""
    if load.arrival == "fixed":
        return [number / load.rate for number in range(count)]
    chance = random.Random(f"{load.seed}/{round_number}/{turn}")
    return list(accumulate(chance.expovariate(load.rate) for _ in range(count)))
