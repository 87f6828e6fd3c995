"""What the parts of a round cost, each timed alone, after the timed rounds and never among them.

A case's typical requests stand for it: as many as run at once, those in the middle by length, each with half of its
answer read. An engine that cannot run single forwards leaves the measurement as it was; one that fails is told as a
warning, for nothing is judged by these times: they explain what is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.engines.base import Engine, ForwardTimer, Timed
from pytest_specgate.errors import EngineError, SpecgateError
from pytest_specgate.measure.texts import requests_of
from pytest_specgate.records import Costs, Forwards, Measurement, Request, Trace
from pytest_specgate.suite.cases import Case

#: Repetitions of every part: as many as fit into the time, within these bounds.
LEAST, MOST, SECONDS = 4, 16, 2.0


@dataclass(frozen=True, slots=True)
class _Typical:
    """Requests and the beginnings of their answers; ``context`` is the median of tokens before a forward."""

    requests: list[Request]
    texts: list[tuple[int, ...]]
    context: int


def with_costs(engine: Engine, case: Case, taken: Measurement, progress: Callable[[str], None]) -> Measurement:
    """The measurement with costs, where the engine tells them; else as it was, with a warning where they failed."""
    if not isinstance(engine, ForwardTimer):
        return taken
    progress(f"{case.id}: timing single forwards of draft and target")
    try:
        return replace(taken, costs=measure_costs(engine, case, taken))
    except SpecgateError as error:
        return replace(taken, warnings=(*taken.warnings, f"what forwards cost was not measured: {error}"))


def measure_costs(engine: ForwardTimer, case: Case, taken: Measurement) -> Costs | None:
    """Costs at the case's concurrency and draft length; None where no draft was made, or the engine tells none.

    Raises EngineError.
    """
    drafted = max((r.drafted for pair in taken.pairs for r in pair.candidate.rounds or ()), default=0)
    typical = _typical(case, taken)
    if not drafted or typical is None:
        return None
    widths = [1, 1 + drafted, 1 + 2 * drafted]
    first = engine.time_forwards(typical.requests, typical.texts, widths, 1)
    if first is None:
        return None
    _refuse_strange(case, first, widths)
    once = sum(seconds for times in (*first.target.values(), first.draft or ()) for seconds in times)
    repeats = max(LEAST, min(MOST, int(SECONDS / once)))
    found = engine.time_forwards(typical.requests, typical.texts, widths, repeats)
    if found is None:
        return None
    _refuse_strange(case, found, widths)
    target = tuple(Forwards(width, found.target[width]) for width in widths)
    draft = None if found.draft is None else Forwards(1, found.draft)
    return Costs(target, draft, drafted, len(typical.requests), typical.context)


def _typical(case: Case, taken: Measurement) -> _Typical | None:
    """As many requests as run at once, from the middle by length; None where there is no answer to stand after."""
    first = min((pair.round for pair in taken.pairs), default=0)
    traces = sorted((p.reference for p in taken.pairs if p.round == first and p.reference.token_ids), key=_length)
    if not traces:
        return None
    rows = min(case.concurrency, len(traces))
    begin = (len(traces) - rows) // 2
    middle = traces[begin : begin + rows]
    asked = requests_of(case, taken)
    texts = [trace.token_ids[: max(1, len(trace.token_ids) // 2)] for trace in middle]
    return _Typical([asked[trace.prompt] for trace in middle], texts, _length(middle[rows // 2]))


def _length(trace: Trace) -> int:
    return trace.prompt_tokens + len(trace.token_ids) // 2


def _refuse_strange(case: Case, timed: Timed, widths: Sequence[int]) -> None:
    columns = [*timed.target.values(), *(() if timed.draft is None else (timed.draft,))]
    whole = set(timed.target) == set(widths) and len({len(column) for column in columns}) == 1
    if not whole or not all(math.isfinite(s) and s > 0 for column in columns for s in column):
        what = "the times of single forwards are not one for each of those asked for, above zero"
        raise EngineError(case.engine, what, "look at the clock of the engine's adapter")
