"""The numbers that gates judge and baselines keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_specgate.chances import Draws
from pytest_specgate.logits import Choices
from pytest_specgate.records.machine import Costs, Place
from pytest_specgate.records.measured import Graded, Sweep
from pytest_specgate.records.traced import Counts


@dataclass(frozen=True, slots=True)
class PromptSamples:
    """One prompt's numbers over the rounds of a run.

    ``series`` maps a metric to one value per round: natural logs of ratios for the speed-up family, seconds, shares and
    scores as they are. ``counts`` has one entry per round. ``digest`` names the candidate arm's token ids in the first
    round, so that equal text is known as equal.
    """

    prompt: str
    cluster: str
    series: Mapping[str, tuple[float, ...]]
    counts: tuple[Counts, ...] = ()
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Samples:
    """The numbers of one case that gates judge and baselines keep. ``scalars`` maps a metric to one value per run.

    ``choices`` and ``draws`` are what this run's target says of this run's texts, ``growth`` maps a metric to the bytes
    per request of every step of the soak, and ``device`` one to a value per round; ``sweep`` is what was made of
    requests at the edge, and ``graded`` which answers stand the scenario's check; no baseline keeps any of them.
    ``unscored`` says of a metric why it has no values here.
    """

    case: str
    greedy: bool
    prompts: tuple[PromptSamples, ...]
    scalars: Mapping[str, float] = field(default_factory=dict)
    choices: Choices | None = None
    draws: Draws | None = None
    growth: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    device: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    sweep: Sweep | None = None
    graded: tuple[Graded, ...] = ()
    unscored: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The first accepted baseline of a workload, in one number per metric: small losses add up against it."""

    recorded: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stored:
    """A baseline entry: whose numbers they are, for which workload, from which place, and when they were recorded.

    ``sessions`` maps a metric to its mean log, one value for each process that was started anew to record it; it is
    empty where there was one. ``anchor`` is None for a first baseline, ``costs`` where none were told.
    """

    place: Place
    workload: Mapping[str, str]
    subject: Mapping[str, str]
    recorded: str
    samples: Samples
    sessions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    anchor: Anchor | None = None
    costs: Costs | None = None
