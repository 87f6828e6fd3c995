"""What a self-play conversation is made of, and how one is played, a token at a time. Nothing here needs torch.

A script is a list of parts: text that is given, and text that the target draws until it ends its turn.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus import Origin
from openings import FOLLOW_UPS, OPENINGS, REQUESTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

USER_TURN_TOKENS = 96
ANSWER_TOKENS = (96, 128, 192)
USER_TEMPERATURE = 0.9
ANSWER_TEMPERATURE = 0.6
GREEDY_SHARE = 0.75
RECYCLED_SHARE = 0.6
FOLLOW_UP_SHARE = 0.35
GIVEN_FOLLOW_UP_SHARE = 0.5
DISGUISED_SHARE = 0.6
PASSAGE_TOKENS = (24, 128)
REQUEST_TOKENS = 256


@dataclass(frozen=True)
class Given:
    """Token ids that are fed as they stand."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Drawn:
    """At most ``limit`` tokens of the target's own choice; temperature 0 is greedy."""

    origin: Origin
    limit: int
    temperature: float


@dataclass(frozen=True)
class Template:
    """Token ids of the chat template around the words of a conversation."""

    head: tuple[int, ...]
    """Up to the first user turn."""
    to_answer: tuple[int, ...]
    """From the end of a user turn, its end mark left out, to the answer."""
    to_user: tuple[int, ...]
    """From the end of an answer to the next user turn."""
    end: int
    """The mark that ends a turn."""


def template_of(tokenizer: PreTrainedTokenizerBase) -> Template:
    """The chat template's own pieces, found by rendering a conversation and cutting its words out."""
    words = ("\u2460", "\u2461", "\u2462")
    roles = ("user", "assistant", "user")
    messages = [{"role": role, "content": word} for role, word in zip(roles, words, strict=True)]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pieces = []
    for word in words:
        piece, text = text.split(word)
        pieces.append(tuple(tokenizer.encode(piece, add_special_tokens=False)))
    head, to_answer, to_user = pieces
    return Template(head, to_answer[1:], to_user[1:], to_answer[0])


class Writer:
    """Thinks up scripts. Answers that came to their end are kept and handed back as passages to work on."""

    def __init__(
        self,
        template: Template,
        encode: Callable[[str], list[int]],
        rng: random.Random,
        disguise: Callable[[Sequence[int], random.Random], tuple[int, ...]] = lambda ids, _: tuple(ids),
    ) -> None:
        """``disguise`` gives a passage other names and numbers, so that only looking back tells them."""
        self._template, self._encode, self._rng, self._disguise = template, encode, rng, disguise
        self._passages: deque[tuple[int, ...]] = deque(maxlen=2048)

    def remember(self, answer: Sequence[int]) -> None:
        """Keep an answer, without its end mark, as a passage for later requests."""
        shortest, longest = PASSAGE_TOKENS
        if shortest <= len(answer) <= longest:
            self._passages.append(tuple(answer))

    def script(self) -> list[Given | Drawn]:
        """A new conversation, after the template's head."""
        if len(self._passages) >= 8 and self._rng.random() < RECYCLED_SHARE:
            parts = self._request()
        else:
            parts = self._invention(self._rng.choice(OPENINGS))
        while self._rng.random() < FOLLOW_UP_SHARE:
            parts += [Given(self._template.to_user), *self._follow_up()]
        return parts

    def _invention(self, opening: str) -> list[Given | Drawn]:
        """A user turn made up from its first words, and its answer."""
        turn = Drawn(Origin.USER, USER_TURN_TOKENS, USER_TEMPERATURE)
        return [Given(tuple(self._encode(opening))), turn, Given(self._template.to_answer), self._answer()]

    def _follow_up(self) -> list[Given | Drawn]:
        """A further user turn, made up or one of the short ones that fit everywhere, and its answer."""
        if self._rng.random() >= GIVEN_FOLLOW_UP_SHARE:
            return self._invention("")
        return self._asked(tuple(self._encode(self._rng.choice(FOLLOW_UPS))))

    def _request(self) -> list[Given | Drawn]:
        """A user turn that asks for something to be done with passages; an unfinished one is ended by the target."""
        *texts, last = self._rng.choice(REQUESTS).split("{}")
        ids: tuple[int, ...] = ()
        for text in texts:
            ids += (*self._encode(text), *self._passage(REQUEST_TOKENS // len(texts)))
        ids += tuple(self._encode(last))
        if last.strip():
            turn = Drawn(Origin.USER, USER_TURN_TOKENS, USER_TEMPERATURE)
            return [Given(ids), turn, Given(self._template.to_answer), self._answer()]
        return self._asked(ids)

    def _passage(self, longest: int) -> tuple[int, ...]:
        passage = self._rng.choice(self._passages)[:longest]
        return self._disguise(passage, self._rng) if self._rng.random() < DISGUISED_SHARE else passage

    def _asked(self, ids: tuple[int, ...]) -> list[Given | Drawn]:
        return [Given((*ids, self._template.end, *self._template.to_answer)), self._answer()]

    def _answer(self) -> Drawn:
        limit = self._rng.choice(ANSWER_TOKENS)
        if self._rng.random() < GREEDY_SHARE:
            return Drawn(Origin.GREEDY, limit, 0.0)
        return Drawn(Origin.SAMPLED, limit, ANSWER_TEMPERATURE)


class Conversation:
    """One script in play: told what the target would say next, it answers what is said, until it is over."""

    def __init__(self, template: Template, parts: Sequence[Given | Drawn], capacity: int) -> None:
        """A conversation ends with its script, or at ``capacity`` tokens."""
        self.head, self._end, self._capacity = template.head, template.end, capacity
        self._parts = deque(part for part in parts if part != Given(()))
        self._said = 0
        self.tokens, self.origins = list(self.head), [Origin.GIVEN] * len(self.head)
        self.answers: list[tuple[int, ...]] = []
        """Answers that came to their end, without the end mark."""
        self.kept = 0
        """Tokens up to the end of the last answer, which are worth keeping; 0 if there is no answer."""
        self.over = False

    @property
    def temperature(self) -> float:
        """Of the next token; 0 where it is given."""
        part = self._parts[0]
        return part.temperature if isinstance(part, Drawn) else 0.0

    def advance(self, choice: int) -> int:
        """Say the given token if there is one here, else the target's choice; returns what was said."""
        part = self._parts[0]
        token = part.ids[self._said] if isinstance(part, Given) else choice
        self.tokens.append(token)
        self.origins.append(part.origin if isinstance(part, Drawn) else Origin.GIVEN)
        self._said += 1
        if isinstance(part, Drawn):
            self._drew(part, ended=token == self._end)
        elif self._said == len(part.ids):
            self._next_part()
        self.over = self.over or len(self.tokens) >= self._capacity
        return token

    def _drew(self, part: Drawn, *, ended: bool) -> None:
        if not ended and self._said < part.limit:
            return
        if part.origin is not Origin.USER:
            self.kept = len(self.tokens)
            if ended:
                self.answers.append(tuple(self.tokens[-self._said : -1]))
        if ended and self._said > 1:
            self._next_part()
        else:
            # A turn that ran into its limit has no end to go on from, and an empty one nothing to go on with.
            self.over = True

    def _next_part(self) -> None:
        self._parts.popleft()
        self._said = 0
        self.over = not self._parts
