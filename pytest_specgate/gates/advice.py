"""What to look at next when a gate does not pass, one sentence per metric."""

from __future__ import annotations

_ACCEPTANCE = (
    "compare the draft's content hash and the draft length with the baseline's, then look at sampling defaults, "
    "draft cache handling and position ids"
)
_SPEED = "if acceptance holds, look at the draft's and the verify forward's time and at host overhead per round"
_LATENCY = "see whether the reference arm moved too; then look at draft prefill (ttft) or at time per round (tpot, itl)"
_MEMORY = "look at draft weights, the draft's cache and buffers that grow with the draft length"
_LEAK = "look for caches, graphs and lists that a request leaves behind: per slot, per shape, per prompt"
_POOL = "look at what the draft's weights and cache leave of the pool: a larger pool, a shorter draft, fewer requests"
_IDLE = "look at the host's part of a round (spent in the JSON report) and at what waits for the device within one"
_ENERGY = "see whether acceptance fell: drafts that are not kept cost energy and yield no token"
_TEXT = "read exact_match's first divergence: a tie flips one token, a fault changes the text from there on"

ADVICE = {
    "speedup": _SPEED,
    "decode_speedup": _SPEED,
    "acceptance_rate": _ACCEPTANCE,
    "conditional_acceptance": _ACCEPTANCE,
    "acceptance_length": _ACCEPTANCE,
    "acceptance_slope": "look at the draft's window, its cache after rollbacks and its positions "
    "beyond the length that it was trained on",
    "ttft": _LATENCY,
    "tpot": _LATENCY,
    "itl": _LATENCY,
    "e2el": _LATENCY,
    "throughput": _LATENCY,
    "vram": _MEMORY,
    "vram_ratio": _MEMORY,
    "host_memory": _MEMORY,
    "host_memory_ratio": _MEMORY,
    "vram_slope": _LEAK,
    "host_memory_slope": _LEAK,
    "acceptance_wear": "look for what the draft keeps between requests: positions, cache entries, lookup tables",
    "kv_cache_slope": "look for slots and blocks that a finished request keeps: those of rejected drafts above all",
    "max_batch": _MEMORY,
    "max_batch_ratio": _MEMORY,
    "kv_cache_usage": _POOL,
    "kv_cache_usage_p95": _POOL,
    "kv_cache_usage_max": _POOL,
    "preemptions": _POOL,
    "occupancy": "look for slots that stay empty while requests wait, and for too few prompts: at the end of a run "
    "nobody is left to enter",
    "prefix_cache_hit_rate": "look at the server's settings of its prefix cache and at the scenario's 'prefix'; both "
    "arms' rates stand in the report",
    "gpu_utilization": _IDLE,
    "gpu_utilization_p95": _IDLE,
    "gpu_utilization_spread": _IDLE,
    "gpu_power": _ENERGY,
    "energy_per_token": _ENERGY,
    "exact_match": "look at where the texts part: in float32 right software agrees; in bfloat16 ties differ",
    "greedy_exactness": "the target would not have said this: look at the accept rule, positions and caches after a "
    "rejection, and the stop rule inside accepted blocks",
    "distribution_fit": "see whether all of the request's settings reach verification (temperature, filters, "
    "penalties), then the accept rule, what replaces a rejected draft, the bonus token, and whether drafts are drawn "
    "from the q that is declared",
    "length_ratio": "check the stop rule inside accepted blocks: end of text, stop strings, max_tokens",
    "token_accounting": "check the stop rule and the token budget inside accepted blocks",
    "request_honouring": "the requests are in the JSON report: run them by both arms, then look at what the "
    "request's kind names, at draft positions above all",
    "chrf": _TEXT,
    "bleu": _TEXT,
    "rouge_l": _TEXT,
    "semantic_similarity": _TEXT,
    "task_score": "read the answers that only the reference arm gets right, and gate greedy_exactness beside it",
}
