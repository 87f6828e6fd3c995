"""Which requests ran at the same time: the unit of timing noise where several run at once.

Requests of one block share every stall of the machine, so they are one observation and not several. Requests that
waited for each other's place are a block as a whole: a stall of one delays the next, and what the machine did between
the arms' two runs is in all of them. Other blocks are found from the traces themselves: requests of one round whose
times overlap. With one request at a time each is its own block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_specgate.records import Arm, Pair, Trace


def blocks(pairs: Sequence[Pair], arm: Arm) -> list[tuple[Pair, ...]]:
    """The pairs of each block of ``arm``, by round and then by time; pairs keep their order inside a block."""
    found: list[tuple[Pair, ...]] = []
    for number in sorted({pair.round for pair in pairs}):
        in_round = [pair for pair in pairs if pair.round == number]
        runs = sorted({pair.run for pair in in_round if pair.run is not None})
        found += [tuple(pair for pair in in_round if pair.run == run) for run in runs]
        told_by_time = [pair for pair in in_round if pair.run is None]
        found += _overlapping(sorted(told_by_time, key=lambda pair: trace_of(pair, arm).submit_ns), arm)
    return found


def block_numbers(pairs: Sequence[Pair]) -> Mapping[tuple[str, int], int] | None:
    """(prompt, round) → number of its block within the round; None if nothing ran at the same time."""
    grouped = blocks(pairs, Arm.CANDIDATE)
    if all(len(block) == 1 for block in grouped):
        return None
    numbers: dict[tuple[str, int], int] = {}
    seen: dict[int, int] = {}
    for block in grouped:
        number = seen.setdefault(block[0].round, 0)
        seen[block[0].round] += 1
        numbers |= {(pair.prompt, pair.round): number for pair in block}
    return numbers


def trace_of(pair: Pair, arm: Arm) -> Trace:
    """The pair's trace by this arm."""
    return pair.reference if arm is Arm.REFERENCE else pair.candidate


def _overlapping(by_start: Sequence[Pair], arm: Arm) -> list[tuple[Pair, ...]]:
    groups: list[list[Pair]] = []
    end = -1
    for pair in by_start:
        trace = trace_of(pair, arm)
        if groups and trace.submit_ns < end:
            groups[-1].append(pair)
        else:
            groups.append([pair])
        end = max(end, trace.chunks[-1].t_ns)
    return [tuple(group) for group in groups]
