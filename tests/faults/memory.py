"""Part D, memory that is sized without the draft or never given back, on a device that counts bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.drafters.base import Drafter
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.network import Network
from tests.faults.entry import Entry
from tests.faults.parts import Parts, Rig
from tests.faults.settings import GREEDY, PLAIN, SOAKED

ANY = tuple(str(gate["metric"]) for gate in GREEDY)
MIB = 2**20


@dataclass(slots=True)
class Device:
    """Memory as a number: what does not fit any more is an error, as on a GPU."""

    capacity: int
    used: int = 0

    def take(self, size: int) -> None:
        """Allocate."""
        if self.used + size > self.capacity:
            raise MemoryError(f"{size} bytes of {self.capacity - self.used} that are left")
        self.used += size

    def give(self, size: int) -> None:
        """Free."""
        self.used -= size


def _weights(network: Network) -> int:
    return int(network.model.get_memory_footprint())


# --- draft weights ---


class Sized(Network):
    """Fills nine tenths of a device: what its weights and the draft leave is its cache."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.device_memory, self.beside = Device(4 * MIB), 0

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, capacity)
        device = self.device_memory
        if not device.used:
            device.take(_weights(self))
            device.take(int(0.9 * device.capacity) - device.used - self.beside)


class OnDevice(DraftModel):
    """A draft that lives on the target's device."""

    #: Tokens that its cache is made for, and bytes of each.
    room = 8 * 128 * 512
    counted = True

    def __init__(self, rig: Rig) -> None:
        assert isinstance(rig.target, Sized)
        super().__init__(rig.own)
        self._device, self._there = rig.target.device_memory, False
        rig.target.beside = _weights(rig.own) + self.room if self.counted else 0

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, capacity)
        if not self._there:
            self._device.take(_weights(self._network) + self.room)
            self._there = True


class NotCounted(OnDevice):
    """Nobody told the target's cache of it."""

    counted = False


# --- a buffer that is found out late ---


class Profiled(Network):
    """Makes its buffer of scores once, for the widest forward that it has heard of; the cache takes the rest."""

    width = PLAIN.k + 1
    spare = 1024

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._memory, self._buffer = Device(4 * MIB), 0

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, capacity)
        if not self._memory.used:
            self._memory.take(_weights(self))
            self._grow(slots * self.width)
            self._memory.take(self._memory.capacity - self._memory.used - self.spare)

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        self._grow(len(span.starts) * (keep or span.width))
        return super().forward(tokens, span, keep)

    def _grow(self, rows: int) -> None:
        needed = rows * self.anatomy.vocabulary * 8
        if needed > self._buffer:
            self._memory.take(needed - self._buffer)
            self._buffer = needed


class ProfiledAtOne(Profiled):
    """Was profiled decoding one token at a time."""

    width = 1


# --- slots that are never freed ---


class Slots(Network):
    """Takes slots for every token of a block before its verdict, and frees a text's slots when the next one comes."""

    #: What eight texts of the setting can take at most.
    slots = 8 * ((PLAIN.words[1] + 3) + PLAIN.max_tokens + PLAIN.k + 1)

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._memory = Device(self.slots)
        self._taken: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        self._memory.give(self._freed(slot))
        self._taken[slot] = 0
        return super().prefill(prompt, slot)

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        for row, start in enumerate(span.starts):
            slot = span.first + row
            more = max(0, start + span.width - self._taken.get(slot, 0))
            self._memory.take(more)
            self._taken[slot] = self._taken.get(slot, 0) + more
            self._committed[slot] = start + 1
        return super().forward(tokens, span, keep)

    def move(self, source: int, target: int) -> None:
        super().move(source, target)
        for table in (self._taken, self._committed):
            table[source], table[target] = table.get(target, 0), table.get(source, 0)

    def _freed(self, slot: int) -> int:
        return self._taken.get(slot, 0)


class CommittedFreed(Slots):
    """Frees the slots of tokens that were kept, and not those that drafts had taken beyond them."""

    def _freed(self, slot: int) -> int:
        return min(self._committed.get(slot, 0), self._taken.get(slot, 0))


def _on_device(rig: Rig) -> Drafter:
    return OnDevice(rig)


_SIZED = Parts(target=Sized, drafter=_on_device)

ENTRIES = (
    Entry(
        "V42",
        "the draft's weights are not counted when the cache is sized",
        "the cache is made of nine tenths of the device less the target's weights alone",
        ANY,
        replace(_SIZED, drafter=NotCounted),
        right=_SIZED,
        right_name="sized",
    ),
    Entry(
        "V43",
        "warm-up profiles one token while verification reads k+1",
        "the buffer of scores is made for one token a request, and the cache takes the rest",
        ANY,
        Parts(target=ProfiledAtOne),
        right=Parts(target=Profiled),
        right_name="profiled",
    ),
    Entry(
        "V44",
        "slots taken for drafts are never freed",
        "of a finished text the slots of kept tokens are freed and those of rejected drafts are not",
        ANY,
        Parts(target=CommittedFreed),
        setting=replace(PLAIN, name="many", kind="endless", prompts=48),
        right=Parts(target=Slots),
        right_name="slots",
    ),
    Entry(
        "V46",
        "a pool that was allocated once hides growth",
        "every request keeps a block of a pool that stands from the start on",
        ("kv_cache_slope",),
        Parts(),
        setting=SOAKED,
        right_name="pooled",
        note="an engine around the scripted one, because a soak runs in a process of its own; `host_memory_slope` sees "
        "nothing of it.",
    ),
)
