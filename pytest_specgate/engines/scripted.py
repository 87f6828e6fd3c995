"""A public fake: a decoder on a simulated clock, for trying out suites and for testing gates.

Nothing is loaded and nothing sleeps; timestamps are computed. Both arms emit the same words unless told to diverge. Its
faults are those that a gate must see: it can crash, run out of memory, contradict its own counters, cut its output
short, or not tell its rounds. Options (suite key ``options``) are the fields of :class:`Script`.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError, OutOfMemory
from pytest_specgate.records import Arm, Capability, Chunk, MemoryReading, Place, Request, Round, Trace
from pytest_specgate.units import did_you_mean

FAULTS = ("none", "crash", "interrupt", "oom", "bad_trace", "diverge", "truncate", "no_rounds", "never_drafts", "nan", "start")
_VOCABULARY = ("the", "draft", "model", "proposes", "four", "tokens", "and", "target", "keeps", "what", "it", "would", "say")
_EOS = 2


@dataclass(frozen=True, slots=True)
class Script:
    """What the fake does. Times in seconds; ``noise`` is the standard deviation of log time per call.

    ``speedup`` is the true ratio of the arms' times per token and ``acceptance`` the chance that a tested draft token is kept;
    ``memory`` gives each arm's peak in bytes; ``fault`` happens on every prompt, or on ``fail_on`` alone.
    """

    tokens: int = 32
    seconds_per_token: float = 0.01
    speedup: float = 1.5
    noise: float = 0.01
    acceptance: float = 0.6
    k: int = 4
    device: str = "simulated"
    target: str = "scripted-target"
    memory: Mapping[str, float] = field(default_factory=lambda: {"reference": 1e9, "candidate": 1.1e9})
    fault: str = "none"
    fail_on: str = ""
    seed: int = 0


class ScriptedEngine:
    """The engine protocol on a simulated clock."""

    def __init__(self, context: EngineContext) -> None:
        self._name = context.name
        self._script = _script(context)
        self._now_ns = 1_000_000_000
        self._calls = 0
        rounds = frozenset() if self._script.fault == "no_rounds" else frozenset({Capability.ROUNDS})
        self.capabilities: frozenset[Capability] = rounds | {Capability.BATCH, Capability.SEEDS}

    def start(self) -> None:
        """Load nothing, or fail as a server that cannot start."""
        if self._script.fault == "start":
            raise EngineError(self._name, "the script says that this engine cannot start", "set fault: none")

    def check(self, concurrency: int, greedy: bool) -> None:
        """Every case is possible."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """One trace per request; requests of one call overlap in simulated time."""
        begin = self._now_ns
        traces = [self._trace(request, arm, begin) for request in requests]
        self._now_ns = max(trace.chunks[-1].t_ns for trace in traces) + 1_000
        return traces

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """The scripted peak of the last named arm."""
        peak = int(self._script.memory[arms[-1].value])
        return MemoryReading(host_rss=peak, max_process_vram=peak)

    def place(self) -> Place:
        """The scripted device."""
        return Place(self._script.device, 1, "none")

    def workload(self) -> Mapping[str, str]:
        """The scripted target."""
        return {"target": self._script.target}

    def subject(self) -> Mapping[str, str]:
        """What a build might change: everything else."""
        return {"engine": "scripted", "k": str(self._script.k), "device": self._script.device}

    def close(self) -> None:
        """Nothing to free."""

    def _trace(self, request: Request, arm: Arm, begin: int) -> Trace:
        self._calls += 1
        fault = self._script.fault if self._script.fail_on in ("", request.prompt) else "none"
        self._misbehave(fault, request, arm)
        text_seed = zlib.crc32(request.prompt.encode()) + request.sampling.seed
        ids, words = _output(text_seed, min(self._script.tokens, request.max_tokens), fault if arm is Arm.CANDIDATE else "none")
        noise = random.Random(f"{self._script.seed}:{request.prompt}:{self._calls}")
        per_token = self._script.seconds_per_token * 2.718281828 ** noise.gauss(0, self._script.noise)
        if arm is Arm.REFERENCE:
            times = [begin + int(1e9 * per_token * (i + 1)) for i in range(len(ids))]
            chunks, rounds = tuple(Chunk(t, 1) for t in times), None
        else:
            rounds = self._rounds(text_seed, len(ids), begin, per_token / self._script.speedup, fault)
            chunks = tuple(Chunk(r.t_ns, r.emitted) for r in rounds)
        if fault == "bad_trace" and rounds:
            rounds = (Round(4, 2, 3, 4, rounds[0].t_ns), *rounds[1:])
        return Trace(
            prompt=request.prompt, arm=arm, token_ids=ids, text=" ".join(words), prompt_tokens=10, submit_ns=begin,
            chunks=chunks, finish="eos" if ids[-1] == _EOS else "length",
            rounds=None if fault == "no_rounds" else rounds, max_tokens=request.max_tokens, eos_ids=(_EOS,),
        )  # fmt: skip

    def _rounds(self, seed: int, total: int, begin: int, per_token: float, fault: str) -> tuple[Round, ...]:
        """Rounds that emit ``total`` tokens: the same every time for a prompt, as a greedy decoder's are."""
        chance = random.Random(f"{seed}:accept:{self._script.acceptance}")
        drafted = 0 if fault == "never_drafts" else self._script.k
        rounds: list[Round] = []
        done = 0
        while done < total:
            accepted = 0
            while accepted < drafted and chance.random() < self._script.acceptance:
                accepted += 1
            emitted = min(accepted + 1, total - done)
            accepted = min(accepted, emitted)
            tested = accepted if emitted == accepted else min(accepted + 1, drafted)
            done += emitted
            rounds.append(Round(drafted, tested, accepted, emitted, begin + int(1e9 * per_token * done)))
        return tuple(rounds)

    def _misbehave(self, fault: str, request: Request, arm: Arm) -> None:
        if arm is Arm.REFERENCE:
            return
        if fault == "crash":
            raise EngineError(self._name, f"{request.prompt}: the script says crash", "set fault: none")
        if fault == "oom":
            raise OutOfMemory(self._name, f"{request.prompt}: out of memory", "shorten the prompts or free memory")
        if fault == "interrupt":
            raise KeyboardInterrupt


def _script(context: EngineContext) -> Script:
    options: dict[str, Any] = dict(context.spec.options)
    known = [f.name for f in fields(Script)]
    for key in options:
        if key not in known:
            raise EngineError(context.name, f"unknown option {key!r}{did_you_mean(key, known)}", f"valid: {', '.join(known)}")
    script = Script(**options)
    if script.fault not in FAULTS:
        what = f"unknown fault {script.fault!r}{did_you_mean(script.fault, FAULTS)}"
        raise EngineError(context.name, what, f"valid: {', '.join(FAULTS)}")
    return script


def _output(seed: int, total: int, fault: str) -> tuple[tuple[int, ...], list[str]]:
    rng = random.Random(seed)
    numbers = [rng.randrange(len(_VOCABULARY)) for _ in range(total)]
    if fault == "diverge":
        numbers[total // 2] = (numbers[total // 2] + 1) % len(_VOCABULARY)
    if fault == "truncate":
        numbers = numbers[: max(1, total // 2)]
    return tuple(10 + n for n in numbers), [_VOCABULARY[n] for n in numbers]
