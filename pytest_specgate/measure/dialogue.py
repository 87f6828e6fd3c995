"""From conversations to requests: later turns carry the target's own earlier answers.

Both arms are asked exactly the same thing: the history of a turn is what the *reference* arm answered in the first
round. A candidate that diverges early would otherwise be judged on other prompts than the target from then on, and
later rounds on other prompts than the first.

Where the scenario wants requests that no cache knows, each begins in a way of its own: by prompt, round and series, the
name of the pass that asks (the timed rounds have none).

A case that samples draws anew in every round: the first has the request's own seed, each later one a seed made from it
and the round's number, so that a round tells something new and yet gives the same texts whenever it is run.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_specgate.measure.schedule import arrivals
from pytest_specgate.records import Message, Request, Sampling, Trace
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.prompts import Conversation


@dataclass(slots=True)
class Dialogue:
    """Requests of one case; grows by the reference arm's answers during the first round."""

    case: Case
    series: str = ""
    answers: dict[str, str] = field(default_factory=dict)

    def request(self, conversation: Conversation, turn: int, round_number: int = 0) -> Request:
        """The request for a turn (from 0) in a round (from 0); answers to earlier turns must have been remembered."""
        messages = [Message("system", conversation.system)] if conversation.system else []
        for earlier in range(turn):
            messages.append(Message("user", conversation.turns[earlier]))
            messages.append(Message("assistant", self.answers[turn_name(conversation, earlier)]))
        messages.append(Message("user", conversation.turns[turn]))
        spec, name = self.case.scenario.spec, turn_name(conversation, turn)
        first = messages[0]
        messages[0] = Message(first.role, spec.prefix.before(f"{self.series}/{round_number}/{name}") + first.content)
        return Request(
            prompt=name,
            messages=tuple(messages),
            max_tokens=spec.max_tokens,
            sampling=in_round(self.case.sampling, round_number),
            stop=spec.stop,
            ignore_eos=spec.ignore_eos,
        )

    def requests(self, talking: Sequence[Conversation], turn: int, round_number: int = 0) -> list[Request]:
        """The requests of a block, each with the time at which it comes where the scenario has a load."""
        found = [self.request(conversation, turn, round_number) for conversation in talking]
        load = self.case.scenario.spec.load
        if load is None:
            return found
        times = arrivals(load, len(found), round_number, turn)
        return [replace(request, after=after) for request, after in zip(found, times)]

    def remember(self, trace: Trace) -> None:
        """Keep the reference arm's first answer to a turn."""
        self.answers.setdefault(trace.prompt, trace.text)


def in_round(sampling: Sampling, round_number: int) -> Sampling:
    """The sampling setting of a round: another seed in each but the first, where anything is drawn by a seed."""
    if sampling.greedy or sampling.seed is None or round_number == 0:
        return sampling
    return replace(sampling, seed=zlib.crc32(f"{sampling.seed}/{round_number}".encode()))


def turn_name(conversation: Conversation, turn: int) -> str:
    """``qa-03`` for a single turn, ``chat-01/2`` for the second of several."""
    return conversation.id if len(conversation.turns) == 1 else f"{conversation.id}/{turn + 1}"
