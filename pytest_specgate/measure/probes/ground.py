"""What requests at the edge are made from: the engine's bounds, ordinary text, and what both arms said before.

A prompt is ordinary text, cut to length in tokens where the engine takes ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.records import Bounds, Capability, Message, Request, Sampling, Trace

#: What prompts are cut from.
TEXT = (
    "The harbour was quiet in the morning, and the boats lay still. A woman walked along the pier with a list of names "
    "counted the nets twice and wrote the number down: forty-two. Later the wind rose from the west; the water turned "
    "grey, and the men came back early. They asked what had been decided. Nothing, she said, before the ice is gone. "
    "In the evening everybody met at the old school to hear how the winter would be shared among them."
)
#: Cache blocks are tried at this length where an engine names none.
BLOCK = 16
#: Requests that run in one call.
COMPANY = 8
#: Hot enough that two texts of a dozen tokens are never the same by chance.
HOT = 1.5
#: A bias that no score stands up to.
FAR = 100.0
#: The requests without parameters, whose answers others are made from and held against.
PLAIN = ("plain/1", "plain/2", "plain/3")


@dataclass(frozen=True, slots=True)
class Ground:
    """What requests are made from.

    ``words`` are ids of ordinary text, empty for an engine that takes no ids; ``k`` is the draft length; no prompt is
    longer than ``longest`` tokens. ``served`` is whether the decoder is a server's, and ``past_end`` whether answers
    can be asked to go on past the end of text, so that their length is known.
    """

    capabilities: frozenset[Capability]
    k: int
    longest: int
    bounds: Bounds | None = None
    words: tuple[int, ...] = ()
    served: bool = False
    past_end: bool = True

    @property
    def budget(self) -> int:
        """Tokens of an ordinary answer: several blocks and a part of one."""
        return 3 * (self.k + 1) + 2

    def request(self, number: int, length: int = 12, **settings: object) -> Request:
        """A greedy request with a prompt of so many tokens; ``number`` picks the text."""
        name, ids = f"sweep-{number}-{length}", None
        messages: tuple[Message, ...] = ()
        if self.words:
            ids = tuple(self.words[(37 * number + place) % len(self.words)] for place in range(length))
        else:
            sentences = TEXT.split(". ")
            messages = (Message("user", f"Go on: {sentences[number % len(sentences)]}"),)
        asked = Request(name, messages, self._room(length), Sampling(), ignore_eos=self.past_end, token_ids=ids)
        return replace(asked, **settings)  # type: ignore[arg-type]  # fields of a request, named by the callers below

    def _room(self, length: int) -> int:
        """The ordinary budget, or what the window leaves of it behind so many tokens."""
        window = self.bounds.window if self.bounds else None
        return self.budget if window is None else max(1, min(self.budget, window - length))


@dataclass(frozen=True, slots=True)
class Said:
    """What the arms answered to the plain requests, and how the engine writes ids as text and back."""

    reference: Mapping[str, Trace]
    candidate: Mapping[str, Trace]
    decode: Callable[[Sequence[int]], str] | None = None
    encode: Callable[[str], tuple[int, ...]] | None = None


def told(ground: Ground, ids: tuple[int, ...]) -> tuple[int, ...] | None:
    """What is expected, of an engine whose ids can be relied on."""
    return ids if ground.bounds is not None and ids else None
