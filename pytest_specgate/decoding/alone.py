"""The forwards of a round, each by itself, so that it can be timed alone: same network, same cache, same shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_specgate.decoding.loop import Decoder

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Steps:
    """Forwards that can be run again and again: the target's by width, and the draft's of one token, if it has one."""

    target: Mapping[int, Step]
    draft: Step | None


def steps(decoder: Decoder, texts: Sequence[Sequence[int]], widths: Sequence[int]) -> Steps:
    """Read the texts as rows of one batch and return the forwards that may follow; what ran before is forgotten.

    To be run under ``torch.inference_mode``, before the decoder's next run.
    """
    room = max(map(len, texts)) + max(widths) + 1
    decoder.target.reserve(len(texts), room)
    decoder.drafter.reserve(len(texts), room)
    target = {width: decoder.target.block_after(texts, width) for width in widths}
    return Steps(target, decoder.drafter.step_after(texts))
