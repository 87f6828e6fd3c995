"""Text Generation Inference: accepted tokens and rounds from one histogram.

``tgi_request_skipped_tokens`` gets one entry for each forward of each request, its value being the tokens beyond the
first (router/src/infer, TGI 2.x and 3.x); the prefill's entry is among them. Drafted tokens are told nowhere. Not tried
live.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_specgate.engines.serving.dialects.base import Dialect, Probe
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.tally import Tally

_SKIPPED = "tgi_request_skipped_tokens"


def _recognises(probe: Probe) -> bool:
    info = probe.object("/info")
    return "model_id" in info and "max_concurrent_requests" in info


def _version(probe: Probe) -> str:
    return str(probe.object("/info").get("version", ""))


def _tally(page: str) -> Tally:
    series = parse(page)
    requests, entries = series.total("tgi_request_success"), series.total(f"{_SKIPPED}_count")
    # Prefills are entries too: one for every request that was answered.
    rounds = None if entries is None else entries - (requests or 0)
    return Tally(
        requests=requests,
        tokens=series.total("tgi_request_generated_tokens_sum"),
        rounds=rounds,
        accepted=series.total(f"{_SKIPPED}_sum"),
    )


def _facts(probe: Probe) -> Mapping[str, str]:
    info = probe.object("/info")
    names = ("model_id", "model_sha", "sha")
    return {name: str(info[name]) for name in names if info.get(name)}


def _weights(probe: Probe, _: str) -> Mapping[str, str]:
    info = probe.object("/info")
    names = {"model": "model_id", "sha": "model_sha", "dtype": "model_dtype"}
    return {name: str(info[key]) for name, key in names.items() if info.get(key)}


TGI = Dialect(
    name="tgi",
    shown="TGI",
    recognises=_recognises,
    version=_version,
    hint="TGI tells no drafted tokens: gate acceptance_length",
    offers=frozenset({"logprobs"}),
    metrics="/metrics",
    tally=_tally,
    facts=_facts,
    weights=_weights,
)
