"""SGLang: a request's ``meta_info`` where the stream carries it, else the counter of verify calls.

Names as of SGLang 0.5.15 to 0.5.23 (python/sglang/srt: managers/tokenizer_manager.py, observability metrics); not tried
live. Gauges such as ``sglang:spec_accept_length`` and ``avg_spec_accept_length`` of ``/server_info`` are averages over
other requests too, and are never read. ``/metrics`` needs the server's ``--enable-metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.base import VLLM_KEYS, Acceptance, Dialect, Probe
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally, counts

#: The keys were renamed: those of 0.5.15 and later first.
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")


def _recognises(probe: Probe) -> bool:
    return "sglang" in probe.owners or "sglang:" in probe.text("/metrics")


def _version(probe: Probe) -> str:
    return str(probe.object("/get_server_info").get("version", ""))


def _tally(page: str) -> Tally:
    series = parse(page)
    return Tally(
        requests=series.total("sglang:num_requests_total"),
        tokens=series.total("sglang:generation_tokens_total"),
        rounds=series.total("sglang:spec_verify_calls_total") or None,
    )


def _acceptance(answer: Answer, counted: Counted) -> Acceptance | None:
    meta = answer.said.get("meta_info")
    rounds = _first(meta, ("spec_verify_ct",))
    if not rounds:
        return None
    tally = Tally(rounds=rounds, drafts=rounds, drafted=_first(meta, _DRAFTED), accepted=_first(meta, _ACCEPTED))
    return Acceptance(counts=counts(tally, 1, counted.tokens))


def _first(meta: Any, names: tuple[str, ...]) -> int | None:
    found = [meta[name] for name in names if isinstance(meta, Mapping) and type(meta.get(name)) is int]
    return found[0] if found else None


def _facts(probe: Probe) -> Mapping[str, str]:
    info = probe.object("/get_server_info")
    names = ("speculative_algorithm", "speculative_num_draft_tokens", "tp_size")
    return {name: str(info[name]) for name in names if info.get(name) is not None}


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
)
