"""Prompts of every awkward length, and answers that end where a window does."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.measure.probes.ground import BLOCK, Ground
from pytest_specgate.records import Probe


def lengths(ground: Ground) -> Iterator[Probe]:
    """Prompts of one to k+3 tokens, around the end of a block of the cache, and of none."""
    if ground.bounds is None:
        return
    block = ground.bounds.block or BLOCK
    most = min(ground.longest, (ground.bounds.window or ground.longest) - 1)
    lengths = {*range(1, ground.k + 4), block - 1, block, block + 1}
    for length in sorted(length for length in lengths if 1 <= length <= most):
        wrong = f"another text than the target's after a prompt of {length} tokens"
        yield Probe(f"length/{length}", "length", wrong, ground.request(length, length))
    empty = ground.request(0, 0, token_ids=())
    yield Probe("empty", "length", "a crash, or arms that disagree about an empty prompt", empty, may_refuse=True)


def windows(ground: Ground) -> Iterator[Probe]:
    """The last k tokens of the target's window, a full one, and the end of the draft's."""
    bounds = ground.bounds
    if bounds is None:
        return
    if bounds.window is not None and bounds.window <= ground.longest:
        for left in range(1, ground.k + 2):
            asked = ground.request(left, bounds.window - left, max_tokens=left)
            wrong = f"a crash or another text in the last {left} tokens of the window"
            yield Probe(f"window/{left}", "window", wrong, asked)
        full = ground.request(0, bounds.window, max_tokens=1)
        yield Probe("window/full", "window", "a crash where the window has no room", full, may_refuse=True)
    small, room = bounds.draft_window, bounds.window or ground.longest
    if small is not None and small < room and small <= ground.longest:
        for left in (ground.k + 1, 1, 0):
            budget = min(ground.budget, room - small + left)
            wrong = "a crash or another text where the draft's window ends"
            asked = ground.request(left, small - left, max_tokens=budget)
            yield Probe(f"draft-window/{left}", "draft window", wrong, asked)
