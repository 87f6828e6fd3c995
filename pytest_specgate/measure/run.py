"""Measure one case: warm up, run both arms interleaved round by round, and put down what came of it.

This module knows the order of things and nothing about judging: at each look it asks which questions are still open,
and ends with none. It raises what engines raise; a trace that contradicts itself is left for the reduction to refuse.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.engines.base import Engine, Foresees
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.apart import apart_round, started_by
from pytest_specgate.measure.asking import ask
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.measure.environment import FRESH_STARTS, examine, notes
from pytest_specgate.measure.monitor import Monitor
from pytest_specgate.measure.readings import Observed, gpu_use
from pytest_specgate.measure.schedule import arms_in, blocks, order, slots, turns
from pytest_specgate.records import Arm, Bias, Capability, Finding, GpuUse, Measurement, Pair, Sampling, Trace
from pytest_specgate.samples.output import accounting_notes
from pytest_specgate.stats.looks import LEAST_FRESH_STARTS, Looks
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.prompts import prompts_hash

#: Warm-up goes on until a call is within this factor of the fastest so far, or the patience is used up.
SETTLED = 1.25
WARMUP_PATIENCE = 6
#: Requests at once that warm up a case whose requests come by the clock.
WARM_LOAD = 4
_Seen = tuple[tuple[Finding, ...], tuple[GpuUse, ...]]
#: Settings of a request that reshape scores, as the workload lists them.
_MORE = (
    *("min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"),
    *("logit_bias", "min_tokens", "bad_words"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure, and whom to tell.

    ``still_open`` sees what was measured so far at each of the ``looks``, and says in words what is not decided yet;
    measuring ends when nothing is, or when the next round would not fit into ``budget_seconds``, of which warming up
    and a second chance are part. ``gpus_before`` are the processes on each GPU from before the engine started.
    ``second_chance`` is off where nothing asks how steady the machine was.
    """

    looks: Looks
    warmup: int
    budget_seconds: float | None
    still_open: Callable[[Sequence[Pair], Sequence[Finding], Sequence[GpuUse]], Sequence[str]]
    progress: Callable[[str], None]
    gpus_before: Mapping[str, frozenset[int]] | None = None
    second_chance: bool = True


def measure_case(engine: Engine, case: Case, plan: Plan) -> Measurement:
    """Both arms on every prompt of the case; broken environment rules are given a second chance.

    The engine must be started. Raises EngineError (OutOfMemory among them) from the engine.
    """
    engine.check(case.concurrency, case.sampling.greedy)
    _refuse_load(engine, case)
    if isinstance(engine, Foresees):
        dialogue = Dialogue(case)
        engine.refuse([dialogue.request(conversation, 0) for conversation in case.scenario.conversations])
    started = time.monotonic()
    if started_by(engine) is None:
        _warm_up(engine, case, plan.warmup)
    pairs, findings, warnings, uses = _observe(engine, Dialogue(case), plan, started)
    broken = [finding for finding in findings if not finding.held and finding.rule != FRESH_STARTS]
    if broken and plan.second_chance and not _used_up(plan, time.monotonic() - started):
        plan.progress(f"{case.id}: {broken[0].rule} broken ({broken[0].detail}); measuring once more")
        pairs, findings, warnings, uses = _observe(engine, Dialogue(case, "once more"), plan, started)
    seconds = time.monotonic() - started
    blank = unmeasured(engine, case)
    return replace(blank, pairs=tuple(pairs), findings=findings, warnings=warnings, seconds=seconds, gpu=uses)


def _refuse_load(engine: Engine, case: Case) -> None:
    """Requests by the clock would be run at once by an engine that knows no clock."""
    if case.scenario.spec.load is not None and Capability.ARRIVALS not in engine.capabilities:
        what = f"{case.id}: 'load' has requests come by the clock, which this engine cannot"
        raise EngineError(case.engine, what, "use kind: openai, or 'concurrency' in place of 'load'")


def unmeasured(engine: Engine, case: Case) -> Measurement:
    """The case's measurement while it holds no pair yet: where, what is asked, and of what."""
    return Measurement(
        case=case.id,
        engine_kind=case.engine_spec.kind,
        place=engine.place(),
        workload=workload(engine, case),
        subject=dict(engine.subject()),
        pairs=(),
        greedy=case.sampling.greedy,
        capabilities=engine.capabilities,
        apart=started_by(engine) is not None,
    )


def workload(engine: Engine, case: Case) -> dict[str, str]:
    """What keys the baseline entry: what is asked, and the content of target and tokenizer."""
    waits = {"batching": "continuous"} if slots(case, engine.capabilities) else {}
    return {**engine.workload(), **asked(case), **waits}


def asked(case: Case) -> dict[str, str]:
    """What the case asks for, whichever engine answers: prompts and generation parameters."""
    spec, sampling = case.scenario.spec, case.sampling
    return {
        "prompts": prompts_hash(case.scenario.conversations),
        "max_tokens": str(spec.max_tokens),
        "sampling": _sampling(sampling),
        "stop": repr(spec.stop),
        "ignore_eos": str(spec.ignore_eos).lower(),
        "concurrency": str(case.concurrency),
        **_judged_by(case),
        **({"load": str(spec.load)} if spec.load else {}),
        **({"prefix": str(spec.prefix)} if spec.prefix.kind != "as_is" else {}),
    }


def _judged_by(case: Case) -> dict[str, str]:
    """What answers are held against, where the suite says so."""
    named = [gate.spec.embedding for gate in case.gates if gate.spec.embedding]
    found = {"embedding": named[0]} if named else {}
    if case.scenario.spec.check is not None:
        answers = [conversation.answer or conversation.reference for conversation in case.scenario.conversations]
        said = repr((case.scenario.spec.check.model_dump(mode="json"), answers))
        found["check"] = hashlib.sha256(said.encode()).hexdigest()[:16]
    return found


def _sampling(sampling: Sampling) -> str:
    filters = f"top_k={sampling.top_k} top_p={sampling.top_p:g}"
    # Greedy texts are the same in every round; drawn ones are not since each round has a seed of its own.
    seeds = f"seed={sampling.seed}" if sampling.greedy else f"seed={sampling.seed} by round"
    basic = f"temperature={sampling.temperature:g} {filters} {seeds}"
    # What is not asked for leaves no trace: older baselines do not know of it.
    plain = Sampling()
    more = [f" {name}={_shown(value)}" for name in _MORE if (value := getattr(sampling, name)) != getattr(plain, name)]
    return basic + "".join(more)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{v.token}:{v.value:g}" if isinstance(v, Bias) else repr(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _warm_up(engine: Engine, case: Case, least: int, arms: Sequence[Arm] = tuple(Arm)) -> None:
    """Run each arm on the case's own prompts until its time per token settles: compilation and caches never count."""
    at_once = case.concurrency if case.scenario.spec.load is None else WARM_LOAD
    first_block = next(blocks(case.scenario.conversations, at_once))
    if str(engine.subject().get("device", "")).startswith("cuda"):
        # Memory, kernels and graphs for a length or a number of rows come with the first forward that has it, and not
        # while anything is timed.
        _run_all(engine, case, arms)
    for arm in arms:
        fastest = float("inf")
        for call in range(max(least, WARMUP_PATIENCE)):
            dialogue = Dialogue(case, f"warm-up {call}")
            requests = [dialogue.request(conversation, 0) for conversation in first_block]
            traces = ask(engine, case.engine, requests, arm)
            cost = max(trace.seconds / max(trace.output_tokens, 1) for trace in traces)
            fastest = min(fastest, cost)
            if call + 1 >= least and cost <= SETTLED * fastest:
                break


def _run_all(engine: Engine, case: Case, arms: Sequence[Arm]) -> None:
    dialogue = Dialogue(case, "all")
    waiting = slots(case, engine.capabilities)
    for turn, talking in turns(case, engine.capabilities):
        requests = dialogue.requests(talking, turn)
        for arm in arms:
            for trace in ask(engine, case.engine, requests, arm, waiting):
                dialogue.remember(trace)


def _observe(
    engine: Engine, dialogue: Dialogue, plan: Plan, started: float
) -> tuple[list[Pair], tuple[Finding, ...], tuple[str, ...], tuple[GpuUse, ...]]:
    with Monitor(engine.subject(), plan.gpus_before) as monitor:

        def seen(pairs: list[Pair]) -> _Seen:
            readings = monitor.readings()
            prefix = dialogue.case.scenario.spec.prefix.kind
            return examine(Observed(pairs, readings, started_by(engine) is not None, prefix)), gpu_use(readings)

        pairs, warnings = _rounds(engine, dialogue, replace(plan, budget_seconds=_left(plan, started)), seen)
        found, uses = seen(pairs)
    wrong = accounting_notes(pairs, dialogue.case.scenario.spec.stop)
    return pairs, found, (*warnings, *told(pairs), *wrong, *notes(found)), uses


def told(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """What servers gave as warnings of their answers, each once with how many answers it is about."""
    traces = [trace for pair in pairs for trace in (pair.reference, pair.candidate)]
    counted = Counter(note for trace in traces if trace.told is not None for note in trace.told.notes)
    return tuple(f"{note} ({count} of {len(traces)} answers)" for note, count in counted.items())


def _rounds(
    engine: Engine, dialogue: Dialogue, plan: Plan, seen: Callable[[list[Pair]], _Seen]
) -> tuple[list[Pair], tuple[str, ...]]:
    case, pairs = dialogue.case, list[Pair]()
    started, standing = time.monotonic(), ""
    for done in range(1, plan.looks.most + 1):
        pairs += _one_round(engine, dialogue, plan, _Meter(case, plan, started, done - 1, standing))
        if done == plan.looks.most:
            break
        if done in plan.looks.rounds and not (started_by(engine) and done < LEAST_FRESH_STARTS):
            questions = plan.still_open(pairs, *seen(pairs))
            if not questions:
                break
            standing = f"; open: {', '.join(questions)}"
        if _next_is_too_long(plan, time.monotonic() - started, done):
            return pairs, (f"stopped after {done} of at most {plan.looks.most} rounds: the time for it is used up",)
    return pairs, ()


def _left(plan: Plan, started: float) -> float | None:
    return None if plan.budget_seconds is None else plan.budget_seconds - (time.monotonic() - started)


def _used_up(plan: Plan, elapsed: float) -> bool:
    return plan.budget_seconds is not None and elapsed >= plan.budget_seconds


def _next_is_too_long(plan: Plan, elapsed: float, done: int) -> bool:
    return _used_up(plan, elapsed * (done + 1) / done)


def _one_round(engine: Engine, dialogue: Dialogue, plan: Plan, meter: _Meter) -> list[Pair]:
    """Every turn of every conversation once by both arms, ``concurrency`` of them at a time."""
    if (starter := started_by(engine)) is None:
        return _side_by_side(engine, dialogue, meter)

    def begin(arm: Arm) -> None:
        plan.progress(f"{dialogue.case.id}: fresh start {meter.round + 1} of the {arm.value} arm")
        starter.begin(arm)
        _warm_up(engine, dialogue.case, plan.warmup, (arm,))

    return apart_round(engine, dialogue, meter.round, begin)


def _side_by_side(engine: Engine, dialogue: Dialogue, meter: _Meter) -> list[Pair]:
    case, number, pairs = dialogue.case, meter.round, list[Pair]()
    waiting = slots(case, engine.capabilities)
    for run, (turn, talking) in enumerate(turns(case, engine.capabilities)):
        requests = dialogue.requests(talking, turn, number)
        in_order = order(run, number)
        traces = {arm: ask(engine, case.engine, requests, arm, waiting) for arm in arms_in(in_order)}
        place = run if waiting else None
        for conversation, reference, candidate in zip(talking, traces[Arm.REFERENCE], traces[Arm.CANDIDATE]):
            dialogue.remember(reference)
            pairs.append(Pair(reference.prompt, conversation.id, number, in_order, reference, candidate, place))
        meter.tick(traces)
    return pairs


@dataclass(slots=True)
class _Meter:
    """Turns finished runs into progress lines: case, round, tokens per second of each arm, time left at most.

    ``standing`` says which gates were undecided at the last look, and how far from a decision.
    """

    case: Case
    plan: Plan
    started: float
    round: int
    standing: str
    done: int = 0

    def tick(self, traces: dict[Arm, list[Trace]]) -> None:
        self.done += len(traces[Arm.REFERENCE])
        turns = sum(len(c.turns) for c in self.case.scenario.conversations)
        most = self.plan.looks.most
        share = (self.round * turns + self.done) / (most * turns)
        left = (time.monotonic() - self.started) * (1 - share) / share
        speeds = " against ".join(f"{_tokens_per_second(traces[arm]):.1f}" for arm in (Arm.CANDIDATE, Arm.REFERENCE))
        self.plan.progress(
            f"{self.case.id}: round {self.round + 1}/{most}, prompt {self.done}/{turns}, "
            f"{speeds} tokens/s, {left:.0f} s left at most{self.standing}"
        )


def _tokens_per_second(traces: Sequence[Trace]) -> float:
    seconds = (max(trace.chunks[-1].t_ns for trace in traces) - min(trace.submit_ns for trace in traces)) / 1e9
    return sum(trace.output_tokens for trace in traces) / seconds if seconds > 0 else 0.0
