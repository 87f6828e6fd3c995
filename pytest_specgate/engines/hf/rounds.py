"""Watching transformers' assisted loop: what it drafted and kept in every round.

The loop asks a candidate generator for drafts (``get_candidates``) and tells it how many were kept
(``update_candidate_strategy``); both are public methods of a public class. How the loop *obtains* its
generator is private (``_get_candidate_generator``): that one hook is replaced here, on the instance, and
nowhere else.

transformers verifies its first drafts in the prefill forward itself, so that forward is a round here and no
output token belongs to prefill. A prompt lookup that finds nothing makes a round that drafted nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_specgate.errors import EngineError
from pytest_specgate.records import Round

_HOOK = "_get_candidate_generator"
_METHODS = ("get_candidates", "update_candidate_strategy")
SUPPORTED = "5.17 to 5.24"


def check_hook(model: Any, engine: str) -> None:
    """Raise EngineError where this version of transformers has moved the hook."""
    import transformers
    from transformers.generation import candidate_generator

    base = getattr(candidate_generator, "CandidateGenerator", None)
    missing = [name for name in _METHODS if not callable(getattr(base, name, None))]
    if not callable(getattr(model, _HOOK, None)):
        missing.append(_HOOK)
    if missing:
        what = f"transformers {transformers.__version__} moved {', '.join(missing)}: rounds cannot be watched"
        raise EngineError(engine, what, f"use a version from {SUPPORTED}, or a newer pytest-specgate")


@dataclass(frozen=True, slots=True)
class _Seen:
    """One round as it was seen, in tensors: reading them waits until nothing is timed any more."""

    drafts: Any
    emitted: Any
    matches: Any
    t_ns: int


class RoundLog:
    """Rounds of one generation, filled in by a watched candidate generator."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []
        self._drafts: Any = None
        self._length = 0

    def watch(self, generator: Any) -> Any:
        """Wrap the two methods of this generator instance."""
        get_candidates, update = generator.get_candidates, generator.update_candidate_strategy

        def watched_get(input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            candidates, logits = get_candidates(input_ids, *args, **kwargs)
            self._length = input_ids.shape[1]
            self._drafts = candidates[0, self._length :]
            return candidates, logits

        def watched_update(input_ids: Any, scores: Any, num_matches: Any) -> Any:
            # The streamer has just copied these tokens to the host: the device is done with them.
            now = time.perf_counter_ns()
            self._seen.append(_Seen(self._drafts, input_ids[0, self._length :], num_matches, now))
            return update(input_ids, scores, num_matches)

        generator.get_candidates, generator.update_candidate_strategy = watched_get, watched_update
        return generator

    def rounds(self) -> tuple[Round, ...]:
        """Return the rounds, with transformers' own count of what it kept in all but the last.

        In the last one that count is lowered where the end of text or the budget cuts the block, so what
        was kept is read from the output there: the drafts that stand in it.
        """
        last = len(self._seen) - 1
        return tuple(_round(seen, cut=number == last) for number, seen in enumerate(self._seen))


def _round(seen: _Seen, *, cut: bool) -> Round:
    drafts, emitted = seen.drafts.tolist(), seen.emitted.tolist()
    accepted = _common_prefix(drafts, emitted) if cut else int(seen.matches)
    looked_beyond = accepted < min(len(emitted), len(drafts))
    return Round(len(drafts), accepted + int(looked_beyond), accepted, len(emitted), seen.t_ns)


def _common_prefix(first: list[int], second: list[int]) -> int:
    for length, (one, other) in enumerate(zip(first, second)):  # the shorter one decides
        if one != other:
            return length
    return min(len(first), len(second))


@contextmanager
def watched(model: Any) -> Iterator[RoundLog]:
    """While open, generations of this model instance write their rounds into the log."""
    log, original = RoundLog(), getattr(model, _HOOK)

    def hooked(*args: Any, **kwargs: Any) -> Any:
        return log.watch(original(*args, **kwargs))

    setattr(model, _HOOK, hooked)
    try:
        yield log
    finally:
        delattr(model, _HOOK)
