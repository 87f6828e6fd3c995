"""A measured case: pairs of traces, requests at the edge with their replies, and all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_specgate.chances import Fit
from pytest_specgate.logits import Control, Exactness
from pytest_specgate.records.asked import Arm, Capability, Request
from pytest_specgate.records.machine import Costs, Finding, GpuUse, MemoryReading, Place, ScoringCost
from pytest_specgate.records.traced import Trace


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms on one prompt in one round; ``order`` is ``AB`` when the reference arm ran first, else ``BA``.

    ``run`` is the number, within its round, of the run whose requests waited for each other's place; None where none
    waited.
    """

    prompt: str
    cluster: str
    round: int
    order: str
    reference: Trace
    candidate: Trace
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """One request of a sweep over what faults hide behind, and what must hold of its answer by either arm.

    ``looks_for`` says what a person would call broken. ``expected`` are the output's ids where the target's own text
    tells them; ``same_as`` names the probe whose answer this one repeats, ``unlike`` those of which at least one must
    differ. Tokens of ``never`` may not stand among the first ``until``; ``always`` is every token. Probes of one
    ``company`` run in one call. A request for n answers has n probes in a row, one for each. ``may_refuse`` is what an
    engine may decline instead of answering. ``after`` names the probe that this one shows to be survived, answered
    ``within`` so many seconds; where ``settled`` repeated ``same_as`` letter by letter, this one has to as well.
    """

    name: str
    area: str
    looks_for: str
    request: Request
    expected: tuple[int, ...] | None = None
    same_as: str = ""
    unlike: tuple[str, ...] = ()
    never: tuple[int, ...] = ()
    until: int = 0
    always: int | None = None
    company: str = ""
    may_refuse: bool = False
    after: str = ""
    within: float = 0.0
    settled: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one arm made of a probe: a trace, or why there is none.

    ``regrets`` are logits below the target's choice, ``logs`` the target's own log-probabilities of the tokens; None
    where they were not scored.
    """

    probe: str
    arm: Arm
    trace: Trace | None
    refusal: str = ""
    crashed: bool = False
    regrets: tuple[float, ...] | None = None
    logs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """All probes with both arms' replies; ``control`` is None where the engine cannot score.

    ``not_asked`` names what this engine does not offer, or what its window leaves no room for.
    """

    probes: tuple[Probe, ...]
    replies: tuple[Reply, ...]
    control: Control | None
    not_asked: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Graded:
    """Whether an arm's answer to a prompt, in one round, stands the scenario's check; ``said`` is what was found."""

    prompt: str
    cluster: str
    round: int
    arm: Arm
    solved: bool
    said: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything that one case yielded; judging it needs nothing else but the gate and the baseline.

    ``workload`` (prompt-set hash, generation parameters, model content) keys the baseline entry; ``subject`` (versions,
    draft, flags) is what the gate exists to judge and never blocks a comparison. ``exactness`` and ``fit`` are None
    where no text was scored, and so is ``scoring``, what that took; ``costs`` where the engine does not tell what
    forwards cost, ``sweep`` where no requests were made up; ``graded`` is empty where the scenario has no check.
    ``apart``: the arms were never up together, and each round is a fresh start of both.
    """

    case: str
    engine_kind: str
    place: Place
    workload: Mapping[str, str]
    subject: Mapping[str, str]
    pairs: tuple[Pair, ...]
    greedy: bool
    memory: Mapping[Arm, MemoryReading] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    seconds: float = 0.0
    exactness: Exactness | None = None
    apart: bool = False
    costs: Costs | None = None
    fit: Fit | None = None
    gpu: tuple[GpuUse, ...] = ()
    sweep: Sweep | None = None
    graded: tuple[Graded, ...] = ()
    scoring: ScoringCost | None = None
