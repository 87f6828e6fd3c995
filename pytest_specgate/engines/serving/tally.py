"""What a server counted, as far as it tells: totals since it started, and what a difference of two says.

A counter that is missing is None and stays None in every difference. One that went down was reset (the server was
started anew, or another replica answered), and then nothing that it says is about our requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_specgate.records import Counts


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests that ended, output tokens, and what speculation did; ``rounds`` are target forwards after prefill.

    ``accepted_at`` counts accepted tokens by draft position, from the first one on. ``preempted`` counts how often a
    request was put back for want of cache, ``cached`` the prompts' tokens that a prefix cache held already.
    """

    requests: int | None = None
    tokens: int | None = None
    rounds: int | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_at: tuple[int, ...] = ()
    preempted: int | None = None
    cached: int | None = None

    @property
    def speculates(self) -> bool:
        """Whether anything is told of speculation."""
        return (self.rounds, self.drafts, self.drafted, self.accepted) != (None, None, None, None)


def since(before: Tally, after: Tally) -> Tally | None:
    """What was counted in between; None where a counter was reset, or vanished.

    Some servers show a counter only once it has counted: it was 0 before.
    """
    found = {}
    for name in ("requests", "tokens", "rounds", "drafts", "drafted", "accepted", "preempted", "cached"):
        old, new = getattr(before, name), getattr(after, name)
        if (old is not None and new is None) or (new is not None and new < (old or 0)):
            return None
        found[name] = None if new is None else new - (old or 0)
    old_at = (*before.accepted_at, *(0,) * len(after.accepted_at))
    at = tuple(new - old for old, new in zip(old_at, after.accepted_at))
    return None if any(one < 0 for one in at) else Tally(**found, accepted_at=at)


def counts(tally: Tally, requests: int, tokens: int) -> Counts | None:
    """Acceptance of so many requests with so many output tokens; None where nothing of it is told.

    A request's first token comes from its prefill; of every further target forward one token is the target's own.
    """
    if not tally.speculates:
        return None
    after_prefill = tokens - requests
    accepted, rounds = tally.accepted, tally.rounds
    if accepted is None:
        if rounds is None:
            return None
        accepted = max(after_prefill - rounds, 0)
    if rounds is None:
        # Forwards that drafted nothing are in no counter, but in the length of the output; tokens that a text's end cut
        # off its last round are missed, at most a draft's length a text.
        rounds = max(after_prefill - accepted, tally.drafts or 0)
    return Counts(rounds, tally.drafts, tally.drafted, _tested(tally), accepted)


def _tested(tally: Tally) -> int | None:
    """Draft tokens that the target looked at: exact where all drafts are of one length, else not told.

    A draft's position is looked at if all before it were accepted.
    """
    if tally.drafts is None or not tally.accepted_at or tally.drafted != tally.drafts * len(tally.accepted_at):
        return None
    return tally.drafts + sum(tally.accepted_at[:-1])
