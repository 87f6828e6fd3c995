"""Acceptance counters per prompt and round, the cut last round left out."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.records import Counts, Pair, Round


def counts(pairs: Sequence[Pair]) -> tuple[Counts, ...]:
    """One entry per round of measuring; empty where the engine cannot tell rounds."""
    if any(pair.candidate.rounds is None for pair in pairs):
        return ()
    return tuple(_count(pair.candidate.rounds or ()) for pair in pairs)


def _count(rounds: Sequence[Round]) -> Counts:
    # A block that end of text, a stop string or the budget cut short tells less than it drafted.
    whole = [r for r in rounds if r.accepted + 1 == r.emitted]
    return Counts(
        rounds=len(whole),
        drafts=sum(1 for r in whole if r.drafted),
        drafted=sum(r.drafted for r in whole),
        tested=sum(r.tested for r in whole),
        accepted=sum(r.accepted for r in whole),
    )
