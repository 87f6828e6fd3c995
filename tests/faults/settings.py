"""What an entry is run on: a suite of few prompts, and the gates of its family with the demands of everyday suites.

No demand depends on the entry: what guards one fault of a family guards all of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests import tiny
from tests.faults import models

Gates = tuple[Mapping[str, Any], ...]

BOOKKEEPING: Gates = (
    {"metric": "token_accounting", "limit": "==100%"},
    {"metric": "length_ratio", "limit": "0.95x..1.05x"},
)
ACCEPTANCE: Gates = (
    {"metric": "conditional_acceptance", "max_drop": "0.02", "max_rise": "0.02"},
    {"metric": "acceptance_length", "max_drop": "5%"},
    {"metric": "acceptance_rate", "max_drop": "0.02"},
)
GREEDY: Gates = ({"metric": "greedy_exactness", "limit": "==100%"}, *BOOKKEEPING, *ACCEPTANCE)
SPEED: Gates = (
    {"metric": "speedup", "limit": ">=1x", "max_drop": "5%"},
    {"metric": "ttft", "max_rise": "10%"},
    {"metric": "tpot", "max_rise": "10%"},
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A suite in a few numbers; ``words`` are the shortest and longest prompt, ``twin`` drafts with the target.

    The last two are more keys of the candidate and of the scenario.
    """

    name: str
    gates: Gates = GREEDY
    kind: str = "llama"
    dtype: str = "float64"
    k: int = 4
    prompts: int = 8
    words: tuple[int, int] = (2, 14)
    max_tokens: int = 38
    concurrency: int = 8
    rounds: int = 1
    lookup: bool = False
    twin: bool = False
    candidate: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    engine: str = "tests.faults.engine:Zoo"
    scenario: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def write(self, folder: Path, made: Path, options: Mapping[str, Any]) -> Path:
        """The suite for an engine of these options, in a folder of its own."""
        seed = int(options["seed"])
        scenario = {
            "category": "qa",
            "prompts": "prompts.jsonl",
            "max_tokens": self.max_tokens,
            "concurrency": [self.concurrency],
            **self.scenario,
        }
        suite = {
            "specgate": 1,
            "engines": {"zoo": {"kind": self.engine, "options": dict(options), **self._models(made, seed)}},
            "scenarios": {self.name: scenario},
            "measure": {"rounds": self.rounds, "warmup": 1, "costs": False},
            "gates": [dict(gate) for gate in self.gates],
        }
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": f"p{n:02d}", "turns": [text]}) for n, text in enumerate(self._texts(seed))]
        (folder / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
        path = folder / f"{self.name}.specgate.yaml"
        path.write_text(json.dumps(suite), encoding="utf-8")
        return path

    def _models(self, made: Path, seed: int) -> Mapping[str, Any]:
        """What an engine with models is told of them; the other kind has none."""
        if not self.kind:
            return {}
        target, draft = models.saved(made, self.kind, seed)
        drafting = {"method": "draft_model", "draft": str(target if self.twin else draft)}
        candidate = {"method": "prompt_lookup"} if self.lookup else drafting
        return {
            "target": str(target),
            "dtype": self.dtype,
            "device": "cpu",
            "threads": 1,
            "candidate": {**candidate, **self.candidate, "num_draft_tokens": self.k},
        }

    def _texts(self, seed: int) -> list[str]:
        source, known = random.Random(seed), tiny.ROWS - len(tiny.SPECIAL) - len(tiny.WORDS)
        words = [*tiny.WORDS, *(f"w{n}" for n in range(known))]
        lengths = [source.randint(*self.words) for _ in range(self.prompts)]
        return [" ".join(source.choices(words, k=length)) for length in lengths]


#: Greedy, eight texts side by side.
PLAIN = Setting("plain")
#: No token ends a text, so that all of them come to the end of their budget.
ENDLESS = replace(PLAIN, name="endless", kind="endless")
TIMED = Setting("timed", SPEED, prompts=8, concurrency=4, rounds=8, max_tokens=24)
AT_32 = Setting("at-32", SPEED, prompts=32, concurrency=32, rounds=4, max_tokens=24)
#: Greedy texts of a table repeat themselves soon, which is what copying is for.
LONG_LOOKUP = Setting(
    "long-lookup",
    SPEED,
    kind="table",
    lookup=True,
    words=(50, 60),
    concurrency=4,
    rounds=8,
    max_tokens=40,
    scenario=MappingProxyType({"ignore_eos": True}),
)
#: Drawn at a temperature and through a filter.
DRAWN = Setting(
    "drawn",
    ({"metric": "distribution_fit", "limit": "==100%"}, BOOKKEEPING[0]),
    kind="table",
    prompts=16,
    concurrency=16,
    rounds=4,
    max_tokens=64,
    scenario=MappingProxyType({"ignore_eos": True, "sampling": [{"temperature": 0.7, "top_k": 40, "seed": 1}]}),
)
DRAWN_COUNTED = replace(DRAWN, name="drawn-counted", gates=(*DRAWN.gates, *ACCEPTANCE))
#: The candidate says that it is lossy.
DECLARED = replace(DRAWN, name="declared", candidate=MappingProxyType({"lossy": {"max_tv": 0.2}}))
GROWTH: Gates = (
    {"metric": "host_memory_slope", "limit": "<=64 KiB"},
    {"metric": "kv_cache_slope", "limit": "<=64 B"},
)
#: A soak, in a process of its own.
SOAKED = Setting("soaked", GROWTH, kind="", engine="tests.faults.pooled:Pooled", concurrency=4, rounds=1)
