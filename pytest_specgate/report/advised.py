"""What a report advises, as values: a recommendation with its reasons, and what was asked for.

Texts are plain sentences without a full stop; every face escapes and joins them its own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_specgate.records import Interval
from pytest_specgate.suite.advising import AdviceSpec


class Recommendation(str, Enum):
    """Whether to adopt speculation."""

    ADOPT = "adopt"
    CONDITIONS = "adopt with conditions"
    REFUSE = "do not adopt"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What makes adopting worth it; ``price`` is an hour's of one device, None if unsaid."""

    min_speedup: float = 1.05
    max_memory_rise: float = 0.25
    max_ttft_rise: float = 0.25
    max_batch_loss: float = 0.25
    min_gain: float = 0.05
    price: float | None = None


def wanted(spec: AdviceSpec, price: float | None = None) -> Wanted:
    """What a suite asks; ``price`` is what a person said instead of the suite."""
    told = price if price is not None else spec.price
    return Wanted(spec.min_speedup, spec.max_memory_rise, spec.max_ttft_rise, spec.max_batch_loss, spec.min_gain, told)


@dataclass(frozen=True, slots=True)
class TokenCost:
    """The price of a million output tokens at so many requests at once; None where throughput was not measured.

    ``load`` says at which rate they came where they came by the clock.
    """

    scenario: str
    concurrency: int
    reference: Interval | None
    candidate: Interval | None
    load: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A row of the check list: ``part`` is throughput, output quality or resources."""

    part: str
    metric: str
    method: str
    expected: str
    measured: str
    reading: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on one scenario of an engine, or on all of them (``scenario`` is empty, and ``checks`` is filled).

    ``rule`` names the rule that decided. ``limits`` say what the claim does not cover, ``again`` what a change of the
    set-up makes necessary to measure again.
    """

    suite: str
    engine: str
    scenario: str
    recommendation: Recommendation
    rule: str
    conditions: tuple[str, ...]
    reasons: tuple[str, ...]
    limits: tuple[str, ...]
    again: tuple[str, ...] = ()
    costs: tuple[TokenCost, ...] = ()
    checks: tuple[Checked, ...] = ()
