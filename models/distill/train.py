"""Distil the draft: a small Llama that starts from the target's own embeddings and learns its opinions.

The 49k-row output head decides a small draft's cost, so hidden size is what is chosen first; the embeddings start from
the best rank-``hidden`` approximation of the target's (SVD) and are tied to the head. The loss is cross-entropy against
the target's likeliest tokens over a sampled vocabulary: the batch's own labels, the commonest ones and some at random
(the full softmax would be nine tenths of the work). A moving average of the weights is what is kept, whenever greedy
agreement on held-out conversations improves. Conversations are packed into longer rows, and rows that only copy are
mixed in. A run goes on from any draft by ``--start``, with more layers if wished; training.json then tells of all.

    python models/distill/train.py --out models/smollm2-draft --held-out held/*.npz --corpus corpus/*.npz
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
import transformers
from copies import copy_row
from corpus import LABELS, Corpus, Origin, bundled_ngrams, join, load, without_overlap
from draft import Shape, grown, new_draft, save
from target import folder_of
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

PROMPTS = Path(__file__).parents[2] / "suites" / "prompts"
#: How much a place counts in the loss, by who chose the token after it.
WEIGHTS = {Origin.GIVEN: 0.25, Origin.USER: 0.5, Origin.SAMPLED: 1.0, Origin.GREEDY: 1.0, Origin.COPY: 0.5}


@dataclass(frozen=True)
class Settings(Shape):
    """Everything that decides the result; written into training.json."""

    epochs: float = 8.0
    batch_rows: int = 16
    learning_rate: float = 3e-3
    embedding_rate: float = 1.0
    """Learning rate of the embeddings, as a share of the others'."""
    weight_decay: float = 0.1
    labels: int = 6
    packed: int = 2
    """Conversations in a row, so that long reaches are met."""
    copy_rows: int = 16
    """Rows of a batch that only copy, beside ``batch_rows`` conversations."""
    copy_tokens: int = 96
    """Longest run copied."""
    common_tokens: int = 4096
    random_tokens: int = 512
    average: float = 0.998
    check_every: int = 200
    seed: int = 0


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


def batch_of(corpus: Corpus, labels: int) -> Batch:
    """All rows of a small corpus as one batch."""
    width = int(corpus.lengths.max())
    inputs = np.zeros((len(corpus.lengths), width), dtype=np.int64)
    mask = np.zeros(inputs.shape, dtype=bool)
    places = []
    for i, (start, length) in enumerate(zip(corpus.starts, corpus.lengths, strict=True)):
        span = np.arange(start, start + length)
        inputs[i, : len(span)] = corpus.tokens[span]
        known = corpus.top_ids[span].any(-1)
        # After a row's last token nothing was said.
        known[-1] = False
        mask[i, : len(span)] = known
        places.append(span[known])
    flat = np.concatenate(places)
    probs = torch.from_numpy(corpus.top_log_probs[flat, :labels]).float().exp()
    weights = np.array([WEIGHTS[origin] for origin in Origin], dtype=np.float32)
    return Batch(
        torch.from_numpy(inputs),
        torch.from_numpy(mask),
        torch.from_numpy(corpus.top_ids[flat, :labels].astype(np.int64)),
        probs / probs.sum(-1, keepdim=True),
        torch.from_numpy(weights[corpus.origins[flat + 1]]),
    )


def soft_loss(draft: LlamaForCausalLM, batch: Batch, vocabulary: Tensor) -> Tensor:
    """Weighted cross-entropy with the labels, softmax over ``vocabulary`` (sorted, holding every label)."""
    with torch.autocast(batch.inputs.device.type, torch.bfloat16):
        states = draft.model(input_ids=batch.inputs).last_hidden_state[batch.mask]
        logits = states @ draft.lm_head.weight[vocabulary].T
    logits = logits.float()
    place = torch.searchsorted(vocabulary, batch.ids)
    losses = torch.logsumexp(logits, -1) - (logits.gather(1, place) * batch.probs).sum(-1)
    return (losses * batch.weights).sum() / batch.weights.sum()


def vocabulary_for(batch: Batch, common: Tensor, size: int, count: int) -> Tensor:
    """Sorted ids that the batch's softmax runs over: its labels, ``common`` and ``count`` of ``size`` at random."""
    extra = torch.randint(size, (count,), device=common.device)
    return torch.unique(torch.cat([batch.ids.flatten(), common, extra]))


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


def shuffled(rows: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Row numbers, ``size`` at a time, every row once before any comes again."""
    queue = np.array([], dtype=np.int64)
    while True:
        while len(queue) < size:
            queue = np.concatenate([queue, rng.permutation(rows)])
        yield queue[:size]
        queue = queue[size:]


class Trainer:
    """The draft, its moving average and its optimiser; ``step`` takes a batch."""

    def __init__(self, draft: LlamaForCausalLM, settings: Settings, corpus: Corpus) -> None:
        self.draft, self.averaged, self.done = draft, copy.deepcopy(draft), 0
        self.steps = int(settings.epochs * len(corpus.lengths) / settings.batch_rows)
        self._settings = settings
        counts = np.bincount(corpus.top_ids[:, 0], minlength=draft.config.vocab_size)
        commonest = torch.from_numpy(np.argsort(-counts)[: settings.common_tokens].copy())
        self._common = commonest.to(draft.device)
        embedding = draft.get_input_embeddings().weight
        others = [parameter for parameter in draft.parameters() if parameter is not embedding]
        rates = [settings.learning_rate, settings.learning_rate * settings.embedding_rate]
        groups = [{"params": others, "lr": rates[0]}, {"params": [embedding], "lr": rates[1]}]
        self._optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=settings.weight_decay)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, rates, total_steps=self.steps + 1, pct_start=0.05
        )

    def step(self, batch: Batch) -> float:
        """One update; returns the loss."""
        size, batch = self.draft.config.vocab_size, batch.to(self.draft.device)
        vocabulary = vocabulary_for(batch, self._common, size, self._settings.random_tokens)
        loss = soft_loss(self.draft, batch, vocabulary)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), 1.0)
        self._optimiser.step()
        self._schedule.step()
        self.done += 1
        self._average()
        return loss.item()

    @torch.no_grad()
    def _average(self) -> None:
        # Early on a long memory would hold on to the untrained weights.
        keep = min(self._settings.average, self.done / (self.done + 10))
        for old, new in zip(self.averaged.parameters(), self.draft.parameters(), strict=True):
            old.lerp_(new, 1 - keep)


def train(trainer: Trainer, corpus: Corpus, held_out: Corpus, settings: Settings, out: Path) -> Iterator[float]:
    """Train to the end, saving the averaged weights whenever they are better; yields each new best agreement."""
    rng = np.random.default_rng(settings.seed)
    best, started = 0.0, time.monotonic()
    batches = shuffled(len(corpus.lengths), settings.batch_rows, rng)
    while trainer.done < trainer.steps:
        rows = [corpus.select(next(batches)).packed(settings.packed)]
        rows += [copy_row(corpus.tokens, settings.copy_tokens, rng) for _ in range(settings.copy_rows)]
        loss = trainer.step(batch_of(join(rows), settings.labels))
        if trainer.done % settings.check_every and trainer.done < trainer.steps:
            continue
        score, minutes = agreement(trainer.averaged, held_out), (time.monotonic() - started) / 60
        print(f"step {trainer.done}/{trainer.steps} loss {loss:.3f} ", end="")
        print(f"held-out agreement {score:.4f} ({minutes:.1f} min)", flush=True)
        if score > best:
            best = score
            save(trainer.averaged, out)
            yield best


def history(start: Path | None) -> list[dict[str, object]]:
    """What training.json tells of the draft that a run starts from, oldest run first."""
    if start is None:
        return []
    return json.loads((start / "training.json").read_text(encoding="utf-8"))["runs"]


def summary(settings: Settings, corpus: Corpus, dropped: int, step: int, score: float) -> dict[str, object]:
    """What a reader needs to judge or repeat the run."""
    return {
        "settings": asdict(settings),
        "kept_at_step": step,
        "rows": len(corpus.lengths),
        "tokens": {origin.name.lower(): int((corpus.origins == origin).sum()) for origin in Origin},
        "rows_dropped_for_sharing_an_8_gram_with_a_bundled_prompt": dropped,
        "held_out_greedy_agreement": round(score, 4),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, help="directory of the target; that of the wheel if not given")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="go on from this draft instead of a new one")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="bundled prompts, never to be trained on")
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="files that selfplay wrote")
    parser.add_argument("--held-out", type=Path, nargs="+", required=True, help="files of another run of selfplay")
    for field, default in asdict(Settings()).items():
        parser.add_argument(f"--{field.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    settings = Settings(**{field: getattr(args, field) for field in asdict(Settings())})
    if not 1 <= settings.labels <= LABELS:
        raise SystemExit(f"--labels is {settings.labels} — the corpus holds {LABELS} labels a place")
    folder = folder_of(args.target)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    corpus, dropped = without_overlap(load(args.corpus), bundled_ngrams(args.prompts), tokenizer.decode)
    print(f"{len(corpus.lengths)} rows, {dropped} dropped for sharing an 8-gram with a bundled prompt", flush=True)
    torch.manual_seed(settings.seed)
    if args.start:
        draft = grown(args.start, settings.layers)
    else:
        draft = new_draft(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), settings)
    trainer, earlier = Trainer(draft.to(args.device), settings, corpus), history(args.start)
    for score in train(trainer, corpus, load(args.held_out), settings, args.out):
        report = {"runs": [*earlier, summary(settings, corpus, dropped, trainer.done, score)]}
        (args.out / "training.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
