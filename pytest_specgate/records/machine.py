"""What the machine gave: memory, capacity, what forwards cost, a GPU's work, and rules that it kept or broke."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Soak:
    """Memory in use after each block of a soak, in bytes, once what a block leaves behind was let go.

    ``requests`` ran in each block; ``vram`` is empty where the device's memory cannot be told, and ``cache`` where the
    engine does not tell how much of its cache is held: growth within what was allocated once shows there alone.
    ``drafted`` and ``accepted`` are the draft tokens of each block, empty where they are not told.
    """

    requests: int
    host: tuple[int, ...]
    vram: tuple[int, ...] = ()
    cache: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Throughput:
    """Output tokens per second of one arm with so many requests at once."""

    concurrency: int
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many requests one arm can run at once: ``max_batch`` fits, and one more does not.

    ``exhausted`` is false where the search ended at the largest number that was to be tried. ``rates`` are those of
    every concurrency that fitted, in order; ``refused`` are those at which a server turned requests away.
    """

    max_batch: int
    exhausted: bool
    rates: tuple[Throughput, ...]
    refused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """What a server told of its own memory; None is untold.

    ``weights`` are of all its models and ``kv_cache`` is its pool of keys and values, in bytes over all its devices;
    ``kv_cache_tokens`` is how many tokens the pool has room for. ``kv_cache_usage`` are samples of the share of it that
    was taken while requests ran, ``waiting`` is the most requests that were seen to wait.
    """

    weights: int | None = None
    kv_cache: int | None = None
    kv_cache_tokens: int | None = None
    kv_cache_usage: tuple[float, ...] = ()
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Peak memory of one arm, measured in a process of its own; a part that cannot be measured is None.

    ``kv_cache`` is what target and draft have allocated for keys and values, ``kv_cache_draft`` the draft's part of it.
    ``gpus`` are the bytes of ``max_process_vram`` by the UUID of each GPU, where a server ran on any number of them.
    ``untold`` maps a metric to why it was not measured; ``served`` is None where no server ran.
    """

    host_rss: int | None = None
    max_allocated: int | None = None
    max_reserved: int | None = None
    max_process_vram: int | None = None
    max_global_vram: int | None = None
    weights_target: int | None = None
    weights_draft: int | None = None
    kv_cache: int | None = None
    kv_cache_draft: int | None = None
    soak: Soak | None = None
    capacity: Capacity | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)
    served: Served | None = None


@dataclass(frozen=True, slots=True)
class Forwards:
    """Forwards of ``width`` new tokens a request, timed on their own: the seconds of each, device synchronised."""

    width: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a round is made of, each part timed on its own, all parts in turn: entry i of each was taken together.

    ``target`` has an entry per width, ascending: 1 as plain decoding reads, ``draft_tokens`` + 1 as verification does,
    and one beyond. ``draft`` reads one token; it is None where drafting takes no forward. ``rows`` requests were read
    at once, each after ``context`` tokens.
    """

    target: tuple[Forwards, ...]
    draft: Forwards | None
    draft_tokens: int
    rows: int
    context: int


@dataclass(frozen=True, slots=True)
class Place:
    """What absolute numbers depend on and a build does not change: names the baseline folder."""

    device: str
    count: int
    dtype: str

    @property
    def slug(self) -> str:
        """Folder name: lower case letters, digits, dots and hyphens."""
        words = f"{self.device} x{self.count} {self.dtype}".lower()
        kept = "".join(c if c.isalnum() or c == "." else "-" for c in words)
        return "-".join(part for part in kept.split("-") if part)


#: The environment rule that sees the requests of others in a server's counters.
OTHER_TRAFFIC = "other traffic"


@dataclass(frozen=True, slots=True)
class Finding:
    """What an environment rule saw: its name, whether it held, and the samples that show it.

    ``noted`` is worth telling though the rule held.
    """

    rule: str
    held: bool
    detail: str
    noted: bool = False


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One look at the GPU, on the clock of the traces: share of the time that it was busy, and power; None: untold."""

    t_ns: int
    utilization: float | None
    watts: float | None


@dataclass(frozen=True, slots=True)
class ScoringCost:
    """What scoring took, in seconds, beside ``arm``: how long the candidate arm ran while it was measured.

    ``texts`` is for the texts that are judged, ``control`` for what tells whether the scorer can be believed.
    """

    texts: float
    control: float
    arm: float

    @property
    def share(self) -> float | None:
        """What scoring adds to the measured arm's time, the control aside; None where none was measured."""
        return self.texts / self.arm if self.arm > 0 else None
