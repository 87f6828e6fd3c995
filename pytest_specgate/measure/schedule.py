"""Who runs when: arms alternate block by block, and their order alternates by block and by round (ABBA).

Over two rounds every block has been run in both orders, so linear drift and a penalty for going first cancel
(statistics: order matters more than any interval). A block is as many conversations as the case's concurrency.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from pytest_specgate.records import Arm
from pytest_specgate.suite.arrivals import LoadSpec

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


def arrivals(load: LoadSpec, count: int, round_number: int, turn: int = 0) -> list[float]:
    """When each of so many requests comes, in seconds; both arms of a round, and every run, have the same times."""
    if load.arrival == "fixed":
        return [number / load.rate for number in range(count)]
    chance = random.Random(f"{load.seed}/{round_number}/{turn}")
    return list(accumulate(chance.expovariate(load.rate) for _ in range(count)))
