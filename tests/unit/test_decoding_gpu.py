"""What the decoder asks of a GPU, told by stand-ins: streams and graphs, copies that wait for nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_specgate import decoding
from pytest_specgate.decoding import network, recorded
from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.drafters.base import nothing
from pytest_specgate.decoding.drafters.composed import Composed
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.drafters.synthetic import ForcedVerifier
from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.kernels import unplanned
from pytest_specgate.decoding.lean import LeanForward
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import (
    BadWords,
    CountPenalty,
    LogitBias,
    MinP,
    MinTokens,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)
from pytest_specgate.decoding.recorded import Shape, cuda_recorder
from pytest_specgate.decoding.refusal import Refusal
from pytest_specgate.decoding.sending import sent
from pytest_specgate.decoding.verifier import ExactVerifier
from pytest_specgate.engines.hf import facts
from pytest_specgate.engines.hf.loading import Loaded
from tests.unit.decoding import VOCABULARY, build
from tests.unit.tape import record

SECOND = torch.device("cuda:1")
#: Where nothing is decoded: these run once, before anything is timed.
BEFORE = {"sending.py", "proof.py"}


class Cuda:
    """The part of ``torch.cuda`` that recording uses; ``breaks`` at the end of a recording as a spoilt one does."""

    def __init__(self) -> None:
        self.streams: list[Any] = []
        self.now: Any = SimpleNamespace(name="current", device=SECOND, wait_stream=lambda _: None)
        self.devices: list[Any] = []
        self.breaks = False
        self.captured: list[Any] = []
        self.replays = 0

    def Stream(self, device: Any) -> Any:  # noqa: N802 - torch's name
        self.streams.append(SimpleNamespace(name="side", device=device, wait_stream=lambda _: None))
        return self.streams[-1]

    def CUDAGraph(self) -> Any:  # noqa: N802 - torch's name
        return SimpleNamespace(replay=self._replay)

    def _replay(self) -> None:
        self.replays += 1

    def graph_pool_handle(self) -> tuple[int, int]:
        return (0, 1)

    def current_stream(self, device: Any = None) -> Any:
        return self.now if device in (None, self.now.device) else None

    def set_stream(self, stream: Any) -> None:
        self.now = stream

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.now = self.now, stream
        yield
        self.now = before

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        self.devices.append(device)
        yield

    @contextmanager
    def graph(self, graph: Any, pool: Any, stream: Any) -> Iterator[None]:
        before, self.now = self.now, stream
        try:
            yield
        finally:
            self.captured.append((graph, pool, stream))
            if self.breaks:  # as torch's own: what comes after is left undone
                raise RuntimeError("operation failed due to a previous error during capture")
        self.now = before


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    made = Cuda()
    monkeypatch.setattr(recorded.torch, "cuda", made)
    recorded._side.cache_clear()
    yield made
    recorded._side.cache_clear()


def test_graphs_are_recorded_on_the_models_own_device_and_one_stream_of_it(cuda: Cuda) -> None:
    ran: list[str] = []

    def run() -> Tensor:
        ran.append(cuda.now.name)
        return torch.tensor([1.0])

    for _ in range(2):  # one for each cache
        replay = cuda_recorder(SECOND)(run)
    assert replay().tolist() == [1.0]
    assert ran == ["side", "side"] * 2, "warmed up and recorded apart from what else runs"
    assert [stream.device for stream in cuda.streams] == [SECOND]
    assert cuda.devices == [SECOND] * 2
    assert cuda.now.name == "current"
    assert cuda.replays == 1


def test_a_recording_that_breaks_off_leaves_the_stream_as_it_was(cuda: Cuda) -> None:
    cuda.breaks = True
    with pytest.raises(RuntimeError, match="during capture"):
        cuda_recorder(SECOND)(lambda: torch.tensor([1.0]))
    assert cuda.now.name == "current"


def test_numbers_go_to_a_gpu_from_pinned_memory_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def tensor(numbers: Any, **named: Any) -> Any:
        def to(device: Any, **how: Any) -> list[Any]:
            asked.append({**named, "device": device, **how})
            return list(numbers)

        return SimpleNamespace(to=to)

    monkeypatch.setattr(torch, "tensor", tensor)
    assert sent([3, 4], SECOND) == [3, 4]
    assert asked == [{"dtype": torch.long, "pin_memory": True, "device": SECOND, "non_blocking": True}]


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_numbers_on_a_cpu_are_a_plain_tensor(device: Any) -> None:
    assert torch.equal(sent([[3], [4]], device), torch.tensor([[3], [4]]))
    assert sent([True, False], device, torch.bool).tolist() == [True, False]
    assert sent([], device).dtype is torch.long


def test_a_gpus_peaks_are_those_of_running_and_not_of_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", forgotten.append)
    for device in ("cpu", "cuda:1"):
        facts.forget_loading(device)
    assert forgotten == ["cuda:1"]


@pytest.mark.parametrize(("told", "peak"), [(900, 1100), (None, None)])
def test_a_process_s_peak_counts_what_was_given_back(
    told: int | None, peak: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"max_memory_reserved": 700, "memory_reserved": 500, "max_memory_allocated": 600}
    for name, amount in held.items():
        monkeypatch.setattr(torch.cuda, name, {"cuda": amount}.__getitem__)
    monkeypatch.setattr(facts.machine, "process_vram", lambda device: told)
    read = facts.memory("cuda", Loaded(build("Llama"), None, ""), None, None)
    assert (read.max_process_vram, read.max_reserved, read.max_allocated) == (peak, 700, 600)


@pytest.mark.parametrize(("device", "allowed"), [("cuda", False), ("cpu", True)])
def test_attention_takes_no_kernel_that_is_planned_by_shape(device: str, allowed: bool) -> None:
    takes = torch.backends.cuda.cudnn_sdp_enabled
    with unplanned(torch.device(device)):
        assert takes() is allowed
    assert takes() is True, "what else runs in this process has its own way"
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with unplanned(torch.device(device)):
            assert takes() is False
        assert takes() is False, "who forbids it means it"
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)


def test_every_forward_and_every_recording_chooses_its_kernels_so(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, forwards = list[bool](), list[bool]()

    @contextmanager
    def told(device: Any) -> Iterator[None]:
        inside.append(True)
        yield
        inside.pop()

    made = Network(build("Llama"))
    made.record(lambda: record)  # a replay chooses nothing: it runs what was recorded
    monkeypatch.setattr(network, "unplanned", told)
    forward = LeanForward.__call__

    def watched(self: LeanForward, *given: Any, **named: Any) -> Tensor:
        forwards.append(bool(inside))
        return forward(self, *given, **named)

    monkeypatch.setattr(LeanForward, "__call__", watched)
    with torch.inference_mode():
        for _ in range(2):
            made.reserve(1, 64)
            made.prefill([3, 1, 4], 0)
            made.forward(torch.tensor([[1, 5]]), Span((3,), 2))
    assert len(forwards) > 4
    assert all(forwards)
    assert made.recordings is not None
    assert len(made.recordings) == 1


class Apart(TorchDispatchMode):
    """Notes what reads tensors of several devices at once; numbers (of no dimension) may come from anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.dim()]
        if len({one.device for one in read}) > 1:
            self.mixed.append(str(function))
        return function(*args, **(kwargs or {}))


def test_what_reads_from_two_devices_is_noticed() -> None:
    with Apart() as apart:
        torch.empty(3, 4, device="meta")[:, torch.tensor([1])]
    assert len(apart.mixed) == 1


PROCESSORS = (
    *(LogitBias({3: 1.0}), RepetitionPenalty(1.2), CountPenalty(0.1, 0.2), BadWords(((3,), (4, 5)))),
    *(MinTokens(40, (2,)), Temperature(0.7), TopK(9), TopP(0.9), MinP(0.05)),
)


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("processors", [(), PROCESSORS])
def test_a_round_stays_on_its_device_and_reads_nothing_from_it(greedy: bool, processors: tuple[Any, ...]) -> None:
    """``meta`` is a device without numbers: whatever would bring one to the host fails there."""
    target, draft = (build("Llama", num_key_value_heads=2).to("meta", torch.bfloat16) for _ in range(2))
    network, second = (Network(model, LeanForward(model)) for model in (target, draft))
    drafter = Composed(PromptLookup(3, network.device), DraftModel(second))
    texts = [(1, 2, 3, 1, 2)[: 3 + number] for number in range(3)]
    jobs = [Job(text, 40, greedy=greedy, processors=processors, seed=n) for n, text in enumerate(texts)]
    rows = [Row(number, job, [*job.prompt, 7 + number]) for number, job in enumerate(jobs)]
    with torch.inference_mode(), Apart() as apart:
        network.reserve(3, 64)
        drafter.reserve(3, 64)
        for slot, row in enumerate(rows):
            scores = network.prefill(row.job.prompt, slot)
            ExactVerifier().judge(scores, nothing(1, scores.device), [row])
            drafter.enter(row, slot)
        made = drafter.propose(rows, [3, 3, 2])
        block = torch.cat((sent([[1], [1], [1]], network.device), made.tokens), dim=1)
        scores = network.forward(block, Span(tuple(len(row.tokens) - 1 for row in rows), 1 + made.width))
        verdicts = [verifier.judge(scores, made, rows) for verifier in (ExactVerifier(), ForcedVerifier(0.5))]
        network.move(2, 0)
    assert apart.mixed == []
    assert {verdict.tokens.device.type for verdict in verdicts} == {"meta"}
    assert scores.shape == (3, 4, VOCABULARY)


YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 48}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
ANGLES = [{"rope_type": "default"}, YARN, {"rope_type": "llama3", "factor": 8.0, **LLAMA3}]


class Devices(TorchDispatchMode):
    """Notes the devices of all that is read and made."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self.seen |= {leaf.device.type for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)}
        return out


@pytest.mark.parametrize("angles", ANGLES, ids=lambda angles: angles["rope_type"])
def test_what_is_recorded_has_nothing_of_the_host_in_it(angles: dict[str, Any]) -> None:
    model = build("Llama", rope_parameters={"rope_theta": 1e4, **angles}).to("meta", torch.bfloat16)
    made = Network(model, LeanForward(model))
    made.record(lambda: record)
    with torch.inference_mode():
        made.reserve(4, 64)
        assert made.recordings is not None
        assert made.cache is not None
        tokens, places = (torch.zeros((4, 3), dtype=torch.long, device="meta") for _ in range(2))
        shape = Shape(rows=4, width=3, length=64, layers=2)
        made.recordings._run(tokens, places, shape, made.cache)  # makes the cache
        with Devices() as devices:
            made.recordings._run(tokens, places, shape, made.cache)
    assert devices.seen == {"meta"}


def test_angles_that_ask_how_long_a_text_is_are_not_recorded() -> None:
    made = Network(build("Llama", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}))
    assert made.forward_name == "lean"
    with pytest.raises(Refusal) as caught:
        made.record(lambda: record)
    assert str(caught.value) == (
        "forwards of LlamaForCausalLM cannot be recorded: its angles depend on how long a text is — remove 'graphs'"
    )


def _calls(part: ast.AST, wanted: Callable[[str], bool]) -> Iterator[int]:
    for node in ast.walk(part):
        if isinstance(node, ast.Call) and wanted(ast.unparse(node.func)):
            yield node.lineno


def test_a_round_makes_no_tensor_of_numbers_in_another_way() -> None:
    """``torch.tensor(..., device=...)`` waits for a GPU, and no CPU shows it."""
    root = Path(decoding.__file__).parent
    found = [
        f"{file.name}:{line}"
        for file in root.rglob("*.py")
        if file.name not in BEFORE
        for line in _calls(
            ast.parse(file.read_text(encoding="utf-8")), {"torch.tensor", "torch.as_tensor"}.__contains__
        )
    ]
    assert found == []
