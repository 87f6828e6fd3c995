"""The names that gates, baselines and reports share, one definition each.

This is a table and nothing more: what a number means, in which unit it is written, and which direction is better.
How it is computed from traces stands in ``samples/``, how it is judged in ``gates/``. Names follow vLLM, SGLang,
aiperf and optimum-benchmark where they have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Unit(Enum):
    """How a value of a metric is written in a suite and printed in a table; the value itself is in SI base units."""

    RATIO = "x"
    FRACTION = "%"
    TOKENS = "tokens"
    BYTES = "B"
    SECONDS = "s"
    RATE = "tokens/s"
    SCORE = "score"
    SLOPE = "per doubling"
    REQUESTS = "requests"
    WATTS = "W"
    JOULES = "J"


class Better(Enum):
    """The direction in which a change is an improvement; NEITHER means that both are suspicious."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Family(Enum):
    """Which module of ``gates/`` judges the metric."""

    SPEEDUP = "speedup"
    LATENCY = "latency"
    ACCEPTANCE = "acceptance"
    DECAY = "decay"
    MEMORY = "memory"
    GROWTH = "growth"
    DEVICE = "device"
    SERVING = "serving"
    OUTPUT = "output"
    EXACTNESS = "exactness"
    DISTRIBUTION = "distribution"
    REQUESTS = "requests"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Metric:
    """One gateable number: its name, unit, direction, family and definition."""

    name: str
    unit: Unit
    better: Better
    family: Family
    definition: str

    @property
    def by_points(self) -> bool:
        """Whether changes are told in its own unit, as of shares, slopes and scores, and not as shares of what was."""
        return self.unit in (Unit.FRACTION, Unit.SCORE, Unit.SLOPE)


_TABLE = (
    Metric(
        "speedup",
        Unit.RATIO,
        Better.HIGHER,
        Family.SPEEDUP,
        "per prompt: time per output token, reference arm ÷ candidate arm, interleaved; geometric mean",
    ),
    Metric(
        "decode_speedup",
        Unit.RATIO,
        Better.HIGHER,
        Family.SPEEDUP,
        "speedup over the tokens after the first chunk and the time after it",
    ),
    Metric("ttft", Unit.SECONDS, Better.LOWER, Family.LATENCY, "candidate arm: submission to the first output token"),
    Metric(
        "tpot",
        Unit.SECONDS,
        Better.LOWER,
        Family.LATENCY,
        "candidate arm: (latency − ttft) ÷ (output tokens − tokens delivered with the first chunk)",
    ),
    Metric(
        "itl",
        Unit.SECONDS,
        Better.LOWER,
        Family.LATENCY,
        "candidate arm: gap between chunks ÷ tokens in the later chunk",
    ),
    Metric("e2el", Unit.SECONDS, Better.LOWER, Family.LATENCY, "candidate arm: submission to the last token"),
    Metric(
        "throughput",
        Unit.RATE,
        Better.HIGHER,
        Family.LATENCY,
        "candidate arm: output tokens per second of wall time of the measured blocks",
    ),
    Metric(
        "acceptance_rate",
        Unit.FRACTION,
        Better.HIGHER,
        Family.ACCEPTANCE,
        "Σ accepted ÷ Σ drafted; moves with the draft length",
    ),
    Metric(
        "conditional_acceptance",
        Unit.FRACTION,
        Better.HIGHER,
        Family.ACCEPTANCE,
        "Σ accepted ÷ Σ tested; the property of the model pair, free of the draft length",
    ),
    Metric(
        "acceptance_length",
        Unit.TOKENS,
        Better.HIGHER,
        Family.ACCEPTANCE,
        "1 + Σ accepted ÷ rounds, the cut round left out; plain decoding is 1.0",
    ),
    Metric(
        "acceptance_slope",
        Unit.SLOPE,
        Better.HIGHER,
        Family.DECAY,
        "change of conditional_acceptance per doubling of the context (prompt and output so far), within prompts",
    ),
    Metric(
        "vram",
        Unit.BYTES,
        Better.LOWER,
        Family.MEMORY,
        "peak device memory of the candidate arm's own process, or of all its server's on all GPUs (NVML, else the "
        "allocator's reserved peak)",
    ),
    Metric(
        "vram_ratio",
        Unit.RATIO,
        Better.LOWER,
        Family.MEMORY,
        "peak device memory: candidate arm ÷ reference arm, each in its own process",
    ),
    Metric(
        "host_memory",
        Unit.BYTES,
        Better.LOWER,
        Family.MEMORY,
        "peak resident memory of the candidate arm's own process on the host",
    ),
    Metric(
        "host_memory_ratio",
        Unit.RATIO,
        Better.LOWER,
        Family.MEMORY,
        "peak resident memory on the host: candidate arm ÷ reference arm, each in its own process",
    ),
    Metric(
        "vram_slope",
        Unit.BYTES,
        Better.LOWER,
        Family.GROWTH,
        "bytes of device memory that the candidate arm's process gains per request over a soak, after drain",
    ),
    Metric(
        "host_memory_slope",
        Unit.BYTES,
        Better.LOWER,
        Family.GROWTH,
        "bytes of resident memory that the candidate arm's process gains per request over a soak, after drain",
    ),
    Metric(
        "kv_cache_slope",
        Unit.BYTES,
        Better.LOWER,
        Family.GROWTH,
        "bytes of its cache that the candidate arm's engine holds more per request over a soak, after drain",
    ),
    Metric(
        "acceptance_wear",
        Unit.SLOPE,
        Better.HIGHER,
        Family.GROWTH,
        "change of acceptance_rate per doubling of the requests that the candidate arm has answered, over a soak",
    ),
    Metric(
        "max_batch",
        Unit.REQUESTS,
        Better.HIGHER,
        Family.MEMORY,
        "largest concurrency of the candidate arm that fits into memory, found by running it",
    ),
    Metric(
        "max_batch_ratio",
        Unit.RATIO,
        Better.HIGHER,
        Family.MEMORY,
        "largest concurrency that fits: candidate arm ÷ reference arm, the draft's price in capacity",
    ),
    Metric(
        "kv_cache_usage",
        Unit.FRACTION,
        Better.LOWER,
        Family.MEMORY,
        "candidate arm's server: share of its pool of keys and values that is taken while requests run, mean",
    ),
    Metric(
        "kv_cache_usage_p95",
        Unit.FRACTION,
        Better.LOWER,
        Family.MEMORY,
        "candidate arm's server: 95th percentile of the samples of kv_cache_usage",
    ),
    Metric(
        "kv_cache_usage_max",
        Unit.FRACTION,
        Better.LOWER,
        Family.MEMORY,
        "candidate arm's server: the fullest sample of kv_cache_usage",
    ),
    Metric(
        "preemptions",
        Unit.REQUESTS,
        Better.LOWER,
        Family.SERVING,
        "candidate arm's server: how often it put a running request back for want of cache, in all timed rounds",
    ),
    Metric(
        "prefix_cache_hit_rate",
        Unit.FRACTION,
        Better.NEITHER,
        Family.SERVING,
        "candidate arm's server: share of the prompts' tokens that its prefix cache held already, in all timed rounds",
    ),
    Metric(
        "occupancy",
        Unit.FRACTION,
        Better.HIGHER,
        Family.SERVING,
        "candidate arm: requests that took part in a round ÷ those that there was room for, mean over all timed rounds",
    ),
    Metric(
        "gpu_utilization",
        Unit.FRACTION,
        Better.HIGHER,
        Family.DEVICE,
        "candidate arm: share of the time in which the GPU ran a kernel (NVML), mean over samples",
    ),
    Metric(
        "gpu_utilization_p95",
        Unit.FRACTION,
        Better.HIGHER,
        Family.DEVICE,
        "candidate arm: 95th percentile of the samples of gpu_utilization",
    ),
    Metric(
        "gpu_utilization_spread",
        Unit.FRACTION,
        Better.LOWER,
        Family.DEVICE,
        "candidate arm: 95th less 5th percentile of the samples of gpu_utilization: smooth or ragged",
    ),
    Metric(
        "gpu_power",
        Unit.WATTS,
        Better.LOWER,
        Family.DEVICE,
        "candidate arm: power that the GPU draws (NVML), mean over samples",
    ),
    Metric(
        "energy_per_token",
        Unit.JOULES,
        Better.LOWER,
        Family.DEVICE,
        "candidate arm: the GPU's power × time ÷ output tokens",
    ),
    Metric(
        "exact_match",
        Unit.FRACTION,
        Better.HIGHER,
        Family.OUTPUT,
        "share of prompts whose token ids are identical in both arms (texts, where a server tells no ids)",
    ),
    Metric(
        "greedy_exactness",
        Unit.FRACTION,
        Better.HIGHER,
        Family.EXACTNESS,
        "greedy: share of the candidate arm's tokens that are the target's own choice, within its measured noise",
    ),
    Metric(
        "distribution_fit",
        Unit.FRACTION,
        Better.HIGHER,
        Family.DISTRIBUTION,
        "sampled: 100 % less the total variation distance from the target that the candidate arm's tokens show",
    ),
    Metric(
        "length_ratio",
        Unit.RATIO,
        Better.NEITHER,
        Family.OUTPUT,
        "output tokens of the candidate arm ÷ those of the reference arm",
    ),
    Metric(
        "token_accounting",
        Unit.FRACTION,
        Better.HIGHER,
        Family.OUTPUT,
        "share of requests whose ids, usage and budget agree, with nothing after an end and a reason for every stop",
    ),
    Metric(
        "request_honouring",
        Unit.FRACTION,
        Better.HIGHER,
        Family.REQUESTS,
        "share of requests made up at the edge (lengths, ends, budgets, penalties, seeds, batches) that are honoured",
    ),
    Metric(
        "chrf",
        Unit.SCORE,
        Better.HIGHER,
        Family.OUTPUT,
        "chrF of the candidate arm's text against the reference arm's, 0–100, mean over prompts (sacrebleu)",
    ),
    Metric(
        "bleu",
        Unit.SCORE,
        Better.HIGHER,
        Family.OUTPUT,
        "sentence BLEU of the candidate arm's text against the reference arm's, 0–100, mean over prompts (sacrebleu)",
    ),
    Metric(
        "rouge_l",
        Unit.SCORE,
        Better.HIGHER,
        Family.OUTPUT,
        "ROUGE-L F of the candidate arm's text against the reference arm's, 0–100, mean over prompts (rouge-score)",
    ),
    Metric(
        "semantic_similarity",
        Unit.SCORE,
        Better.HIGHER,
        Family.OUTPUT,
        "cosine of the embeddings of both arms' texts, 0–100, mean over prompts (wordllama, or sentence-transformers)",
    ),
    Metric(
        "task_score",
        Unit.FRACTION,
        Better.HIGHER,
        Family.TASK,
        "share of prompts whose answer stands the scenario's check, against the reference arm's of the same run",
    ),
)

#: Every gateable metric by name, in the order in which reports list them.
METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _TABLE})

#: What a latency gate may judge; the median is the default.
STATISTICS = ("mean", "median", "p90", "p95", "p99")
