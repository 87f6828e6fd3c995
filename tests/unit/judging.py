"""What the tests of gates share: gates, samples, baselines and a context, each from the few words that matter."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from pytest_specgate.errors import Location
from pytest_specgate.gates import JudgeContext, judge_once
from pytest_specgate.records import Counts, Finding, Place, PromptSamples, Samples, Stored, Verdict
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.model import GateSpec

HERE, ELSEWHERE = Place("cpu", 1, "float32"), Place("NVIDIA H100", 2, "bfloat16")
CASE = "e::short-t0-c1"


def gate(metric: str, **spec: Any) -> Gate:
    return Gate(GateSpec.model_validate({"metric": metric, **spec}), Location(Path("a.specgate.yaml"), 7, 3))


def context(**changes: Any) -> JudgeContext:
    fixed: dict[str, Any] = {"suite": "a", "case": CASE, "engine": "e", "alpha": 0.001, "place": HERE}
    return JudgeContext(**{**fixed, "today": dt.date(2030, 1, 31), **changes})


def samples(
    series: Mapping[str, Sequence[Sequence[float]]] | None = None,
    counts: Sequence[Sequence[Counts]] = (),
    *,
    greedy: bool = True,
    digests: Sequence[str] = (),
    scalars: Mapping[str, float] | None = None,
) -> Samples:
    """Prompts p0, p1, ...; ``series[metric][i]`` and ``counts[i]`` are those of prompt i, one entry per round."""
    series = series or {}
    size = max([len(groups) for groups in series.values()] + [len(counts), 1])
    prompts = tuple(
        PromptSamples(
            prompt=f"p{i}",
            cluster=f"p{i}",
            series={name: tuple(groups[i]) for name, groups in series.items() if i < len(groups)},
            counts=tuple(counts[i]) if counts else (),
            digest=digests[i] if digests else "same",
        )
        for i in range(size)
    )
    return Samples(CASE, greedy, prompts, scalars or {})


def stored(of: Samples, place: Place = HERE) -> Stored:
    return Stored(place, {}, {}, "2030-01-01T00:00:00Z", of)


def verdict(of: Gate, now: Samples, before: Samples | None = None, **changes: Any) -> Verdict:
    place = changes.pop("stored_at", HERE)
    return judge_once(of, now, None if before is None else stored(before, place), context(**changes))


def spread(level: float, *, prompts: int = 16, rounds: int = 8, noise: float = 0.03) -> list[list[float]]:
    """Logs about ``level``: the quantiles of a normal law, dealt out in a fixed order; no random number takes part."""
    size = prompts * rounds
    dealt = [stats.norm.ppf(((37 * k) % size + 0.5) / size) for k in range(size)]
    return [[level + noise * float(v) for v in dealt[i::prompts]] for i in range(prompts)]


def times(level: float, **shape: Any) -> list[list[float]]:
    """Times or rates about ``level``, spread as :func:`spread` does."""
    return [[math.exp(v) for v in row] for row in spread(math.log(level), **shape)]


BROKEN = Finding("throttling", held=False, detail="the clock fell by 30 %")
HELD = Finding("throttling", held=True, detail="")
