"""Data for distillation: the target invents user turns and answers them, and tells what else it might have said.

Every token comes with the target's likeliest alternatives, which say far more than the token that was drawn. Rows go
to ``corpus/NNNN.npz`` (see ``corpus``), a file whenever enough conversations are over; an interrupted run goes on after
its last file.

    python models/distill/selfplay.py --out corpus --answer-tokens 1000000
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from corpus import LABELS, Corpus, Origin, join, load
from disguise import Disguise
from script import Conversation, Template, Writer, template_of
from slots import Slots
from target import folder_of
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

CAPACITY = 448
CANDIDATES = 64
FILE_ROWS = 96


@dataclass(frozen=True)
class Opinion:
    """What the target thinks of the next token of every stream."""

    choices: list[int]
    ids: np.ndarray
    """uint16 [streams, LABELS]."""
    log_probs: np.ndarray
    """float16 [streams, LABELS]."""


def opinion(logits: Tensor, temperatures: Tensor) -> Opinion:
    """Choices, one per row: the likeliest token at temperature 0, else drawn from the likeliest ``CANDIDATES``."""
    logits = logits.float()
    top = logits.topk(CANDIDATES)
    log_probs = top.values - logits.logsumexp(-1, keepdim=True)
    # Adding Gumbel noise and taking the largest is drawing from the softmax; no noise is greedy.
    noise = -torch.empty_like(log_probs).exponential_().log()
    places = (log_probs + noise * temperatures[:, None]).argmax(-1, keepdim=True)
    choices = top.indices.gather(1, places)[:, 0].tolist()
    ids = top.indices[:, :LABELS].to("cpu", torch.int32).numpy().astype(np.uint16)
    return Opinion(choices, ids, log_probs[:, :LABELS].half().cpu().numpy())


@dataclass
class Seat:
    """A slot's conversation and the opinions gathered on it: the first is of what follows the template's head."""

    conversation: Conversation
    ids: list[np.ndarray] = field(default_factory=list)
    log_probs: list[np.ndarray] = field(default_factory=list)

    def row(self) -> Corpus | None:
        """The conversation as a corpus of one row; None if it came to no answer."""
        length, head = self.conversation.kept, len(self.conversation.head)
        if not length:
            return None
        ids, log_probs = np.zeros((length, LABELS), np.uint16), np.zeros((length, LABELS), np.float16)
        ids[head - 1 : length - 1] = self.ids[: length - head]
        log_probs[head - 1 : length - 1] = self.log_probs[: length - head]
        tokens = np.array(self.conversation.tokens[:length], np.uint16)
        origins = np.array(self.conversation.origins[:length], np.uint8)
        return Corpus(tokens, origins, ids, log_probs, np.array([length], np.int32))


class Play:
    """Conversations in all slots at once; an endless source of rows."""

    def __init__(self, slots: Slots, writer: Writer, template: Template) -> None:
        self._slots, self._writer, self._template = slots, writer, template
        self._seats = [self._seat() for _ in range(slots.size)]

    def __iter__(self) -> Iterator[Corpus]:
        tokens = [self._template.head[-1]] * self._slots.size
        while True:
            logits = self._slots.step(torch.tensor(tokens, device=self._slots.device))
            temperatures = torch.tensor(
                [seat.conversation.temperature for seat in self._seats], device=self._slots.device
            )
            thought = opinion(logits, temperatures)
            for slot in range(self._slots.size):
                tokens[slot] = self._advance(slot, thought)
                if self._seats[slot].conversation.over:
                    yield from self._replace(slot)
                    tokens[slot] = self._template.head[-1]

    def _seat(self) -> Seat:
        return Seat(Conversation(self._template, self._writer.script(), CAPACITY))

    def _advance(self, slot: int, thought: Opinion) -> int:
        seat = self._seats[slot]
        seat.ids.append(thought.ids[slot])
        seat.log_probs.append(thought.log_probs[slot])
        return seat.conversation.advance(thought.choices[slot])

    def _replace(self, slot: int) -> list[Corpus]:
        seat = self._seats[slot]
        for answer in seat.conversation.answers:
            self._writer.remember(answer)
        self._seats[slot] = self._seat()
        self._slots.restart(slot)
        row = seat.row()
        return [] if row is None else [row]


def answer_tokens(corpus: Corpus) -> int:
    """Tokens that the target said as an answer."""
    return int(np.isin(corpus.origins, (Origin.SAMPLED, Origin.GREEDY)).sum())


def write_files(rows: Iterator[Corpus], out: Path, wanted: int) -> None:
    """Write file after file until ``wanted`` answer tokens are there, those of earlier runs included."""
    files = sorted(out.glob("[0-9]*.npz"))
    done = answer_tokens(load(files)) if files else 0
    first, started = done, time.monotonic()
    for number in itertools.count(len(files)):
        if done >= wanted:
            return
        corpus = join(itertools.islice(rows, FILE_ROWS))
        corpus.save(out / f"{number:04}.npz")
        done += answer_tokens(corpus)
        rate = (done - first) / (time.monotonic() - started)
        print(f"{done} of {wanted} answer tokens, {rate:.0f}/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, help="directory of the target; that of the wheel if not given")
    parser.add_argument("--out", type=Path, required=True, help="directory to write files to")
    parser.add_argument("--answer-tokens", type=int, default=1_000_000)
    parser.add_argument("--slots", type=int, default=192)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    folder = folder_of(args.target)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(args.device).eval()
    # A run that goes on must not repeat what the first one said.
    rng = random.Random(f"{args.seed}:{len(list(args.out.glob('[0-9]*.npz')))}")
    torch.manual_seed(rng.randrange(2**31))
    template = template_of(tokenizer)
    disguise = Disguise(tokenizer.decode, len(tokenizer))
    writer = Writer(template, partial(tokenizer.encode, add_special_tokens=False), rng, disguise)
    slots = Slots(model, args.slots, CAPACITY, list(template.head[:-1]))
    write_files(iter(Play(slots, writer, template)), args.out, args.answer_tokens)


if __name__ == "__main__":
    main()
