"""The scripted target's logits: its own words score highest, whatever came before, give or take a little noise.

The noise depends on how many tokens a forward reads and on nothing else, as rounding does, so that repeating a forward
repeats its numbers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from pytest_specgate.logits import Scores

_CHOICE, _RUNNER_UP, _OTHER = 12.0, 8.0, 2.0
#: Standard deviation of what another forward width does to a logit.
NOISE = 0.004
#: How far the second choice lies below the first where the script says that two tokens are near a tie.
NEAR = 0.005


def scores(
    text: Sequence[int], choices: Sequence[tuple[int, int]], near: int | None, width: int | None, name: str
) -> Scores:
    """Scores of a text; ``choices`` are the target's (first, second) ids by position, nearly tied at ``near``."""
    best, best_ids, runner_up, emitted = [], [], [], []
    for position, (token, (first, second)) in enumerate(zip(text, choices)):
        noise = random.Random(f"{name}:{width}:{position}")
        behind = _CHOICE - NEAR if position == near else _RUNNER_UP
        row = {first: _CHOICE + noise.gauss(0, NOISE), second: behind + noise.gauss(0, NOISE)}
        row.setdefault(token, _OTHER)
        order = sorted(row, key=lambda i: -row[i])
        best.append(row[order[0]])
        best_ids.append(order[0])
        runner_up.append(row[order[1]])
        emitted.append(row[token])
    return Scores(tuple(best), tuple(best_ids), tuple(runner_up), tuple(emitted))
