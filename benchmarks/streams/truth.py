"""What load clients report of streams whose truth the server knows: several tokens a chunk, a role chunk first.

Each reports in a process or an engine of its own and in its own words; what the server wrote when is the truth.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import mean

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.openai import OpenAIEngine
from pytest_specgate.records import Arm, Message, Pair, Request, Sampling
from pytest_specgate.samples import latency
from pytest_specgate.suite.model import EngineSpec
from streams.clients import post
from streams.server import MODEL, Script, script_of

Row = tuple[str, ...]


@dataclass(frozen=True)
class Load:
    """So many requests, ``streams`` of them at a time."""

    url: str
    streams: int
    requests: int
    script: Script


@dataclass(frozen=True)
class Told:
    """Means over requests: output tokens, seconds to their first chunk, seconds for each token after that chunk."""

    tokens: float
    ttft: float
    later: float
    requests: int = 0
    rate: float = 0.0


Reporter = Callable[[Load], Told]
#: How a client of another project fails, or its report is not as expected.
FAILED = (OSError, RuntimeError, LookupError, ValueError, subprocess.TimeoutExpired)


def specgate(dialect: str, load: Load) -> Told:
    """What the engine ``openai`` measures, as gates get it."""
    arms = {"reference": {"url": load.url}, "candidate": {"url": load.url}}
    server = {"model": MODEL, **arms, "timeout": "60 s", "dialect": dialect}
    spec = EngineSpec.model_validate({"kind": "openai", "server": server})
    engine, traces = OpenAIEngine(EngineContext("truth", spec, Path())), []
    engine.start()
    try:
        for start in range(0, load.requests, load.streams):
            numbers = range(start, min(start + load.streams, load.requests))
            asked = [Request(f"q{n}", (Message("user", "Say it."),), load.script.tokens, Sampling()) for n in numbers]
            traces += engine.generate(asked, Arm.CANDIDATE)
    finally:
        engine.close()
    seen = latency.series([Pair(one.prompt, "", 0, "AB", one, one) for one in traces])
    return Told(mean(one.output_tokens for one in traces), mean(seen["ttft"]), mean(seen.get("tpot", (nan,))))


def written(load: Load) -> Told:
    """What the server wrote to the latest ``requests``: some clients try it out before."""
    with urllib.request.urlopen(load.url + "/truth", timeout=30) as answer:  # noqa: S310
        sent: list[dict[str, int]] = json.load(answer)
    sent = sorted(sent, key=lambda one: one["asked_ns"])[-load.requests :]
    took = max(one["last_ns"] for one in sent) - min(one["asked_ns"] for one in sent)
    return Told(
        tokens=mean(one["tokens"] for one in sent),
        ttft=mean((one["first_ns"] - one["asked_ns"]) / 1e9 for one in sent),
        later=mean((one["last_ns"] - one["first_ns"]) / 1e9 / (one["tokens"] - one["in_first"]) for one in sent),
        requests=len(sent),
        rate=sum(one["chunks"] for one in sent) / took * 1e9,
    )


def compare(load: Load, reporters: Mapping[str, Reporter]) -> Iterator[Row]:
    """Each in turn on the same script: what it reports beside what was written to it."""
    yield "client", "output tokens (truth)", "TTFT in ms (truth)", "error", "ms a later token (truth)", "error"
    for name, reporter in reporters.items():
        yield name, *_compared(load, reporter)


def full(load: Load, reporters: Mapping[str, Reporter], rounds: int) -> Iterator[Row]:
    """Chunks a second by the server's own clock, from the first request to the last chunk, whoever asks."""
    yield "client", "chunks/s by the server's clock, each round"
    rates: dict[str, list[str]] = {name: [] for name in reporters}
    for number in range(rounds):
        for name in reporters if number % 2 else reversed(reporters):
            rates[name].append(_rate(load, reporters[name]))
    for name, found in rates.items():
        yield name, ", ".join(found)


def ask(load: Load, reporter: Reporter) -> tuple[Told, Told]:
    """What it reports, and what the server wrote meanwhile."""
    post(load.url + "/script", script_of(load.script))
    told = reporter(load)
    return told, written(load)


def _compared(load: Load, reporter: Reporter) -> Row:
    try:
        told, truth = ask(load, reporter)
    except FAILED as error:
        return (_why(error), *("-",) * 4)
    count = f"{told.tokens:.1f} ({truth.tokens:.1f})"
    return count, *_time(told.ttft, truth.ttft), *_time(told.later, truth.later)


def _rate(load: Load, reporter: Reporter) -> str:
    try:
        return f"{ask(load, reporter)[1].rate:,.0f}"
    except FAILED as error:
        return _why(error)


def _why(error: Exception) -> str:
    """Said in the cell: one client that fails is no reason to lose what the others did."""
    words = re.sub(r"/[^\s']*/", "", " ".join(str(error).split()))  # no page names a folder of the machine that made it
    return f"failed ({type(error).__name__}: {words[:80]})"


def _time(told: float, truth: float) -> tuple[str, str]:
    return f"{told * 1e3:.2f} ({truth * 1e3:.2f})", f"{(told - truth) * 1e3:+.2f} ms, {told / truth - 1:+.1%}"
