"""Requests of a sweep that count as honoured though nothing shows that they were: pure.

Where an answer is not scored, equal answers of both arms show that they do alike, not that either does what was asked.
"""

from __future__ import annotations

from pytest_specgate.gates.honoured import Answers, Measure
from pytest_specgate.records import Arm, Probe, Reply, Sweep, Trace

#: Why a request is not checked, as a verdict says it.
ALIKE = "both arms answer alike, and nothing tells what is right"
QUOTED = "log-probabilities that the other arm's alone were held against, or none"
_Both = tuple[Reply, Reply]


def unchecked(sweep: Sweep, measure: Measure) -> dict[str, tuple[str, ...]]:
    """Why → names of the requests, in the order in which they were asked."""
    answers, found = Answers(sweep, measure), dict[str, list[str]]()
    for probe in sweep.probes:
        one, other = answers.of(probe, Arm.REFERENCE), answers.of(probe, Arm.CANDIDATE)
        if one is not None and other is not None and (why := _why(answers, probe, (one, other))):
            found.setdefault(why, []).append(probe.name)
    return {why: tuple(names) for why, names in found.items()}


def _why(answers: Answers, probe: Probe, both: _Both) -> str:
    """Why nobody knows of a request that looks honoured; empty where it is known, broken, or told as parted."""
    one, other = both[0].trace, both[1].trace
    if one is None or other is None or answers.differs(probe) or any(answers.differ_from_own(probe)):
        return ""
    if probe.request.logprobs and both[1].logs is None:
        return QUOTED
    # Of a liveness probe, and of one that looks for a crash, an answer is all that is asked.
    asks_more = not probe.after and not probe.looks_for.startswith("a crash")
    if not asks_more or not probe.request.sampling.greedy or answers.scores(both[1]):
        return ""
    return "" if _held(answers, probe, other) else ALIKE


def _held(answers: Answers, probe: Probe, trace: Trace) -> bool:
    """Whether an answer was held against more than the other arm's."""
    by_ids = probe.expected is not None or probe.never or probe.always is not None
    earlier = answers.earlier(probe, Arm.CANDIDATE)
    return bool((by_ids and trace.token_ids) or probe.unlike or (earlier is not None and earlier.trace is not None))
