"""SGLang: a request's ``meta_info`` where the stream carries it, else the counter of verify calls.

Names as of SGLang 0.5.15 to 0.5.23 (python/sglang/srt: managers/tokenizer_manager.py, observability metrics); not tried
live. Gauges such as ``sglang:spec_accept_length`` and ``avg_spec_accept_length`` of ``/server_info`` are averages over
other requests too, and are never read. Input log-probabilities come from ``/generate`` with ``return_logprob``: a
triple of log-probability, id and text a token, the first without a number.
``/metrics`` needs the server's ``--enable-metrics``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.base import VLLM_KEYS, Acceptance, Dialect, Probe, listed_window
from pytest_specgate.engines.serving.dialects.rooms import GIB, Pressure, Rooms, found, gauges, size
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.prompted import PromptScores, Told, entry, mapping
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally, counts

#: The keys were renamed: those of 0.5.15 and later first.
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
#: Both are counters; the gauge of the second's name without its ending is of the last moment alone.
_RETRACTED = ("sglang:num_retracted_requests_total", "sglang:num_retracted_reqs_total")
#: One line for each model and worker, whose rank stands in the brackets; what is called GB are GiB.
_LOADED = re.compile(r"^(?:\[([^\]]*)\])?.*Load weight end\..*mem usage=(-?[0-9.]+) GB")
_RANK = re.compile(r"\b(?:DP|PP|TP|EP)[0-9]+\b")
_POOL = re.compile(
    r"^(?:\[([^\]]*)\])?.*KV Cache is allocated\..*#tokens: ([0-9]+), "
    r"(?:KV size: ([0-9.]+)|K size: ([0-9.]+) GB, V size: ([0-9.]+)) GB"
)


#: Pages that were renamed, with what the two names say put together.
_INFO, _MODEL = ("/get_server_info", "/server_info"), ("/get_model_info", "/model_info")


def _page(probe: Probe, names: Iterable[str]) -> Mapping[str, Any]:
    return {key: value for name in names for key, value in probe.object(name).items()}


def _recognises(probe: Probe) -> bool:
    return "sglang" in probe.owners or "sglang:" in probe.text("/metrics")


def _version(probe: Probe) -> str:
    return str(_page(probe, _INFO).get("version", ""))


def _tally(page: str) -> Tally:
    series = parse(page)
    return Tally(
        requests=series.total("sglang:num_requests_total"),
        tokens=series.total("sglang:generation_tokens_total"),
        rounds=series.total("sglang:spec_verify_calls_total") or None,
        preempted=next((total for name in _RETRACTED if (total := series.total(name)) is not None), None),
        cached=series.total("sglang:cached_tokens_total"),
    )


def _acceptance(answer: Answer, counted: Counted) -> Acceptance | None:
    meta = answer.said.get("meta_info")
    rounds = _first(meta, ("spec_verify_ct",))
    if not rounds:
        return None
    tally = Tally(rounds=rounds, drafts=rounds, drafted=_first(meta, _DRAFTED), accepted=_first(meta, _ACCEPTED))
    return Acceptance(counts=counts(tally, 1, counted.tokens))


def _cached(answer: Answer) -> int | None:
    told = answer.cached_tokens
    return _first(answer.said.get("meta_info"), ("cached_tokens",)) if told is None else told


def _first(meta: Any, names: tuple[str, ...]) -> int | None:
    found = [meta[name] for name in names if isinstance(meta, Mapping) and type(meta.get(name)) is int]
    return found[0] if found else None


def _facts(probe: Probe) -> Mapping[str, str]:
    info = _page(probe, _INFO)
    names = ("speculative_algorithm", "speculative_num_draft_tokens", "tp_size")
    return {name: str(info[name]) for name in names if info.get(name) is not None}


def _weights(probe: Probe, _: str) -> Mapping[str, str]:
    told = {**_page(probe, _INFO), **_page(probe, _MODEL)}
    names = ("weight_version", "revision", "quantization", "dtype")
    model = {"model": str(told["model_path"])} if told.get("model_path") else {}
    return model | {name: str(told[name]) for name in names if told.get(name) not in (None, "", "default")}


def _rooms(lines: Sequence[str], probe: Probe) -> Rooms:
    """Each worker's first model is the target, its second one the draft; without a log, as the pages have it."""
    loaded = [(m[1] or "", size(m[2], GIB)) for m in found(lines, _LOADED)]
    pools = found(lines, _POOL)
    sizes = [(m[1] or "", sum(size(part, GIB) for part in m.groups()[2:] if part)) for m in pools]
    if not loaded or not sizes:
        return _told_rooms(_page(probe, _INFO))
    (target, draft), (pool, draft_pool) = _by_model(loaded), _by_model(sizes)
    return Rooms(
        weights_target=target,
        weights_draft=draft,
        kv_cache=None if pool is None or draft_pool is None else pool + draft_pool,
        kv_cache_draft=draft_pool,
        kv_cache_tokens=int(pools[0][2]) * _replicas(name for name, _ in sizes),
    )


def _by_model(told: Sequence[tuple[str, int]]) -> tuple[int | None, int | None]:
    """Bytes of target and of draft over all workers. What was freed meanwhile makes some of them negative: untold."""
    by_rank: dict[str, list[int]] = {}
    for name, value in told:
        by_rank.setdefault(" ".join(_RANK.findall(name)), []).append(value)
    of_target = [values[0] for values in by_rank.values()]
    of_draft = [value for values in by_rank.values() for value in values[1:]]
    one, other = (None if min(values, default=0) < 0 else sum(values) for values in (of_target, of_draft))
    return one, other


def _replicas(names: Iterable[str]) -> int:
    return len({tuple(word for word in _RANK.findall(name) if word.startswith("DP")) for name in names})


def _told_rooms(info: Mapping[str, Any]) -> Rooms:
    """One state for each replica, told by its first worker: the others of a replica are alike."""
    states = info.get("internal_states")
    memory = [s.get("memory_usage") for s in states if isinstance(s, Mapping)] if isinstance(states, list) else []
    told = [one for one in memory if isinstance(one, Mapping)]
    if not told or info.get("pp_size", 1) != 1 or not _plausible(info.get("tp_size", 1)):
        return Rooms()
    workers = int(info.get("tp_size", 1)) // (len(told) if info.get("enable_dp_attention") else 1)
    weights, pool, tokens = (
        sum(one[name] for one in told) if all(_plausible(one.get(name)) for one in told) else None
        for name in ("weight", "kvcache", "token_capacity")
    )
    bytes_of = [None if value is None else round(value * GIB * workers) for value in (weights, pool)]
    return Rooms(weights=bytes_of[0], kv_cache=bytes_of[1], kv_cache_tokens=tokens)


def _plausible(value: object) -> bool:
    """Whether it is a number that a size could be."""
    return type(value) in (int, float) and 0 <= value < 2**60  # type: ignore[operator]


def _pressure(pages: Mapping[str, str]) -> Pressure:
    page = pages.get("/metrics", "")
    return gauges(page, ("sglang:token_usage",), "sglang:num_queue_reqs", "sglang:num_running_reqs")


def _scoring(ids: Sequence[int], top: int, model: str) -> dict[str, Any]:
    del model
    return {
        "input_ids": list(ids),
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": top,
    }


def _scored(said: Any) -> list[Told | None]:
    meta = mapping(mapping(said).get("meta_info"))
    own, top = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
    if not isinstance(own, list) or not isinstance(top, list) or len(own) != len(top):
        return []
    found: list[Told | None] = []
    for (score, token, *_), likely in zip(own, top):
        numbers = [(other, float(value)) for value, other, *_ in likely or () if value is not None]
        found.append(entry(token, score, numbers) if score is not None else None)
    return found


SGLANG = Dialect(
    name="sglang",
    shown="SGLang",
    recognises=_recognises,
    version=_version,
    hint="start SGLang with --enable-metrics",
    body={"return_meta_info": True},
    keys=VLLM_KEYS,
    off={"top_k": -1, "min_p": 0.0},
    continuous_usage=True,
    checks_model=True,
    metrics="/metrics",
    tally=_tally,
    acceptance=_acceptance,
    facts=_facts,
    weights=_weights,
    cached=_cached,
    rooms=_rooms,
    gauges=("/metrics",),
    fullness="start SGLang with --enable-metrics, and let /metrics through where a proxy stands before it",
    pressure=_pressure,
    prompted=PromptScores("/generate", _scoring, _scored),
    window=listed_window,
)
