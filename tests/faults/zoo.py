"""The registry: every fault that is rebuilt, in the corpus' order; then what is none, and faults beyond the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.faults import (
    asked,
    breaking,
    caches,
    correctness,
    counting,
    drafting,
    drawing,
    memory,
    sound,
    speed,
    stability,
    vocabularies,
)
from tests.faults.entry import Entry

_MODULES = (
    asked,
    breaking,
    caches,
    correctness,
    counting,
    drafting,
    drawing,
    memory,
    sound,
    speed,
    stability,
    vocabularies,
)
ENTRIES: tuple[Entry, ...] = tuple(
    sorted((entry for module in _MODULES for entry in module.ENTRIES), key=lambda entry: (entry.id[0] != "V", entry.id))
)
BY_ID: Mapping[str, Entry] = MappingProxyType({entry.id: entry for entry in ENTRIES})
