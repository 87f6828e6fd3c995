"""Steps that several families share: picking numbers, matching prompts, and what to say of another place."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.gates.context import JudgeContext
from pytest_specgate.gates.verdicts import NoVerdict
from pytest_specgate.gates.wording import undecided
from pytest_specgate.records import Check, PromptSamples, Samples, Stored
from pytest_specgate.suite.cases import Gate
from pytest_specgate.units import Allowance


def series_of(samples: Samples, metric: str, engine: str) -> dict[str, tuple[float, ...]]:
    """The metric's values by prompt. Raises NoVerdict where no prompt has any."""
    found = {p.prompt: p.series[metric] for p in samples.prompts if p.series.get(metric)}
    if not found:
        raise NoVerdict(f"{metric} was not measured by this engine ({engine})", "remove the gate or use another engine")
    return found


def shared(samples: Samples, stored: Stored) -> Iterator[tuple[PromptSamples, PromptSamples]]:
    """Prompts that both runs have: (now, stored)."""
    before = {p.prompt: p for p in stored.samples.prompts}
    for prompt in samples.prompts:
        if prompt.prompt in before:
            yield prompt, before[prompt.prompt]


def demands(gate: Gate) -> list[tuple[str, Allowance]]:
    """The drift checks that the gate asks for."""
    asked = (("max_drop", gate.spec.max_drop), ("max_rise", gate.spec.max_rise))
    return [(kind, allowance) for kind, allowance in asked if allowance is not None]


def from_elsewhere(gate: Gate, stored: Stored) -> tuple[Check, ...]:
    """Drift checks against another place's absolute numbers cannot be decided here."""
    hint = "run --specgate-update --specgate-update-only new to record one for this machine"
    reason = f"the baseline is from {stored.place.slug}; {hint}"
    return tuple(undecided(kind, allowance.text, reason) for kind, allowance in demands(gate))


def broken_environment(gate: Gate, context: JudgeContext) -> tuple[Check, ...]:
    """Undecided checks for all demands if an environment rule did not hold, else nothing."""
    for finding in context.findings:
        if not finding.held:
            reason = f"environment rule '{finding.rule}' did not hold: {finding.detail}"
            asked = [(kind, allowance.text) for kind, allowance in demands(gate)]
            if gate.spec.limit is not None:
                asked.insert(0, ("limit", gate.spec.limit.text))
            return tuple(undecided(kind, text, reason) for kind, text in asked)
    return ()
