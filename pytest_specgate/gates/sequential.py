"""One verdict from several looks at growing data.

Each statistical check keeps the first answer that it reached, for every look has its own part of the check's error
rate; so measuring may stop as soon as all checks have one. A deterministic check spends no error rate and is answered
from all that was measured: a token that differs in the last round only is as wrong as one in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.gates.context import Judged, NoVerdict
from pytest_specgate.records import Check, Look, Outcome, Samples

_DECIDED = frozenset({Outcome.PASS, Outcome.FAIL})


@dataclass(frozen=True, slots=True)
class Seen:
    """The numbers of a case after this many rounds."""

    rounds: int
    samples: Samples


def first_decisions(looks: Sequence[Seen], judge_one: Callable[[Samples], Judged]) -> Judged:
    """Every check as it was first decided, or as the last look left it, with its looks.

    Measured value and notes are those of the look that decided the last check. Raises NoVerdict if the last look does.
    """
    checks: dict[str, Check] = {}
    judged: Judged | None = None
    for number, seen in enumerate(looks, start=1):
        try:
            judged = judge_one(seen.samples)
        except NoVerdict:
            if number == len(looks):
                raise
            continue
        for check in judged.checks:
            _take(checks, check, seen.rounds)
        if checks and all(check.outcome in _DECIDED for check in checks.values()):
            break
    if judged is None:
        raise NoVerdict("no round was measured", "raise measure.rounds")
    return replace(judged, checks=tuple(checks.values()))


def _take(checks: dict[str, Check], check: Check, rounds: int) -> None:
    before = checks.get(check.kind)
    if before is not None and before.outcome in _DECIDED:
        return
    earlier = before.looks if before else ()
    checks[check.kind] = replace(check, looks=(*earlier, Look(rounds, check.outcome, check.interval)))


def open_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks that more data of the same kind would decide."""
    return tuple(check for check in checks if check.outcome is Outcome.INCONCLUSIVE and check.needed)
