"""What stored numbers cannot be, however well formed the file: a hand-edited baseline must not judge a build.

Pure rules over an entry's parts; the first one that is broken is told with the path that leads to it. What they let
pass may still be wrong, but it is a number that this software could have measured.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_specgate.metrics import METRICS, Family, Unit
from pytest_specgate.records import Anchor, Costs, Counts, PromptSamples

Path = tuple[str | int, ...]
Problem = tuple[Path, str]

#: The least and the most that a value of each unit can be, wide enough for every machine that there will be; a unit
#: that is not here has no bounds of its own.
_RANGES: Mapping[Unit, tuple[float, float]] = MappingProxyType(
    {
        Unit.RATIO: (1e-6, 1e6),
        Unit.FRACTION: (0.0, 1.0),
        Unit.TOKENS: (0.0, 1e9),
        Unit.BYTES: (1.0, 2.0**60),
        Unit.SECONDS: (0.0, 1e7),
        Unit.RATE: (0.0, 1e12),
        Unit.SCORE: (-1e-6, 100.0 + 1e-6),
        Unit.REQUESTS: (0.0, 1e9),
        Unit.WATTS: (0.0, 1e6),
        Unit.JOULES: (0.0, 1e12),
        Unit.SLOPE: (-1e3, 1e3),  # of a prompt that hardly grows it may be steep
    }
)
#: Bytes per request, which may also shrink.
_GROWTH = (-(2.0**60), 2.0**60)
_LOG_LIMIT = math.log(1e6)


def problems(
    recorded: str,
    scalars: Mapping[str, float],
    anchor: Anchor | None,
    prompts: Sequence[PromptSamples],
    costs: Costs | None = None,
) -> Iterator[Problem]:
    """What of one case's entry cannot be true, each with the path inside the entry."""
    yield from _date(("recorded",), recorded)
    for name, value in scalars.items():
        yield from _value(("scalars", name), name, value)
    if anchor is not None:
        yield from _date(("anchor", "recorded"), anchor.recorded)
        for name, value in anchor.values.items():
            yield from _value(("anchor", "values", name), name, value)
    yield from _prompts(prompts)
    if costs is not None:
        yield from _costs(costs)


def _costs(costs: Costs) -> Iterator[Problem]:
    """Times above zero, and widths that rise from one token."""
    widths = [one.width for one in costs.target]
    if widths[:1] != [1] or sorted(set(widths)) != widths:
        yield ("costs", "target"), f"widths {', '.join(map(str, widths)) or 'of none'} do not rise from 1"
    parts = [(("costs", "target", number), one) for number, one in enumerate(costs.target)]
    for at, one in [*parts, *([] if costs.draft is None else [(("costs", "draft"), costs.draft)])]:
        if not one.seconds or min(one.seconds) <= 0:
            yield (*at, "seconds"), "a forward takes time above zero"


def _prompts(prompts: Sequence[PromptSamples]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, prompt in enumerate(prompts):
        at: Path = ("prompts", index)
        if prompt.prompt in seen:
            yield (*at, "prompt"), f"prompt {prompt.prompt!r} is there twice"
        seen.add(prompt.prompt)
        for name, values in prompt.series.items():
            for turn, value in enumerate(values):
                yield from _series_value((*at, "series", name, turn), name, value)
        for turn, counts in enumerate(prompt.counts):
            if what := _contradiction(counts):
                yield (*at, "counts", turn), what


def _contradiction(counts: Counts) -> str:
    """``0 <= accepted <= tested <= drafted`` and ``drafts <= rounds``, as in every trace, of those that were told."""
    in_order = _known(0, counts.accepted, counts.tested, counts.drafted)
    if in_order != sorted(in_order):
        said = f"accepted {counts.accepted}, tested {counts.tested}, drafted {counts.drafted}"
        return f"{said} cannot be: each is at most the next, and none below 0"
    in_order = _known(0, counts.drafts, counts.rounds)
    if in_order != sorted(in_order):
        return f"{counts.drafts} drafts in {counts.rounds} rounds cannot be"
    return ""


def _known(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


def _series_value(path: Path, name: str, value: float) -> Iterator[Problem]:
    """Speed-ups are stored as natural logs; the number of a block is no metric and only counts."""
    if name == "block":
        if value < 0:
            yield path, f"block {value:g} cannot be"
        return
    metric = METRICS.get(name.removeprefix("reference_"))
    if metric is not None and metric.family is Family.SPEEDUP:
        if abs(value) > _LOG_LIMIT:
            yield path, f"{value:g} cannot be the natural log of {name}"
        return
    yield from _value(path, name, value)


def _value(path: Path, name: str, value: float) -> Iterator[Problem]:
    metric = METRICS.get(name.removeprefix("reference_"))
    if metric is None:  # of a newer version, or of a plug-in: no definition to hold it to
        return
    low, high = _GROWTH if metric.family is Family.GROWTH else _RANGES.get(metric.unit, (-math.inf, math.inf))
    if not low <= value <= high:
        yield path, f"{value:g} cannot be a value of {metric.name}"


def _date(path: Path, text: str) -> Iterator[Problem]:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        yield path, f"{text!r} is no date"
