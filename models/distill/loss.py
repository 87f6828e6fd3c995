"""What a draft is taught by: batches of places with the target's opinions, and how far the draft is from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from corpus import Corpus, Origin
from torch import Tensor
from transformers import LlamaForCausalLM

#: How much a place counts in the loss, by who chose the token after it.
WEIGHTS = {Origin.GIVEN: 0.0, Origin.USER: 0.5, Origin.SAMPLED: 1.0, Origin.GREEDY: 1.0, Origin.COPY: 0.5}


@dataclass(frozen=True)
class Batch:
    """Padded rows, and for each of the ``n`` places with a known opinion what it was."""

    inputs: Tensor
    """int64 [rows, width]."""
    mask: Tensor
    """bool [rows, width], true at the ``n`` places."""
    ids: Tensor
    """int64 [n, labels]."""
    probs: Tensor
    """float32 [n, labels], summing to 1."""
    weights: Tensor
    """float32 [n]."""

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(*(getattr(self, field.name).to(device) for field in fields(self)))


def batch_of(corpus: Corpus, labels: int, sharpness: float = 1.0) -> Batch:
    """All rows of a small corpus as one batch."""
    weights = np.array([WEIGHTS[origin] for origin in Origin], dtype=np.float32)
    width = int(corpus.lengths.max())
    inputs = np.zeros((len(corpus.lengths), width), dtype=np.int64)
    mask = np.zeros(inputs.shape, dtype=bool)
    places = []
    for i, (start, length) in enumerate(zip(corpus.starts, corpus.lengths, strict=True)):
        span = np.arange(start, start + length)
        inputs[i, : len(span)] = corpus.tokens[span]
        known = corpus.top_ids[span].any(-1)
        known[:-1] &= weights[corpus.origins[span[1:]]] > 0
        # After a row's last token nothing was said.
        known[-1] = False
        mask[i, : len(span)] = known
        places.append(span[known])
    flat = np.concatenate(places)
    probs = (torch.from_numpy(corpus.top_log_probs[flat, :labels]).float() * sharpness).exp()
    return Batch(
        torch.from_numpy(inputs),
        torch.from_numpy(mask),
        torch.from_numpy(corpus.top_ids[flat, :labels].astype(np.int64)),
        probs / probs.sum(-1, keepdim=True),
        torch.from_numpy(weights[corpus.origins[flat + 1]]),
    )


@dataclass(frozen=True)
class Vocabulary:
    """What a batch's softmax runs over."""

    ids: Tensor
    """int64 [m]; the first ``known`` of them are sorted and hold every label, the others are drawn at random."""
    known: int
    stands_for: float
    """How many tokens each of the random ones stands for."""


def vocabulary_for(batch: Batch, common: Tensor, size: int, count: int) -> Vocabulary:
    """The batch's labels, ``common``, and about ``count`` of the other ids below ``size``."""
    known = torch.unique(torch.cat([batch.ids.flatten(), common]))
    extra = torch.unique(torch.randint(size, (count,), device=common.device))
    extra = extra[~torch.isin(extra, known)]
    return Vocabulary(torch.cat([known, extra]), len(known), max(size - len(known), 1) / max(len(extra), 1))


def soft_loss(draft: LlamaForCausalLM, batch: Batch, vocabulary: Vocabulary) -> Tensor:
    """Weighted cross-entropy with the labels, softmax over ``vocabulary``."""
    with torch.autocast(batch.inputs.device.type, torch.bfloat16):
        states = draft.model(input_ids=batch.inputs, use_cache=False).last_hidden_state[batch.mask]
        logits = states @ draft.lm_head.weight[vocabulary.ids].T
    logits = logits.float()
    logits[:, vocabulary.known :] += math.log(vocabulary.stands_for)
    place = torch.searchsorted(vocabulary.ids[: vocabulary.known], batch.ids)
    losses = torch.logsumexp(logits, -1) - (logits.gather(1, place) * batch.probs).sum(-1)
    return (losses * batch.weights).sum() / batch.weights.sum()


@torch.inference_mode()
def agreement(draft: LlamaForCausalLM, corpus: Corpus) -> float:
    """Share of the greedily chosen tokens of all rows that are the draft's first choice too."""
    hits = total = 0
    for start, length in zip(corpus.starts, corpus.lengths, strict=True):
        tokens = torch.from_numpy(corpus.tokens[start : start + length].astype(np.int64)).to(draft.device)
        greedy = torch.from_numpy(corpus.origins[start + 1 : start + length] == Origin.GREEDY)
        with torch.autocast(draft.device.type, torch.bfloat16):
            states = draft.model(input_ids=tokens[None]).last_hidden_state[0, :-1][greedy.to(draft.device)]
            best = draft.lm_head(states).argmax(-1)
        hits += int((best == tokens[1:][greedy.to(draft.device)]).sum())
        total += best.numel()
    return hits / max(total, 1)
