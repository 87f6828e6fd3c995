"""An engine with a loss planted into its candidate arm, so that what a gate detects can be counted.

It wraps another engine by that engine's own ``kind`` and options (:func:`planted` writes the spec), so that the child
processes of a memory pass, which build engines from a context, carry the loss too. Place, workload, subject and
capabilities are the wrapped engine's: to a gate the loss looks like a change of the software. The reference arm is
left alone. A plant that this engine cannot carry is an EngineError, never a build without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_specgate.chances import Chances
from pytest_specgate.engines.base import (
    Alternating,
    ChanceScorer,
    Drains,
    Engine,
    EngineContext,
    Foresees,
    ForwardTimer,
    Occupies,
    Queues,
    Scorer,
    Timed,
    Tokenized,
)
from pytest_specgate.engines.plants import Losses, Plant, gpu_memory, host_memory, hotter, parse_plant, stretched
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Bounds, Capability, MemoryReading, Place, Request, Trace
from pytest_specgate.suite.model import EngineSpec

KIND = "pytest_specgate.engines.planted:Planted"
SERVERS = "pytest_specgate.engines.planted_servers:PlantedServers"
#: How the wrapped engine runs requests.
_Run = Callable[[Sequence[Request], Arm], list[Trace]]


def planted(spec: EngineSpec, plant: Plant, seed: int) -> EngineSpec:
    """The spec of the same engine with the loss; ``seed`` decides which rounds lose acceptance."""
    options = {"kind": spec.kind, "options": dict(spec.options), "plant": plant.text, "seed": seed}
    return spec.model_copy(update={"kind": KIND if spec.server is None else SERVERS, "options": options})


class Planted:
    """The engine protocol over another engine, its candidate arm worse by one :class:`Plant`."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._name = context.name
        self._plant, self._losses, inner = _read(context)
        self._inner: Engine = create(replace(context, spec=inner))
        self.capabilities: frozenset[Capability] = self._inner.capabilities
        self._ballast: list[Any] = []

    def start(self) -> None:
        """Take the ballast of a memory plant, then start the wrapped engine."""
        self._refuse()
        heavy = self._plant.kind == "memory" and Arm.CANDIDATE in self._context.arms
        if heavy:
            self._take_memory(before=True)
        self._inner.start()
        self.capabilities = self._inner.capabilities  # some show only now
        if heavy:
            self._take_memory(before=False)

    def _refuse(self) -> None:
        if self._plant.kind == "acceptance" and Capability.ROUNDS not in self.capabilities:
            hint = "plant another loss, or use an engine that tells its rounds"
            raise EngineError(self._name, "a loss of acceptance cannot be planted: no rounds are told", hint)

    def _take_memory(self, *, before: bool) -> None:
        """Before the model is loaded the host's: loading often takes the most, and hides what comes after it."""
        if before:
            self._ballast.append(host_memory(self._name, int(self._plant.size)))
        elif (device := self._inner.subject().get("device", "")).startswith("cuda"):
            self._ballast.append(gpu_memory(int(self._plant.size), device))

    @property
    def apart(self) -> bool:
        """Whether the wrapped engine's arms take turns."""
        return isinstance(self._inner, Alternating) and self._inner.apart

    def begin(self, arm: Arm) -> None:
        """Have the wrapped engine start this arm anew."""
        if isinstance(self._inner, Alternating):
            self._inner.begin(arm)

    def occupies(self) -> frozenset[str]:
        """Return what the wrapped engine takes besides its device."""
        return self._inner.occupies() if isinstance(self._inner, Occupies) else frozenset()

    def check(self, concurrency: int, greedy: bool) -> None:
        """Refuse what the wrapped engine refuses, sampling included where the plant makes the candidate sample."""
        self._inner.check(concurrency, greedy)
        if greedy and self._plant.kind == "sampler":
            self._inner.check(concurrency, False)

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Return the wrapped engine's traces; of the candidate arm with the loss."""
        return self._worse(requests, arm, self._inner.generate)

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        """Return the wrapped engine's traces, with the loss alike; asked for only where that engine has a queue."""
        inner = self._inner
        if not isinstance(inner, Queues):
            raise EngineError(self._name, "the wrapped engine has no queue", "use an engine that has one")
        return self._worse(requests, arm, lambda asked, of: inner.serve(asked, of, slots))

    def _worse(self, requests: Sequence[Request], arm: Arm, run: _Run) -> list[Trace]:
        if arm is not Arm.CANDIDATE or self._plant.kind == "memory":
            return run(requests, arm)
        if self._plant.kind == "sampler":
            return run([hotter(request, self._plant.size) for request in requests], arm)
        if self._plant.kind == "delay":
            return self._delayed(requests, run)
        if self._plant.kind == "leak":
            self._leak(len(requests))
            return run(requests, arm)
        return [self._losses.lowered(trace) for trace in run(requests, arm)]

    def _leak(self, requests: int) -> None:
        kept = int(self._plant.size) * requests
        self._ballast.append(host_memory(self._name, kept))
        if (device := self._inner.subject().get("device", "")).startswith("cuda"):
            self._ballast.append(gpu_memory(kept, device))

    def _delayed(self, requests: Sequence[Request], run: _Run) -> list[Trace]:
        """Spend the time before it stands in a trace: no time stamp lies in the future."""
        begin = time.perf_counter()
        traces = run(requests, Arm.CANDIDATE)
        # Every trace lies within this call, so its share of the call covers its share of each trace. An engine on a
        # simulated clock takes next to no time here, and is delayed on its own clock alone.
        time.sleep(self._plant.size * (time.perf_counter() - begin))
        first = min((trace.submit_ns for trace in traces), default=0)
        return [stretched(trace, 1 + self._plant.size, first) for trace in traces]

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """Return the wrapped engine's logits; asked for only where that engine has them."""
        if not isinstance(self._inner, Scorer):
            raise EngineError(self._name, "the wrapped engine cannot score texts", "remove greedy_exactness")
        return self._inner.score(requests, texts, width)

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        """Return the wrapped engine's times: no plant lies in a forward."""
        inner = self._inner
        return inner.time_forwards(requests, texts, widths, repeats) if isinstance(inner, ForwardTimer) else None

    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        """Return what the wrapped engine thinks of texts; asked for only where that engine can."""
        if not isinstance(self._inner, ChanceScorer):
            raise EngineError(self._name, "the wrapped engine cannot score drawn texts", "remove distribution_fit")
        return self._inner.chances(requests, texts)

    def refuse(self, requests: Sequence[Request]) -> None:
        """Refuse what the wrapped engine refuses."""
        if isinstance(self._inner, Foresees):
            self._inner.refuse(requests)

    def drain(self) -> None:
        """Have the wrapped engine give its memory back, if it keeps any."""
        if isinstance(self._inner, Drains):
            self._inner.drain()

    def bounds(self) -> Bounds:
        """Return the wrapped engine's; asked for only where that engine takes token ids."""
        return self._tokenized().bounds()

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the wrapped engine's ids of a text."""
        return self._tokenized().encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the wrapped engine's text of ids."""
        return self._tokenized().decode(ids)

    def _tokenized(self) -> Tokenized:
        if not isinstance(self._inner, Tokenized):
            raise EngineError(self._name, "the wrapped engine takes no token ids", "use an engine that does")
        return self._inner

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Return what the wrapped engine knows."""
        return self._inner.memory(arms)

    def place(self) -> Place:
        """Return the wrapped engine's place."""
        return self._inner.place()

    def workload(self) -> Mapping[str, str]:
        """Return the wrapped engine's workload."""
        return self._inner.workload()

    def subject(self) -> Mapping[str, str]:
        """Return the wrapped engine's subject: a loss does not announce itself."""
        return self._inner.subject()

    def close(self) -> None:
        """Close the wrapped engine and let the ballast go; may be called twice."""
        self._inner.close()
        self._ballast.clear()


def _read(context: EngineContext) -> tuple[Plant, Losses, EngineSpec]:
    options: dict[str, Any] = dict(context.spec.options)
    if unknown := sorted(options.keys() - {"kind", "options", "plant", "seed"}):
        raise EngineError(context.name, f"unknown option {unknown[0]!r}", "valid: kind, options, plant, seed")
    if not isinstance(options.get("kind"), str) or not isinstance(options.get("options", {}), Mapping):
        hint = "options: {kind: KIND, options: {...}, plant: delay=15%}"
        raise EngineError(context.name, "a planted engine needs the kind and options of the one it wraps", hint)
    try:
        plant = parse_plant(str(options.get("plant", "")))
    except ValueError as error:
        what, _, hint = str(error).partition(" — ")
        raise EngineError(context.name, what, hint) from error
    inner = context.spec.model_copy(update={"kind": options["kind"], "options": dict(options.get("options", {}))})
    return plant, Losses(plant.size, int(options.get("seed", 0))), inner
