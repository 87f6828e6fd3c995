"""A public fake: a decoder on a simulated clock, for trying out suites and for testing gates.

Nothing is loaded and nothing sleeps; timestamps are computed. Both arms emit the same words unless told to
diverge, and a request that runs alone takes as long as one that runs beside others. Its faults
(:data:`FAULTS`) are those that a gate must see. Options (suite key ``options``) are the fields of
:class:`Script`; two engines with equal options yield equal traces for equal calls.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_specgate.engines.base import EngineContext, Timed
from pytest_specgate.engines.script import Script, script_of
from pytest_specgate.engines.scripted_logits import scores
from pytest_specgate.errors import EngineError, OutOfMemory
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Capability, Chunk, MemoryReading, Place, Request, Round, Trace

_WORDS = (
    *("the", "draft", "model", "proposes", "four", "tokens"),
    *("and", "target", "keeps", "what", "it", "would"),
)
_EOS = 2
_FIRST_WORD = 10
_DRIFT_PER_CALL = 0.02


class ScriptedEngine:
    """The engine protocol on a simulated clock."""

    def __init__(self, context: EngineContext) -> None:
        self._name = context.name
        self._script = script_of(context)
        self._now_ns = 1_000_000_000
        self._calls = 0
        can = {Capability.SEEDS, Capability.STREAMING}
        if self._script.fault != "no_rounds":
            can.add(Capability.ROUNDS)
        if self._script.batch:
            can.add(Capability.BATCH)
        if self._script.fault != "no_logits":
            can.add(Capability.LOGITS)
        self.capabilities: frozenset[Capability] = frozenset(can)

    def start(self) -> None:
        """Load nothing, or fail as a server that cannot start."""
        if self._script.fault == "start":
            raise EngineError(self._name, "the script says that this engine cannot start", "set fault: none")

    def check(self, concurrency: int, greedy: bool) -> None:  # noqa: ARG002 - part of the protocol
        """Refuse several requests at once where the script says so."""
        if concurrency > 1 and not self._script.batch:
            what = f"concurrency {concurrency}: the script runs one request at a time"
            raise EngineError(self._name, what, "use concurrency: [1], or set batch: true")

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Return one trace per request; requests of one call overlap in simulated time."""
        begin = self._now_ns
        traces = [self._trace(request, arm, begin) for request in requests]
        self._now_ns = max(trace.chunks[-1].t_ns for trace in traces) + 1_000
        return traces

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """Return logits by which every word that the reference arm says is the target's choice."""
        return [self._scores(request, text, width) for request, text in zip(requests, texts)]

    def _scores(self, request: Request, text: tuple[int, ...], width: int | None) -> Scores:
        said = self._said(request, "none")
        choices = [(token, _next_word(token)) for token in (*said, *(_EOS,) * (len(text) - len(said)))]
        tied = self._fault(request, Arm.CANDIDATE) == "tie"
        return scores(text, choices, _middle(said) if tied else None, width, request.prompt)

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        """Return the scripted costs with the script's noise; the clock stands still meanwhile."""
        del texts
        if self._script.fault == "no_costs":
            return None
        script, rng = self._script, _random(f"{self._script.seed}:{requests[0].prompt}:costs")

        def times(factor: float) -> tuple[float, ...]:
            one = script.seconds_per_token * factor
            return tuple(one * math.exp(rng.gauss(0, script.noise)) for _ in range(repeats))

        target = {width: times(1 + script.verify_cost * (width - 1)) for width in widths}
        return Timed(target, times(script.draft_cost) if script.draft_cost else None)

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Return the scripted peak, the larger one where both arms are named."""
        peak = int(max(self._script.memory[arm.value] for arm in arms))
        return MemoryReading(host_rss=peak, max_process_vram=peak)

    def place(self) -> Place:
        """Return the scripted device."""
        return Place(self._script.device, 1, "none")

    def workload(self) -> Mapping[str, str]:
        """Return the scripted target."""
        return {"target": self._script.target}

    def subject(self) -> Mapping[str, str]:
        """Return what a build might change."""
        return {"engine": "scripted", "k": str(self._script.k), "device": self._script.device}

    def close(self) -> None:
        """Free nothing: there is nothing."""

    def _trace(self, request: Request, arm: Arm, begin: int) -> Trace:
        self._calls += 1
        fault = self._fault(request, arm)
        _misbehave(fault, self._name, request.prompt)
        ids = self._said(request, fault)
        per_token = self._seconds_per_token(request, arm)
        rounds: tuple[Round, ...] | None = None
        if arm is Arm.REFERENCE:
            chunks = tuple(Chunk(begin + int(1e9 * per_token * n), 1) for n in range(1, len(ids) + 1))
        else:
            rounds = _rounds(self._script, fault, _seed(request), len(ids))
            rounds = _timed(rounds, begin, per_token)
            chunks = tuple(Chunk(r.t_ns, r.emitted) for r in rounds)
        return Trace(
            prompt=request.prompt,
            arm=arm,
            token_ids=ids,
            text=" ".join(_word(i) for i in ids if i != _EOS),
            prompt_tokens=sum(len(message.content.split()) for message in request.messages),
            submit_ns=begin,
            chunks=chunks,
            finish="eos" if _EOS in ids else "length",
            rounds=_told(rounds, fault),
            max_tokens=request.max_tokens,
            eos_ids=(_EOS,),
        )

    def _said(self, request: Request, fault: str) -> tuple[int, ...]:
        tokens = request.max_tokens + 1 if request.ignore_eos else self._script.tokens
        return _output(_seed(request), tokens, request.max_tokens, fault)

    def _fault(self, request: Request, arm: Arm) -> str:
        strikes = arm is Arm.CANDIDATE and self._script.fail_on in {"", request.prompt}
        return self._script.fault if strikes else "none"

    def _seconds_per_token(self, request: Request, arm: Arm) -> float:
        """Draw this call's time per token: by prompt and call, so that rounds of a run differ."""
        rng = _random(f"{self._script.seed}:{request.prompt}:{self._calls}")
        seconds = self._script.seconds_per_token * math.exp(rng.gauss(0, self._script.noise))
        if self._script.fault == "drift":
            seconds *= (1 + _DRIFT_PER_CALL) ** self._calls
        return seconds if arm is Arm.REFERENCE else seconds / self._script.speedup


def _misbehave(fault: str, engine: str, prompt: str) -> None:
    if fault == "crash":
        raise EngineError(engine, f"{prompt}: the script says crash", "set fault: none")
    if fault == "oom":
        raise OutOfMemory(engine, f"{prompt}: out of memory", "shorten the prompts or free memory")
    if fault == "interrupt":
        raise KeyboardInterrupt


def _seed(request: Request) -> int:
    """What decides the words: the prompt, the seed, and the temperature where words are drawn."""
    sampling = request.sampling
    drawn = zlib.crc32(f"{sampling.temperature:g}".encode()) if sampling.temperature else 0
    return zlib.crc32(request.prompt.encode()) + (sampling.seed or 0) + drawn


def _random(seed: str | int) -> random.Random:
    return random.Random(seed)


def _word(token: int) -> str:
    return _WORDS[token - _FIRST_WORD] if token >= _FIRST_WORD else "<unk>"


def _output(seed: int, tokens: int, budget: int, fault: str) -> tuple[int, ...]:
    """Return ``tokens`` ids, the end of text being the last, or as many as the budget allows."""
    rng = _random(seed)
    ids = [_FIRST_WORD + rng.randrange(len(_WORDS)) for _ in range(tokens - 1)] + [_EOS]
    ids = ids[:budget]
    if fault == "nan":
        return (0,) * budget
    if fault in {"diverge", "tie"}:
        ids[_middle(ids)] = _next_word(ids[_middle(ids)])
    if fault == "truncate":
        ids = [*ids[: max(1, len(ids) // 2 - 1)], _EOS]
    if fault == "overrun":
        ids.append(_FIRST_WORD)
    return tuple(ids)


def _middle(ids: Sequence[int]) -> int:
    return (len(ids) - 1) // 2


def _next_word(token: int) -> int:
    return _FIRST_WORD + (token - _FIRST_WORD + 1) % len(_WORDS)


def _rounds(script: Script, fault: str, seed: int, total: int) -> tuple[Round, ...]:
    """Return rounds, still without times, that emit ``total`` tokens: the same at every call."""
    chance = _random(f"{seed}:accept:{script.acceptance}")
    drafted = 0 if fault == "never_drafts" else script.k
    rounds: list[Round] = []
    done = 0
    while done < total:
        accepted = 0
        while accepted < drafted and chance.random() < script.acceptance:
            accepted += 1
        emitted = min(accepted + 1, total - done)
        accepted = min(accepted, emitted)
        tested = accepted if emitted == accepted else min(accepted + 1, drafted)
        done += emitted
        rounds.append(Round(drafted, tested, accepted, emitted, 0))
    return tuple(rounds)


def _timed(rounds: tuple[Round, ...], begin: int, per_token: float) -> tuple[Round, ...]:
    done, timed = 0, []
    for r in rounds:
        done += r.emitted
        timed.append(replace(r, t_ns=begin + int(1e9 * per_token * done)))
    return tuple(timed)


def _told(rounds: tuple[Round, ...] | None, fault: str) -> tuple[Round, ...] | None:
    """Return the rounds as the engine tells them: truly, wrongly, or not at all."""
    if rounds is None or fault == "no_rounds":
        return None
    if fault == "bad_trace":
        return (replace(rounds[0], drafted=4, tested=2, accepted=3), *rounds[1:])
    return rounds
