"""The values that travel between the layers: frozen, without behaviour beyond their own arithmetic.

``Request`` goes into an engine, a ``Trace`` comes out; two traces of one prompt make a ``Pair``; all pairs of a case,
its memory passes and what the machine did meanwhile make a ``Measurement``; ``Samples`` are the per-prompt numbers
drawn from it that a gate judges and a baseline keeps; a ``Verdict`` is what a gate says, with its evidence.
Times are monotonic nanoseconds inside traces and seconds everywhere else; memory is in bytes. ``None`` means
*unmeasured* throughout, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pytest_specgate.chances import Draws, Fit
from pytest_specgate.logits import Choices, Control, Exactness


class Arm(str, Enum):
    """The target alone, or the target with speculation."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


class Outcome(str, Enum):
    """What a gate says: kept, broken, cannot tell, could not measure."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"


class Capability(str, Enum):
    """What an engine declares that it can do; a gate or case that needs more is an error, not a zero."""

    ROUNDS = "rounds"
    BATCH = "batch"
    SEEDS = "seeds"
    LOGITS = "logits"
    STREAMING = "streaming"
    TOKENS = "tokens"
    ARRIVALS = "arrivals"


# --- into an engine ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bias:
    """What is added to the score of one token id."""

    token: int
    value: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. ``temperature == 0`` is greedy; ``top_k == 0`` and ``top_p == 1`` switch a filter off.

    What reshapes scores acts on greedy choices too. ``repetition_penalty`` divides (prompt and output; None is the
    checkpoint's own), ``frequency_penalty`` and ``presence_penalty`` subtract (output alone), ``logit_bias`` adds to
    token ids. ``min_tokens`` bars the end-of-text tokens, and no stop string, before so many tokens. ``bad_words`` are
    texts whose tokens may not be completed. ``seed`` None lets the engine draw as it likes, anew for each request.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = 0
    name: str = ""
    min_p: float = 0.0
    repetition_penalty: float | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[Bias, ...] = ()
    min_tokens: int = 0
    bad_words: tuple[str, ...] = ()

    @property
    def greedy(self) -> bool:
        """Whether the next token is the most likely one, so that equal software gives equal text."""
        return self.temperature == 0.0

    @property
    def label(self) -> str:
        """Short and unique within a scenario: its given name, else ``t0``, ``t0.7``."""
        return self.name or f"t{self.temperature:g}"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One generation to run. ``prompt`` names the turn (``chat-01/2``) and is the unit of pairing.

    ``token_ids`` are the whole prompt, in place of messages (:attr:`Capability.TOKENS`). ``stop_ids`` end the text as
    its end-of-text tokens do, and stay in force under ``ignore_eos``. ``after`` is when it comes, in seconds from the
    call that hands it over (:attr:`Capability.ARRIVALS`; else it is 0).
    """

    prompt: str
    messages: tuple[Message, ...]
    max_tokens: int
    sampling: Sampling
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    token_ids: tuple[int, ...] | None = None
    stop_ids: tuple[int, ...] = ()
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an engine that takes token ids says of its models: what requests at the edge are made from.

    ``eos`` ends a text by itself; ``draft_tokens`` is k; windows are in tokens, None where there is no end of them (or
    no draft model); ``block`` is how many tokens its cache grows by, None where it has no such unit.
    """

    vocabulary: int
    eos: tuple[int, ...]
    draft_tokens: int
    window: int | None = None
    draft_window: int | None = None
    block: int | None = None


# --- out of an engine -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Round:
    """One target forward after prefill, as the engine counted it.

    ``drafted`` tokens were proposed, the target looked at ``tested`` of them and kept ``accepted``; ``emitted`` were
    appended to the output, the target's own token included; ``t_ns`` is when they were on the host.
    """

    drafted: int
    tested: int
    accepted: int
    emitted: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens that reached the caller at one instant."""

    t_ns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What an engine's loop did from a request's submission to its last token, counted from inside.

    The parts of its time add up to the trace's: ``prefill_ns`` reading prompts, then over all rounds ``draft_ns``
    making drafts, ``verify_ns`` in the target's forward, ``sample_ns`` choosing tokens and waiting for the device,
    ``host_ns`` the rest. ``rounds`` are target forwards after prefill, plain ones too; ``rows`` sums the requests that
    took part in each, ``slots`` those that there was room for. ``cache_bytes`` is what target and drafter held of this
    request's own tokens at its end, ``draft_cache_bytes`` the drafter's part of it.
    """

    rounds: int
    rows: int
    slots: int
    prefill_ns: int
    draft_ns: int
    verify_ns: int
    sample_ns: int
    host_ns: int
    cache_bytes: int
    draft_cache_bytes: int

    @property
    def occupancy(self) -> float | None:
        """Rows active ÷ rows there, over the rounds; None without a round."""
        return self.rows / self.slots if self.slots else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Acceptance counters of one generation, the cut last round left out.

    ``rounds`` counts target forwards after prefill; ``drafts`` those of them that proposed something. Where rounds are
    not told one by one, the cut one is not left out, and what an engine's totals do not tell is None.
    """

    rounds: int | None
    drafts: int | None
    drafted: int | None
    tested: int | None
    accepted: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a server told of one generation, or of the ``together`` generations that ran side by side.

    ``tokens`` counts the output where the server gives no token ids; ``counts`` are acceptance totals where it gives no
    rounds, and stand in one trace of those that ran together. ``foreign`` is how many requests of others its counters
    show meanwhile. ``notes`` are warnings.
    """

    tokens: int | None = None
    counts: Counts | None = None
    together: int = 1
    foreign: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """One generation by one arm.

    ``rounds`` is None when the engine cannot tell rounds, and for a plain arm. ``prefill_tokens`` is the number of
    output tokens (0 or 1) that the prefill forward itself emitted. ``usage_tokens`` is the engine's own count of output
    tokens. ``finish`` is ``eos``, ``stop`` or ``length``. ``token_ids`` is empty where a server tells none; what it
    told instead stands in ``told``. ``spent`` is None where the engine does not look inside. ``logprobs`` are what the
    engine says of its tokens: natural logs of their chances under the target, shaped as the request asks; None where it
    does not say.
    """

    prompt: str
    arm: Arm
    token_ids: tuple[int, ...]
    text: str
    prompt_tokens: int
    submit_ns: int
    chunks: tuple[Chunk, ...]
    finish: str
    rounds: tuple[Round, ...] | None = None
    prefill_tokens: int = 0
    usage_tokens: int | None = None
    max_tokens: int = 0
    eos_ids: tuple[int, ...] = ()
    spent: Spent | None = None
    told: Told | None = None
    logprobs: tuple[float, ...] | None = None

    @property
    def output_tokens(self) -> int:
        """Number of output tokens: of ids, or as the server counted them."""
        if not self.token_ids and self.told is not None:
            return self.told.tokens or 0
        return len(self.token_ids)

    @property
    def seconds(self) -> float:
        """Submission to the last token."""
        return (self.chunks[-1].t_ns - self.submit_ns) / 1e9

    @property
    def ttft_seconds(self) -> float:
        """Submission to the first output token."""
        return (self.chunks[0].t_ns - self.submit_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Soak:
    """Memory in use after each block of a soak, in bytes, once what a block leaves behind was let go.

    ``requests`` ran in each block; ``vram`` is empty where the device's memory cannot be told, and ``cache`` where the
    engine does not tell how much of its cache is held: growth within what was allocated once shows there alone.
    """

    requests: int
    host: tuple[int, ...]
    vram: tuple[int, ...] = ()
    cache: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Throughput:
    """Output tokens per second of one arm with so many requests at once."""

    concurrency: int
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many requests one arm can run at once: ``max_batch`` fits, and one more does not.

    ``exhausted`` is false where the search ended at the largest number that was to be tried. ``rates`` are those of
    every concurrency that fitted, in order.
    """

    max_batch: int
    exhausted: bool
    rates: tuple[Throughput, ...]


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Peak memory of one arm, measured in a process of its own; a part that cannot be measured is None.

    ``kv_cache`` is what target and draft have allocated for keys and values, ``kv_cache_draft`` the draft's part of it.
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


# --- a measured case --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms on one prompt in one round; ``order`` is ``AB`` when the reference arm ran first, else ``BA``."""

    prompt: str
    cluster: str
    round: int
    order: str
    reference: Trace
    candidate: Trace


@dataclass(frozen=True, slots=True)
class Probe:
    """One request of a sweep over what faults hide behind, and what must hold of its answer by either arm.

    ``looks_for`` says what a person would call broken. ``expected`` are the output's ids where the target's own text
    tells them; ``same_as`` names the probe whose answer this one repeats, ``unlike`` those of which at least one must
    differ. Tokens of ``never`` may not stand among the first ``until``; ``always`` is every token. Probes of one
    ``company`` run in one call. ``may_refuse`` is what an engine may decline instead of answering.
    """

    name: str
    area: str
    looks_for: str
    request: Request
    expected: tuple[int, ...] | None = None
    same_as: str = ""
    unlike: tuple[str, ...] = ()
    never: tuple[int, ...] = ()
    until: int = 0
    always: int | None = None
    company: str = ""
    may_refuse: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What one arm made of a probe: a trace, or why there is none. ``regrets`` is None where nothing was scored."""

    probe: str
    arm: Arm
    trace: Trace | None
    refusal: str = ""
    crashed: bool = False
    regrets: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """All probes with both arms' replies; ``control`` is None where the engine cannot score.

    ``not_asked`` names what this engine does not offer, or what its window leaves no room for.
    """

    probes: tuple[Probe, ...]
    replies: tuple[Reply, ...]
    control: Control | None
    not_asked: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Graded:
    """Whether an arm's answer to a prompt, in one round, stands the scenario's check; ``said`` is what was found."""

    prompt: str
    cluster: str
    round: int
    arm: Arm
    solved: bool
    said: str


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
class Measurement:
    """Everything that one case yielded; judging it needs nothing else but the gate and the baseline.

    ``workload`` (prompt-set hash, generation parameters, model content) keys the baseline entry; ``subject`` (versions,
    draft, flags) is what the gate exists to judge and never blocks a comparison. ``exactness`` and ``fit`` are None
    where no text was scored, ``costs`` where the engine does not tell what forwards cost, ``sweep`` where no requests
    were made up; ``graded`` is empty where the scenario has no check. ``apart``: the arms were never up together, and
    each round is a fresh start of both.
    """

    case: str
    engine_kind: str
    place: Place
    workload: Mapping[str, str]
    subject: Mapping[str, str]
    pairs: tuple[Pair, ...]
    greedy: bool
    memory: Mapping[Arm, MemoryReading] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    seconds: float = 0.0
    exactness: Exactness | None = None
    apart: bool = False
    costs: Costs | None = None
    fit: Fit | None = None
    gpu: tuple[GpuUse, ...] = ()
    sweep: Sweep | None = None
    graded: tuple[Graded, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptSamples:
    """One prompt's numbers over the rounds of a run.

    ``series`` maps a metric to one value per round: natural logs of ratios for the speed-up family, seconds, shares and
    scores as they are. ``counts`` has one entry per round. ``digest`` names the candidate arm's token ids in the first
    round, so that equal text is known as equal.
    """

    prompt: str
    cluster: str
    series: Mapping[str, tuple[float, ...]]
    counts: tuple[Counts, ...] = ()
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Samples:
    """The numbers of one case that gates judge and baselines keep. ``scalars`` maps a metric to one value per run.

    ``choices`` and ``draws`` are what this run's target says of this run's texts, ``growth`` maps a metric to the bytes
    per request of every step of the soak, and ``device`` one to a value per round; ``sweep`` is what was made of
    requests at the edge, and ``graded`` which answers stand the scenario's check; no baseline keeps any of them.
    ``unscored`` says of a metric why it has no values here.
    """

    case: str
    greedy: bool
    prompts: tuple[PromptSamples, ...]
    scalars: Mapping[str, float] = field(default_factory=dict)
    choices: Choices | None = None
    draws: Draws | None = None
    growth: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    device: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    sweep: Sweep | None = None
    graded: tuple[Graded, ...] = ()
    unscored: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The first accepted baseline of a workload, in one number per metric: small losses add up against it."""

    recorded: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stored:
    """A baseline entry: whose numbers they are, for which workload, from which place, and when they were recorded.

    ``sessions`` maps a metric to its mean log, one value for each process that was started anew to record it; it is
    empty where there was one. ``anchor`` is None for a first baseline, ``costs`` where none were told.
    """

    place: Place
    workload: Mapping[str, str]
    subject: Mapping[str, str]
    recorded: str
    samples: Samples
    sessions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    anchor: Anchor | None = None
    costs: Costs | None = None


# --- judged -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence limits in the metric's own unit; equal limits mean that it is exact."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the data: rounds seen, what the check said then, and what it compared, if it had limits."""

    rounds: int
    outcome: Outcome
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One question that a gate asked: ``limit``, ``max_drop`` or ``max_rise``, and its answer.

    ``interval`` is what was compared: the metric itself for a limit, the change (ratio now ÷ stored, or difference in
    the metric's unit) for a drift check. ``required`` is the limit in words. ``needed`` says how much more data would
    decide, and is empty where none would. ``looks`` are those up to the decision.
    """

    kind: str
    required: str
    outcome: Outcome
    reason: str
    interval: Interval | None = None
    needed: str = ""
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says, with its evidence. ``reason`` is one sentence; ``advice`` says what to look at or do next."""

    gate: str
    metric: str
    case: str
    outcome: Outcome
    reason: str
    advice: str = ""
    measured: Interval | None = None
    baseline: Interval | None = None
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    location: str = ""
    softened: str = ""
