"""What servers say of their memory: once in their log or on their pages, and from moment to moment in gauges."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_specgate.engines.serving.prometheus import parse

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Rooms:
    """What a server set aside, in bytes over all its devices; None is untold.

    ``weights`` are of all its models; ``weights_draft`` is the draft's part of them, ``kv_cache_draft`` its part of the
    pool of keys and values ``kv_cache``, both 0 where there is none. ``kv_cache_tokens`` is how many tokens of the
    target the pool has room for.
    """

    weights_target: int | None = None
    weights_draft: int | None = None
    weights: int | None = None
    kv_cache: int | None = None
    kv_cache_draft: int | None = None
    kv_cache_tokens: int | None = None

    @property
    def all_weights(self) -> int | None:
        """Of all models, also where each is told alone."""
        if self.weights is not None or self.weights_target is None or self.weights_draft is None:
            return self.weights
        return self.weights_target + self.weights_draft


@dataclass(frozen=True, slots=True)
class Pressure:
    """How full a server is at this moment: the share of its pool that is taken (0-1), and the requests that wait.

    ``tokens`` are those that take the pool, where a server counts them and tells no share; ``running`` are the requests
    that it works at.
    """

    usage: float | None = None
    waiting: int | None = None
    tokens: int | None = None
    running: int | None = None


def gauges(page: str, usage: tuple[str, ...], waiting: str, running: str) -> Pressure:
    """Read all from a page of metrics: the first of the ``usage`` gauges that is there, its mean over replicas."""
    series = parse(page)
    known = [value for name in usage if (value := series.mean(name)) is not None]
    return Pressure(known[0] if known else None, series.total(waiting), running=series.total(running))


def found(lines: Iterable[str], pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """The matches in those lines that have one, in order."""
    return [match for line in lines if (match := pattern.search(line))]


def size(text: str, unit: int) -> int:
    """``12.5`` of a unit of so many bytes."""
    return round(float(text.replace(",", "")) * unit)
