"""Steps that several families share: picking numbers, matching prompts, joining what ran together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean

from pytest_specgate.gates.context import JudgeContext, NoVerdict
from pytest_specgate.gates.wording import all_undecided
from pytest_specgate.metrics import Family
from pytest_specgate.records import Check, PromptSamples, Samples, Stored
from pytest_specgate.stats import paired
from pytest_specgate.stats.limits import CannotTell
from pytest_specgate.suite.cases import Gate

#: What belongs to the whole run; everything else belongs to prompts.
_WHOLE_RUN = (Family.MEMORY, Family.GROWTH, Family.DEVICE, Family.SERVING)
BAD_CLOCK = "look at the clock of the engine's adapter"

Values = Mapping[str, Sequence[float]]


def series_of(samples: Samples, metric: str, engine: str) -> dict[str, tuple[float, ...]]:
    """The metric's values by prompt. Raises NoVerdict where no prompt has any, or one is not a finite number."""
    found = {p.prompt: p.series[metric] for p in samples.prompts if p.series.get(metric)}
    if not found:
        raise unmeasured(metric, engine, "remove the gate, or use an engine that gives it")
    for prompt, values in found.items():
        if not paired.sane(values):
            raise NoVerdict(f"{metric} of {prompt} is not a finite number", BAD_CLOCK)
    return found


def unmeasured(metric: str, engine: str, hint: str) -> NoVerdict:
    """What an engine does not give is an error: never 0, never a pass."""
    return NoVerdict(f"{metric}: not measured by this engine ({engine})", hint)


def declared(max_tv: float | None) -> str:
    """What opens the reason of a gate that judges a declared loss by its size; empty where none is declared."""
    if max_tv is None:
        return ""
    return f"declared lossy (max_tv {max_tv:g}), so its effect is judged and not its exactness: "


def refuse_silent(metric: str, samples: Samples) -> None:
    """Raise NoVerdict where some prompts came without rounds and others with them.

    What is told may come from one rank of several: the rest is unknown, and not like it.
    """
    silent = [prompt.prompt for prompt in samples.prompts if not prompt.counts]
    if silent and len(silent) < len(samples.prompts):
        what = f"{len(silent)} of {len(samples.prompts)} prompts came without rounds, {silent[0]} first"
        raise NoVerdict(f"{metric}: {what}", "have the engine tell the rounds of all ranks and replicas")


def shared(samples: Samples, stored: Stored) -> Iterator[tuple[PromptSamples, PromptSamples]]:
    """Prompts that both runs have: (now, stored)."""
    before = {p.prompt: p for p in stored.samples.prompts}
    for prompt in samples.prompts:
        if prompt.prompt in before:
            yield prompt, before[prompt.prompt]


def shared_series(
    samples: Samples, stored: Stored, metric: str
) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    """(values now, values stored) of each prompt for which both runs have the metric."""
    return {
        now.prompt: (now.series[metric], old.series[metric])
        for now, old in shared(samples, stored)
        if now.series.get(metric) and old.series.get(metric) and paired.sane(old.series[metric])
    }


def half_shared(both: Sized, measured: Iterable[object]) -> bool:
    """Whether the baseline has half of what was measured or more: a few prompts that are left are another question."""
    return len(both) > 0 and 2 * len(both) >= sum(map(bool, measured))


def not_stored(gate: Gate, context: JudgeContext, shared_prompts: int = 0) -> NoVerdict:
    """A baseline that lacks the metric, or most of the prompts, is as good as none."""
    whose = "" if gate.spec.info.family in _WHOLE_RUN else " of these prompts"
    what = f"only {shared_prompts}" if shared_prompts else f"no {gate.spec.metric}"
    reason = f"the baseline for {context.case} holds {what}{whose}"
    return NoVerdict(reason, f"record it: pytest --specgate-update {context.suite}")


def standing_clock(values: Values) -> CannotTell | None:
    """Times or ratios that are the same to the last digit in every round, or everywhere, come from no running clock."""
    count = sum(map(len, values.values()))
    if any(min(series) < max(series) for series in values.values()):
        return None
    if count == len(values) and (count == 1 or len({series[0] for series in values.values()}) > 1):
        return None  # one round of one prompt, or of prompts that differ
    return CannotTell(f"all {count} values repeat themselves to the last digit", "a clock that resolves one call")


def from_elsewhere(gate: Gate, stored: Stored) -> tuple[Check, ...]:
    """Drift checks against another place's numbers cannot be decided here."""
    hint = "run --specgate-update --specgate-update-only new to record one for this machine"
    return all_undecided(gate, f"the baseline is from {stored.place.slug}; {hint}", drift_only=True)


def broken_environment(gate: Gate, context: JudgeContext) -> tuple[Check, ...]:
    """All demands undecided if an environment rule did not hold, else nothing."""
    for finding in context.findings:
        if not finding.held:
            return all_undecided(gate, f"environment rule '{finding.rule}' did not hold: {finding.detail}")
    return ()


@dataclass(frozen=True, slots=True)
class Units:
    """Independent observations: one group per prompt or block, one value per round; weights count prompts.

    ``together`` says that they are of several requests each, which ran at the same time.
    """

    groups: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    together: bool = False

    @property
    def values(self) -> list[float]:
        """All observations."""
        return [value for group in self.groups for value in group]

    @property
    def name(self) -> str:
        """What one of them is called."""
        return "runs" if self.together else "requests"

    @property
    def rounds(self) -> int:
        """The most rounds that any group has."""
        return max((len(group) for group in self.groups), default=0)


def units(values: Values, samples: Samples, join: Callable[[Sequence[float]], float] = fmean) -> Units:
    """The values by prompt, those of requests that ran at the same time joined into one per block and round."""
    numbers = {p.prompt: p.series["block"] for p in samples.prompts if p.series.get("block")}
    together: dict[float, dict[int, list[float]]] = {}
    groups: list[tuple[float, ...]] = []
    weights: list[float] = []
    for prompt, series in values.items():
        if len(numbers.get(prompt, ())) != len(series):
            groups.append(tuple(series))
            weights.append(1.0)
            continue
        for turn, (block, value) in enumerate(zip_longest(numbers[prompt], series)):
            together.setdefault(block, {}).setdefault(turn, []).append(value)
    for turns in together.values():
        groups.append(tuple(join(turns[turn]) for turn in sorted(turns)))
        weights.append(fmean(map(len, turns.values())))
    crowds = Counter((turn, block) for blocks in numbers.values() for turn, block in enumerate(blocks))
    several = bool(together) and max(crowds.values()) > 1
    return Units(tuple(groups), tuple(weights), several)


def length_warning(samples: Samples) -> tuple[str, ...]:
    """Truncated text looks like speed: say so where the arms' lengths differ by more than a tenth."""
    ratios = [value for prompt in samples.prompts for value in prompt.series.get("length_ratio", ())]
    if not ratios or not paired.sane(ratios) or 0.9 <= (mean := fmean(ratios)) <= 1.1:
        return ()
    return (f"the candidate arm's texts are {mean:.2f}x as long as the reference arm's: times do not compare",)
