"""The environment rules: what must hold for a timing to mean anything, as one table.

A broken rule never fails a build: the case is measured once more, and if the rule is still broken its timing gates are
INCONCLUSIVE with the rule's name and the samples that show it. What is only noted becomes a warning of the case. A rule
that has too little to look at holds and says so. Thresholds are judgement, backed where possible by simulation:
interleaved pairs shrug off drift of 20 % and noise of 15 %, not more. ``docs/environment.md`` shows this table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_specgate.measure import gpu_rules as gpu
from pytest_specgate.measure import machine_rules as machine
from pytest_specgate.measure import server_rules as servers
from pytest_specgate.measure import timing_rules as timing
from pytest_specgate.measure.readings import Observed, Ruling
from pytest_specgate.records import OTHER_TRAFFIC, Finding
from pytest_specgate.stats.looks import LEAST_FRESH_STARTS

#: The rule that no second chance mends: a repetition has as few rounds.
FRESH_STARTS = "fresh starts"


@dataclass(frozen=True, slots=True)
class Rule:
    """A row: the rule's name, what is looked at, from where on it is broken or noted, and what its finding says."""

    name: str
    looks_at: str
    threshold: str
    says: str
    judge: Callable[[Observed], Ruling]


RULES: tuple[Rule, ...] = (
    Rule(
        "reference drift",
        "the reference arm's time per token, last round against first",
        f"broken beyond ±{timing.LARGEST_DRIFT:.0%}",
        "how far it moved",
        timing.reference_drift,
    ),
    Rule(
        "pair noise",
        "spread of each prompt's time ratio over the rounds, by token or by round, the smaller",
        f"broken above {timing.LARGEST_NOISE:.0%}",
        "the spread",
        timing.pair_noise,
    ),
    Rule(
        FRESH_STARTS,
        "alternating fresh starts of arms that cannot be up together",
        f"broken below {LEAST_FRESH_STARTS}",
        "how many there were",
        timing.fresh_starts,
    ),
    Rule(
        "warm start",
        "the first measured call of either arm, against the same prompt's later ones",
        f"broken above {timing.COLD_FACTOR}x",
        "the factor",
        timing.warm_start,
    ),
    Rule(
        "order effect",
        "time ratio of pairs that the reference arm began, against the others",
        f"noted where abs(t) is above {timing.NOTABLE_ORDER_T:g} "
        f"and the effect at least {timing.LEAST_ORDER_EFFECT:.1%}; never broken, for alternating orders cancel it",
        "the effect and its t value",
        timing.order_effect,
    ),
    Rule(
        "foreign load",
        "cores kept busy by processes that are neither ours nor our children (CPU)",
        f"broken above the cores that our threads leave free plus {machine.LARGEST_FOREIGN_SHARE:.0%} of theirs",
        "cores used by others, and how many are allowed",
        machine.foreign_load,
    ),
    Rule(
        "CPU frequency",
        "mean frequency of the computing cores, in every sample (CPU)",
        f"broken where the median falls by more than {machine.LARGEST_FREQUENCY_FALL:.0%} from first to last quarter; "
        f"noted where p95/p5 is above {machine.NOTABLE_FREQUENCY_RANGE:.2f}",
        "the range in MHz and the fall",
        machine.cpu_frequency,
    ),
    Rule(
        "GPU clock events",
        "what NVML says holds the clock down, in every sample (CUDA)",
        f"broken by any of {', '.join(f'{name} 0x{bit:02x}' for bit, name in gpu.SLOWDOWNS.items())}; "
        f"power cap 0x{gpu.POWER_CAP:02x} is noted",
        "which events, in how many samples",
        gpu.clock_events,
    ),
    Rule(
        "SM clock",
        "the SM clock in samples during timed calls (CUDA)",
        f"broken where p95/p5 is above {gpu.LARGEST_SM_RANGE:.2f}",
        "the range in MHz",
        gpu.sm_clock,
    ),
    Rule(
        "foreign GPU work",
        "compute processes and memory on the device that are not ours (CUDA)",
        f"broken by any other process, or by growth above {gpu.LARGEST_FOREIGN_GROWTH // 2**20} MiB",
        "the processes, or the growth",
        gpu.foreign_gpu_work,
    ),
    Rule(
        "compilation",
        "frames that torch compiled, autotuning and graph captures in the timed region",
        "broken by any",
        "how many of which",
        machine.compilation,
    ),
    Rule(
        "device allocations",
        "calls of torch's allocator to the device, and its retries, in the timed region (CUDA)",
        "broken by any",
        "how many",
        machine.device_allocations,
    ),
    Rule(
        OTHER_TRAFFIC,
        "a server's own counters of requests and tokens, against what it was asked for and sent (kind openai)",
        "broken by any request of others",
        "how many, beside how many of ours",
        servers.other_traffic,
    ),
    Rule(
        "prefix cache",
        "tokens of prompts that either arm's server had cached already, as the servers tell it (kind openai)",
        f"noted where the arms' shares differ by more than {servers.NOTABLE_HITS:.0%}; broken where one arm never hits "
        f"and the other above {servers.LARGEST_HITS:.0%}",
        "both shares",
        servers.prefix_cache,
    ),
    Rule(
        "cold prompts",
        "requests of a scenario with 'prefix: cold' that came from a server's prefix cache all the same (kind openai)",
        f"broken by any of which no more than {servers.LAST_BLOCK} tokens were computed",
        "how many",
        servers.cold_prompts,
    ),
    Rule(
        "preemptions",
        "a server's counter of requests that it put back for want of cache (kind openai)",
        "noted where there were any; never broken, for that is the server's capacity",
        "how many, by arm",
        servers.preemptions,
    ),
    Rule(
        "arrivals",
        "how long after a request came by the clock ('load') it left this machine (kind openai)",
        f"broken where more than one in a hundred, and more than one, left over {servers.LARGEST_LATENESS * 1e3:g} ms "
        "late: the client could not keep up, and another load was measured than the one asked for",
        "median and largest lateness",
        servers.arrivals,
    ),
    Rule(
        "clock steps",
        "the monotonic clock, and the wall clock against it",
        f"noted where the one goes back or the other jumps by more than {machine.LARGEST_CLOCK_STEP:g} s; "
        "never broken, for durations use the monotonic clock",
        "the jump",
        machine.clock_steps,
    ),
)


def examine(observed: Observed) -> tuple[Finding, ...]:
    """Every rule's finding, in table order."""
    rulings = [(rule.name, rule.judge(observed)) for rule in RULES]
    return tuple(Finding(name, ruling.held, ruling.detail, ruling.noted) for name, ruling in rulings)


def notes(findings: Sequence[Finding]) -> tuple[str, ...]:
    """What was noted though the rule held, as warnings of the case."""
    return tuple(f"{finding.rule}: {finding.detail}" for finding in findings if finding.noted)
