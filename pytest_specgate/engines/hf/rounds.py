"""Watching transformers' assisted loop: what it drafted and kept in every round.

The loop asks a candidate generator for drafts (``get_candidates``) and tells it how many were kept
(``update_candidate_strategy``); both are public methods of a public class. How the loop *obtains* its generator is
private (``_get_candidate_generator``): that one hook is replaced here, on the instance, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_specgate.errors import EngineError
from pytest_specgate.records import Round

_HOOK = "_get_candidate_generator"


def check_hook(model: Any, engine: str) -> None:
    """Raise EngineError where this version of transformers has moved the hook."""
    import transformers

    if not callable(getattr(model, _HOOK, None)):
        what = f"transformers {transformers.__version__} has no {_HOOK}, so rounds cannot be watched"
        raise EngineError(engine, what, "use a version from 5.17 to 5.24, or a newer pytest-specgate")


class RoundLog:
    """Rounds of one generation, filled in by a watched candidate generator.

    transformers verifies its first drafts in the prefill forward itself, so that forward is a round here and no output
    token belongs to prefill.
    """

    def __init__(self) -> None:
        self.rounds: list[Round] = []
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
            self._close(input_ids[0, self._length :])
            return update(input_ids, scores, num_matches)

        generator.get_candidates, generator.update_candidate_strategy = watched_get, watched_update
        return generator

    def _close(self, emitted: Any) -> None:
        """One round from what was drafted and what came out; ``num_matches`` of a cut round is not to be trusted."""
        drafts, out = self._drafts.tolist(), emitted.tolist()
        accepted = 0
        while accepted < min(len(drafts), len(out)) and drafts[accepted] == out[accepted]:
            accepted += 1
        cut = accepted == len(out)
        tested = accepted if cut else min(accepted + 1, len(drafts))
        self.rounds.append(Round(len(drafts), tested, accepted, len(out), time.perf_counter_ns()))


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
