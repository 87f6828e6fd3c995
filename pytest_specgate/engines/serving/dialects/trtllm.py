"""TensorRT-LLM (``trtllm-serve``): drafted and accepted tokens from counters.

Names as of 1.2 (tensorrt_llm/metrics/collector.py): ``trtllm_spec_decode_num_draft_tokens_total`` and
``_num_accepted_tokens_total`` on ``/prometheus/metrics``. Rounds are told nowhere, so they follow from the output's
length. Not tried live.
"""

from __future__ import annotations

from pytest_specgate.engines.serving.dialects.base import Dialect, Probe, version_page
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.tally import Tally

_PAGE = "/prometheus/metrics"


def _recognises(probe: Probe) -> bool:
    return "tensorrt_llm" in probe.owners or "trtllm_" in probe.text(_PAGE)


def _tally(page: str) -> Tally:
    series = parse(page)
    return Tally(
        requests=series.total("trtllm_request_success_total"),
        tokens=series.total("trtllm_generation_tokens_total"),
        drafted=series.total("trtllm_spec_decode_num_draft_tokens_total"),
        accepted=series.total("trtllm_spec_decode_num_accepted_tokens_total"),
    )


TRTLLM = Dialect(
    name="trtllm",
    shown="TensorRT-LLM",
    recognises=_recognises,
    version=version_page,
    hint="start trtllm-serve with return_perf_metrics: true, so that it has /prometheus/metrics",
    keys={
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "min_tokens": "min_tokens",
        "stop_ids": "stop_token_ids",
        "ignore_eos": "ignore_eos",
    },
    off={"top_k": 0, "min_p": 0.0},
    metrics=_PAGE,
    tally=_tally,
)
