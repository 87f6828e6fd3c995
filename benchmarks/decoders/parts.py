"""Where the time of an arm goes, by kind of operation, as torch's profiler sees it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch.profiler import ProfilerActivity, profile

from decoders.arms import Arm, Prompt

#: Part → how its operations' names begin.
PARTS = {
    "matrices": ("mkldnn::", "aten::mm", "aten::addmm", "aten::linear", "aten::bmm"),
    "attention": ("aten::_scaled_dot", "aten::scaled_dot"),
    "norms": ("aten::rms_norm", "aten::_fused_rms", "aten::pow", "aten::mean", "aten::rsqrt", "aten::sum", "aten::div"),
    "best token of the vocabulary": ("aten::max", "aten::amax", "aten::logsumexp", "aten::argmax", "aten::topk"),
    "copies: cache, rows, dtypes": ("aten::copy_", "aten::_to_copy", "aten::cat", "aten::index", "aten::_index_put"),
}
OTHER, BETWEEN = "other operations", "between operations (Python)"


def shares(arm: Arm, group: Sequence[Prompt], tokens: int) -> dict[str, float]:
    """Share of each part in an arm's time, its prompt included; the profiler makes small operations dearer."""
    arm(group, 3)
    begin = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        begin = time.perf_counter()
        arm(group, tokens)
        whole = (time.perf_counter() - begin) * 1e6
    found = dict.fromkeys((*PARTS, OTHER), 0.0)
    for event in seen.key_averages():
        part = next((part for part, begins in PARTS.items() if event.key.startswith(begins)), OTHER)
        found[part] += event.self_cpu_time_total
    found[BETWEEN] = max(0.0, whole - sum(found.values()))
    return {part: value / whole for part, value in found.items()}
