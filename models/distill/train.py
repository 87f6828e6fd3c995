"""Distil the draft: a small Llama that starts from the target's own embeddings and learns its opinions.

The 49k-row output head decides a small draft's cost, so hidden size is what is chosen first; the embeddings start from
an approximation of the target's (SVD), are tied to the head, and come with heads that look back (see ``circuit``). The
loss is cross-entropy against the target's likeliest tokens, sharpened, over a sampled vocabulary: the batch's own
labels, the commonest ones and some at random that stand for all others (the full softmax would be nine tenths of the
work). Matrices are trained by Muon, the rest by AdamW; the rate stays high and then falls to nothing. Rows that only
copy are mixed in, mostly so at first. A run that was interrupted goes on from its checkpoint.

    python models/distill/train.py --out models/smollm2-draft --held-out held --corpus corpus
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from copies import copy_row
from corpus import LABELS, Corpus, Origin, bundled_ngrams, join, load, without_overlap
from draft import Shape, new_draft, save
from loss import Batch, agreement, batch_of, soft_loss, vocabulary_for
from target import folder_of
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

PROMPTS = Path(__file__).parents[2] / "suites" / "prompts"
#: Rows among which similar lengths are sought.
POOL = 512


@dataclass(frozen=True)
class Settings(Shape):
    """Everything that decides the result; written into training.json."""

    steps: int = 3500
    batch_tokens: int = 4096
    """Tokens of a batch, padding included; its rows are of similar length."""
    matrix_rate: float = 6e-3
    """Learning rate of the matrices (Muon)."""
    rate: float = 3e-3
    """Learning rate of embeddings and norms (AdamW)."""
    weight_decay: float = 0.05
    warm_up: int = 100
    """Steps in which the rates rise."""
    decay: float = 0.28
    """Share of the steps, at the end, in which they fall."""
    labels: int = 4
    sharpness: float = 1.5
    """The target's probabilities are raised to this power: which token is first counts more than by how much."""
    copy_first: int = 100
    """Steps at the beginning in which three quarters of a batch only copy; later it is ``copy_share``."""
    copy_share: float = 0.2
    common_tokens: int = 2048
    random_tokens: int = 512
    average: float = 0.99
    check_every: int = 50
    seed: int = 0


def batches(corpus: Corpus, tokens: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Row numbers of one batch after another: similar lengths together, every row once before any comes again."""
    while True:
        order = rng.permutation(len(corpus.lengths))
        for start in range(0, len(order), POOL):
            pool = order[start : start + POOL]
            pool = pool[np.argsort(corpus.lengths[pool], kind="stable")]
            groups, first = [], 0
            for end in range(1, len(pool) + 1):
                if end == len(pool) or corpus.lengths[pool[end]] * (end + 1 - first) > tokens:
                    groups.append(pool[first:end])
                    first = end
            yield from (groups[i] for i in rng.permutation(len(groups)))


def mixed(corpus: Corpus, rows: np.ndarray, share: float, rng: np.random.Generator) -> Corpus:
    """The rows, of which about ``share`` give way to rows that copy."""
    width, count = int(corpus.lengths[rows].max()), rng.binomial(len(rows), share)
    kept = corpus.select(rng.permutation(rows)[count:])
    return join([kept, *(copy_row(corpus.tokens, max(width // 5, 16), rng) for _ in range(count))])


class Trainer:
    """The draft, its moving average and its optimisers; ``step`` takes a batch."""

    def __init__(self, draft: LlamaForCausalLM, settings: Settings, corpus: Corpus) -> None:
        self.draft, self.averaged, self.done = draft, copy.deepcopy(draft), 0
        self.best = 0.0
        """Held-out agreement of what was saved last."""
        self._settings = settings
        counts = np.bincount(corpus.top_ids[:, 0], minlength=draft.config.vocab_size)
        commonest = torch.from_numpy(np.argsort(-counts)[: settings.common_tokens].copy())
        self._common = commonest.to(draft.device)
        embedding = draft.get_input_embeddings().weight
        matrices = [p for p in draft.parameters() if p.ndim == 2 and p is not embedding]
        others = [embedding, *(p for p in draft.parameters() if p.ndim == 1)]
        self._optimisers = (
            torch.optim.Muon(matrices, settings.matrix_rate, settings.weight_decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, settings.rate, (0.9, 0.98), weight_decay=settings.weight_decay, fused=True),
        )

    def step(self, batch: Batch) -> float:
        """One update; returns the loss."""
        size, batch = self.draft.config.vocab_size, batch.to(self.draft.device)
        vocabulary = vocabulary_for(batch, self._common, size, self._settings.random_tokens)
        loss = soft_loss(self.draft, batch, vocabulary)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), 1.0)
        scale = rate_at(self.done, self._settings)
        for optimiser, rate in zip(self._optimisers, (self._settings.matrix_rate, self._settings.rate), strict=True):
            optimiser.param_groups[0]["lr"] = rate * scale
            optimiser.step()
            optimiser.zero_grad()
        self.done += 1
        self._average()
        return loss.item()

    @torch.no_grad()
    def _average(self) -> None:
        # Early on a long memory would hold on to the untrained weights.
        keep = min(self._settings.average, self.done / (self.done + 10))
        torch._foreach_lerp_(list(self.averaged.parameters()), list(self.draft.parameters()), 1 - keep)

    def state(self) -> dict[str, object]:
        """All that is needed to go on."""
        parts = (self.draft, self.averaged, *self._optimisers)
        return {"done": self.done, "best": self.best, "parts": [part.state_dict() for part in parts]}

    def resume(self, state: dict[str, object]) -> None:
        """Go on from ``state``."""
        self.done, self.best = state["done"], state.get("best", 0.0)
        for part, kept in zip((self.draft, self.averaged, *self._optimisers), state["parts"], strict=True):
            part.load_state_dict(kept)


def rate_at(step: int, settings: Settings) -> float:
    """Share of the full learning rate: up, level, and down to nothing."""
    down = (settings.steps - step) / max(settings.decay * settings.steps, 1)
    return min(1.0, (step + 1) / max(settings.warm_up, 1), down)


def train(trainer: Trainer, corpus: Corpus, held_out: Corpus, settings: Settings, out: Path) -> Iterator[float]:
    """Train to the end; now and then looks at the averaged weights, saves the best, yields held-out agreement."""
    # Rows are drawn anew where a run goes on, as their number may have changed.
    rng = np.random.default_rng((settings.seed, trainer.done))
    torch.manual_seed(settings.seed + trainer.done)
    rows, started, losses = batches(corpus, settings.batch_tokens, rng), time.monotonic(), []
    while trainer.done < settings.steps:
        share = 0.75 if trainer.done < settings.copy_first else settings.copy_share
        batch = batch_of(mixed(corpus, next(rows), share, rng), settings.labels, settings.sharpness)
        losses.append(trainer.step(batch))
        if trainer.done % settings.check_every and trainer.done < settings.steps:
            continue
        score, minutes = agreement(trainer.averaged, held_out), (time.monotonic() - started) / 60
        print(f"step {trainer.done}/{settings.steps} loss {np.mean(losses):.3f} ", end="")
        print(f"held-out agreement {score:.4f} ({minutes:.1f} min)", flush=True)
        losses = []
        if score > trainer.best:
            trainer.best = score
            save(trainer.averaged, out)
        yield score


def files(folders: list[Path]) -> list[Path]:
    """What selfplay wrote into the folders, in order."""
    return [path for folder in folders for path in sorted(folder.glob("[0-9]*.npz"))]


def keep(state: dict[str, object], path: Path) -> None:
    """Write a checkpoint; it appears whole or not at all."""
    unfinished = path.with_name(f"unfinished-{path.name}")
    torch.save(state, unfinished)
    unfinished.replace(path)


def summary(settings: Settings, corpus: Corpus, dropped: int, step: int, score: float) -> dict[str, object]:
    """What a reader needs to judge or repeat the run."""
    return {
        "settings": asdict(settings),
        "saved_at_step": step,
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
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="bundled prompts, never to be trained on")
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="folders that selfplay wrote")
    parser.add_argument("--held-out", type=Path, nargs="+", required=True, help="folders of another run")
    parser.add_argument("--checkpoint", type=Path, help="kept here now and then, and gone on from if it is there")
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
    corpus, dropped = without_overlap(load(files(args.corpus)), bundled_ngrams(args.prompts), tokenizer.decode)
    print(f"{len(corpus.lengths)} rows, {dropped} dropped for sharing an 8-gram with a bundled prompt", flush=True)
    torch.manual_seed(settings.seed)
    draft = new_draft(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), settings)
    trainer = Trainer(draft.to(args.device), settings, corpus)
    if args.checkpoint and args.checkpoint.exists():
        trainer.resume(torch.load(args.checkpoint, map_location=args.device))
        print(f"goes on at step {trainer.done}", flush=True)
    for score in train(trainer, corpus, load(files(args.held_out)), settings, args.out):
        if args.checkpoint:
            keep(trainer.state(), args.checkpoint)
        if score == trainer.best:
            report = summary(settings, corpus, dropped, trainer.done, score)
            (args.out / "training.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
