"""The scenario's own task: whether the candidate arm solves fewer of the same prompts than the reference arm.

Exact McNemar: only prompts that one arm solves and the other does not tell anything, and without a fault each is as
likely either way. Where neither arm solves any, no loss could show, and nothing is passed. Where a prompt is answered
in several rounds, the arm that solves it more often has it. The allowed drop is in share of all prompts; its limits
are those of the exact share among the prompts that tell.
"""

from __future__ import annotations

from statistics import fmean

from pytest_specgate.gates.context import JudgeContext, Judged
from pytest_specgate.gates.parts import unmeasured
from pytest_specgate.records import Arm, Check, Graded, Interval, Outcome, Samples, Stored
from pytest_specgate.stats.proportions import exact_limits
from pytest_specgate.suite.cases import Gate

#: What would decide; by whether the reference arm solves nothing.
_NEEDED = {False: "more prompts that only one arm solves", True: "easier tasks, or a larger max_tokens"}


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:  # noqa: ARG001 - as all
    """The check of one task gate. Raises NoVerdict where no answer was graded."""
    if not samples.graded:
        raise unmeasured(gate.spec.metric, context.engine, "give the scenario a check, and its prompts an answer")
    rates = {arm: _rates(samples.graded, arm) for arm in Arm}
    reference, candidate = rates[Arm.REFERENCE], rates[Arm.CANDIDATE]
    lost = [prompt for prompt, rate in candidate.items() if rate < reference[prompt]]
    won = [prompt for prompt, rate in candidate.items() if rate > reference[prompt]]
    change = drop(len(lost), len(won), len(candidate), context)
    allowed = gate.spec.max_drop.of(fmean(reference.values())) if gate.spec.max_drop else 0.0
    blind = gate.spec.max_drop is not None and not any((*reference.values(), *candidate.values()))
    outcome = Outcome.INCONCLUSIVE if blind else _outcome(change, allowed)
    share = fmean(candidate.values())
    said = f"{share:.1%} solved against the reference arm's {fmean(reference.values()):.1%} of {len(candidate)} prompts"
    said += f": {len(lost)} lost" + (f" ({', '.join(lost[:3])})" if lost else "") + f", {len(won)} won"
    said += ": the reference arm solves none, so a loss cannot show" if blind else ""
    needed = _NEEDED[blind] if outcome is Outcome.INCONCLUSIVE else ""
    required = gate.spec.max_drop.text if gate.spec.max_drop else ""
    shown = Interval(-change.value, -change.high, -change.low)
    check = Check("max_drop", required, outcome, f"task score: {said}", shown, needed)
    return Judged((check,), Interval(share, share, share))


def drop(lost: int, won: int, prompts: int, context: JudgeContext) -> Interval:
    """How much smaller the candidate's share of solved prompts is, with limits at this check's error rates."""
    telling = lost + won
    if not telling:
        return Interval(0.0, 0.0, 0.0)
    low, _ = exact_limits(lost, telling, 1 - 2 * context.alpha)
    _, high = exact_limits(lost, telling, 1 - 2 * context.wrong_pass)
    scale = telling / prompts
    return Interval((lost - won) / prompts, scale * (2 * low - 1), scale * (2 * high - 1))


def _outcome(change: Interval, allowed: float) -> Outcome:
    if change.low > allowed:
        return Outcome.FAIL
    return Outcome.PASS if change.high <= allowed else Outcome.INCONCLUSIVE


def _rates(graded: tuple[Graded, ...], arm: Arm) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one in graded:
        if one.arm is arm:
            found.setdefault(one.prompt, []).append(float(one.solved))
    return {prompt: fmean(solved) for prompt, solved in found.items()}
