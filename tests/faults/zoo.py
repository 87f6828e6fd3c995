"""The registry: every fault that is rebuilt, in the corpus' order."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.faults import asked, caches, correctness, drafting
from tests.faults.entry import Entry

ENTRIES: tuple[Entry, ...] = tuple(
    sorted((*asked.ENTRIES, *correctness.ENTRIES, *caches.ENTRIES, *drafting.ENTRIES), key=lambda entry: entry.id)
)
BY_ID: Mapping[str, Entry] = MappingProxyType({entry.id: entry for entry in ENTRIES})
