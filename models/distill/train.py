"""Distil the draft: a two-layer Llama that starts from the target's own embeddings and learns its opinions.

The 49k-row output head decides a small draft's cost, so hidden size is what is chosen first; the embeddings start from
the best rank-``hidden`` approximation of the target's (SVD) and are tied to the head. The loss is cross-entropy against
the target's soft top labels over a sampled vocabulary: the batch's own tokens, the commonest ones and some at random
(the full softmax would be nine tenths of the work). A moving average of the weights is what is kept, whenever greedy
agreement on held-out prompts improves.

    python models/distill/train.py --target DIR --out models/smollm2-draft soft.npz [...]
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

HELD_OUT_ROWS = 120


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result; written into training.json."""

    hidden: int = 160
    layers: int = 2
    heads: int = 5
    intermediate: int = 768
    epochs: float = 12.0
    batch_rows: int = 24
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.05
    labels: int = 6
    common_tokens: int = 4096
    random_tokens: int = 512
    average: float = 0.998
    seed: int = 0


@dataclass(frozen=True)
class Corpus:
    """Taught rows: flat arrays and where each row starts."""

    tokens: np.ndarray
    top_ids: np.ndarray
    top_log_probs: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    prompt_lengths: np.ndarray
    greedy: np.ndarray
    dropped: int


def load(paths: list[Path]) -> Corpus:
    """All files as one corpus."""
    parts = [np.load(path) for path in paths]
    joined = {
        key: np.concatenate([part[key] for part in parts])
        for key in ("tokens", "lengths", "prompt_lengths", "greedy", "top_ids", "top_log_probs")
    }
    starts = np.concatenate([[0], np.cumsum(joined["lengths"])[:-1]])
    return Corpus(starts=starts, dropped=int(sum(int(part["dropped"]) for part in parts)), **joined)


def new_draft(target, settings: Settings) -> LlamaForCausalLM:
    """A small Llama with the target's vocabulary, rotary base and special tokens, embeddings by SVD."""
    config = LlamaConfig(
        vocab_size=target.config.vocab_size,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        intermediate_size=settings.intermediate,
        max_position_embeddings=target.config.max_position_embeddings,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=target.config.bos_token_id,
        eos_token_id=target.config.eos_token_id,
        pad_token_id=target.config.pad_token_id,
        rope_parameters=target.config.rope_parameters,
    )
    draft = LlamaForCausalLM(config).float()
    embeddings = target.get_input_embeddings().weight.float()
    left, values, _ = torch.svd_lowrank(embeddings - embeddings.mean(0), q=settings.hidden, niter=4)
    start = left * values
    draft.get_input_embeddings().weight.data.copy_(start * (0.05 / start.std()))
    return draft


def rows_to_batch(corpus: Corpus, rows: np.ndarray, labels: int) -> dict[str, torch.Tensor]:
    """Padded inputs [b, n] and, for every position with a successor inside the row, the target's opinion of it."""
    width = int(corpus.lengths[rows].max())
    inputs = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=bool)
    flat = []
    for i, row in enumerate(rows):
        span = slice(corpus.starts[row], corpus.starts[row] + corpus.lengths[row])
        inputs[i, : corpus.lengths[row]] = corpus.tokens[span]
        # The template's fixed head says nothing; the invented turn and the answer are the target's own words.
        mask[i, 24 : corpus.lengths[row] - 1] = True
        flat.append(np.arange(span.start + 24, span.stop - 1))
    positions = np.concatenate(flat)
    return {
        "inputs": torch.from_numpy(inputs),
        "mask": torch.from_numpy(mask),
        "ids": torch.from_numpy(corpus.top_ids[positions, :labels].astype(np.int64)),
        "probs": torch.from_numpy(corpus.top_log_probs[positions, :labels]).float().exp(),
    }


def soft_loss(draft, batch: dict[str, torch.Tensor], vocabulary: torch.Tensor) -> torch.Tensor:
    """Cross-entropy against the soft labels, softmax over ``vocabulary`` (which holds every label of the batch)."""
    with torch.autocast(batch["inputs"].device.type, torch.bfloat16):
        states = draft.model(input_ids=batch["inputs"]).last_hidden_state[batch["mask"]]
        logits = states @ draft.lm_head.weight[vocabulary].T
    logits = logits.float()
    place = torch.searchsorted(vocabulary, batch["ids"])
    wanted = batch["probs"] / batch["probs"].sum(-1, keepdim=True)
    return (torch.logsumexp(logits, -1) - (logits.gather(1, place) * wanted).sum(-1)).mean()


@torch.inference_mode()
def agreement(draft, corpus: Corpus, rows: np.ndarray) -> float:
    """Share of answer positions of greedy rows where the draft's first choice is the target's."""
    hits = total = 0
    for row in rows:
        span = slice(corpus.starts[row], corpus.starts[row] + corpus.lengths[row])
        tokens = torch.from_numpy(corpus.tokens[span].astype(np.int64))[None]
        answer = slice(int(corpus.prompt_lengths[row]) - 1, tokens.shape[1] - 1)
        states = draft.model(input_ids=tokens).last_hidden_state[0, answer]
        best = draft.lm_head(states).argmax(-1)
        hits += int((best == torch.from_numpy(corpus.top_ids[span][answer, 0].astype(np.int64))).sum())
        total += best.numel()
    return hits / max(total, 1)


def vocabulary_for(batch: dict[str, torch.Tensor], common: torch.Tensor, size: int, count: int) -> torch.Tensor:
    """Sorted token ids that the batch's softmax runs over."""
    extra = torch.randint(size, (count,))
    return torch.unique(torch.cat([batch["ids"].flatten(), common, extra]))


def train(target, corpus: Corpus, settings: Settings, out: Path, minutes: float, start: Path | None = None) -> float:
    """Train, saving the best averaged weights; returns their held-out agreement. ``start`` is an earlier draft."""
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    order = rng.permutation(len(corpus.lengths))
    greedy_rows = order[corpus.greedy[order]]
    held_out = greedy_rows[:HELD_OUT_ROWS]
    training = np.setdiff1d(order, held_out)
    draft = LlamaForCausalLM.from_pretrained(start, dtype=torch.float32) if start else new_draft(target, settings)
    averaged = copy.deepcopy(draft)
    optimiser = torch.optim.AdamW(
        draft.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay
    )
    steps = int(settings.epochs * len(training) / settings.batch_rows)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.learning_rate, total_steps=steps + 1, pct_start=0.05
    )
    counts = np.bincount(corpus.top_ids[:, 0], minlength=target.config.vocab_size)
    common = torch.from_numpy(np.argsort(-counts)[: settings.common_tokens].copy())
    best, started, queue = 0.0, time.monotonic(), np.array([], dtype=int)
    for step in range(1, steps + 1):
        if len(queue) < settings.batch_rows:
            queue = np.concatenate([queue, rng.permutation(training)])
        rows, queue = queue[: settings.batch_rows], queue[settings.batch_rows :]
        batch = rows_to_batch(corpus, rows, settings.labels)
        vocabulary = vocabulary_for(batch, common, target.config.vocab_size, settings.random_tokens)
        loss = soft_loss(draft, batch, vocabulary)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            keep = min(settings.average, step / (step + 10))
            for old, new in zip(averaged.parameters(), draft.parameters(), strict=True):
                old.lerp_(new, 1 - keep)
        if step % 100 == 0 or step == steps:
            score, spent = agreement(averaged, corpus, held_out), (time.monotonic() - started) / 60
            print(
                f"step {step}/{steps} loss {loss.item():.3f} held-out agreement {score:.4f} ({spent:.1f} min)",
                flush=True,
            )
            if score > best:
                best = score
                save(averaged, out)
            if spent > minutes:
                break
    return best


def save(draft, out: Path) -> None:
    """Half precision, loadable by plain transformers."""
    half = copy.deepcopy(draft).half()
    half.config.dtype = "float16"
    half.save_pretrained(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="go on from this draft instead of a new one")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this long")
    for field, default in asdict(Settings()).items():
        parser.add_argument(f"--{field.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("corpus", type=Path, nargs="+")
    args = parser.parse_args()
    settings = Settings(**{field: getattr(args, field) for field in asdict(Settings())})
    target = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.float32)
    corpus = load(args.corpus)
    score = train(target, corpus, settings, args.out, args.minutes, args.start)
    summary = {
        "settings": asdict(settings),
        "rows": len(corpus.lengths),
        "answer_tokens": int((corpus.lengths - corpus.prompt_lengths).sum()),
        "rows_dropped_for_sharing_an_8_gram_with_a_bundled_prompt": corpus.dropped,
        "held_out_greedy_agreement": round(score, 4),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (args.out / "training.json").write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
