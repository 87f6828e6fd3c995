"""What a target of the zoo thinks of a text: its own network, and what its verifier and processors make of scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.verifier import Verifier
from pytest_specgate.logits import Scores

#: Barred tokens are said to lie so low: a logit has to be a number.
LOWEST = -1e4


def scored(network: Network, verifier: Verifier, job: Job, text: Sequence[int], width: int | None) -> Scores:
    """The text as an answer to the job, ``width`` tokens a forward (None: all at once)."""
    output = torch.tensor(text)
    row = Row(0, job, list(job.prompt))
    with torch.inference_mode():
        raw = _raw(network, job.prompt, text, width or len(text))
        if adapted := getattr(verifier, "adapted", None):
            raw = adapted(raw, [row])
        shaped = Chooser([row], raw.device).shaped(raw, output[None, :-1])[0].clamp(min=LOWEST)
    top = shaped.topk(2, dim=-1)
    emitted = shaped.gather(-1, output[:, None])[:, 0]
    best, second = top.values.double().unbind(-1)
    return Scores(
        tuple(best.tolist()), tuple(top.indices[:, 0].tolist()), tuple(second.tolist()), tuple(emitted.tolist())
    )


def _raw(network: Network, prompt: Sequence[int], text: Sequence[int], width: int) -> Tensor:
    network.reserve(1, len(prompt) + len(text) + 1)
    parts = [network.prefill(prompt, 0)]
    for at in range(0, len(text) - 1, width):
        block = torch.tensor([text[at : min(at + width, len(text) - 1)]])
        parts.append(network.forward(block, Span((len(prompt) + at,), block.shape[1])))
    return torch.cat(parts, dim=1)
