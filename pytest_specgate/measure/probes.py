"""What a sweep asks: requests at the edge, where the faults of speculative decoders hide. Pure, in two steps.

:func:`first` needs the engine's bounds alone; :func:`then` makes requests from what the target said to those: an end
inside an accepted block can only be placed where a block is known. Every probe carries what must hold of its answer, so
that judging needs nothing else. Prompts are ordinary text, cut to length in tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.records import Bias, Bounds, Capability, Message, Probe, Request, Sampling, Trace

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
_FAR = 100.0
_PLAIN = ("plain/1", "plain/2", "plain/3")


@dataclass(frozen=True, slots=True)
class Ground:
    """What requests are made from.

    ``words`` are ids of ordinary text, empty for an engine that takes no ids; ``k`` is the draft length; no prompt is
    longer than ``longest`` tokens.
    """

    capabilities: frozenset[Capability]
    k: int
    longest: int
    bounds: Bounds | None = None
    words: tuple[int, ...] = ()

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
        asked = Request(name, messages, self._room(length), Sampling(), ignore_eos=True, token_ids=ids)
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


def first(ground: Ground) -> list[Probe]:
    """Requests that need nothing but the engine's bounds; the plain ones come first."""
    return [
        *(Probe(name, "plain", "another text than the target's", ground.request(n)) for n, name in enumerate(_PLAIN)),
        *_lengths(ground),
        *_windows(ground),
        *_seeds(ground),
    ]


def then(ground: Ground, said: Said) -> list[Probe]:
    """Requests made from the answers to the plain ones, as far as there are any."""
    places = [place for n, name in enumerate(_PLAIN) for place in _places(ground, said, n, name)]
    chosen = places[:: max(1, len(places) // (ground.k + 1))][: ground.k + 1]
    found = [
        *_budgets(ground, said),
        *_ends(ground, chosen),
        *_stops(ground, chosen, said),
        *_least(ground, chosen),
        *_shaped(ground, chosen, said),
        *_filters(ground, said),
    ]
    return [*found, *_company(ground, found), *_again(ground, said)]


def not_asked(ground: Ground) -> Iterator[str]:
    """What no probe asks for, and why."""
    yield "several answers to one request (n>1), logprobs, a cancelled request: the engine protocol has no way to ask"
    if ground.bounds is None:
        yield "prompt lengths, windows, an empty prompt: the engine takes no token ids"
        return
    if Capability.BATCH not in ground.capabilities:
        yield "requests side by side: the engine runs one at a time"
    if Capability.SEEDS not in ground.capabilities:
        yield "seeds: the engine has none"
    for name, window in (("window", ground.bounds.window), ("draft's window", ground.bounds.draft_window)):
        if window is not None and window > ground.longest:
            yield f"the end of the {name}: {window} tokens are more than a sweep reads here ({ground.longest})"
    if ground.bounds.window is None:
        yield "the end of the window: the target names none"


# --- from bounds ----------------------------------------------------------------------------------------------------


def _lengths(ground: Ground) -> Iterator[Probe]:
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


def _windows(ground: Ground) -> Iterator[Probe]:
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


def _seeds(ground: Ground) -> Iterator[Probe]:
    def hot(seed: int | None) -> Request:
        return ground.request(1, sampling=Sampling(HOT, seed=seed))

    if Capability.SEEDS in ground.capabilities:
        yield Probe("seed/1", "seed", "a crash", hot(1))
        same = "another text though prompt and seed are the same"
        yield Probe("seed/1-again", "seed", same, hot(1), same_as="seed/1")
        yield Probe("seed/2", "seed", "a crash", hot(2))
        other = "the same text whatever the seed"
        yield Probe("seed/3", "seed", other, hot(3), unlike=("seed/1", "seed/2"))
    together = "unseeded" if Capability.BATCH in ground.capabilities else ""
    names = tuple(f"unseeded/{n}" for n in (1, 2, 3))
    for name in names:
        others = names[:2] if name == names[2] else ()
        wrong = "the same text for requests that give no seed"
        yield Probe(name, "seed", wrong, hot(None), unlike=others, company=together)


# --- from answers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Output token ``at`` of the answer to plain request ``number``: the first of its kind in the text."""

    number: int
    at: int
    ids: tuple[int, ...]

    @property
    def token(self) -> int:
        return self.ids[self.at]


def _places(ground: Ground, said: Said, number: int, name: str) -> Iterator[_Place]:
    """Tokens that first occur inside a block of the candidate's, if its rounds tell; else all that first occur."""
    del ground
    if name not in said.reference:
        return
    ids = said.reference[name].token_ids
    candidate = said.candidate.get(name)
    inside = _inside(candidate) if candidate is not None and candidate.token_ids == ids else frozenset()
    fresh = [at for at in range(1, len(ids) - 1) if ids[at] not in ids[:at]]
    for at in [at for at in fresh if at in inside] or fresh:
        yield _Place(number, at, ids)


def _inside(trace: Trace) -> frozenset[int]:
    """Places in the output that another token of the same round follows."""
    found, at = set[int](), trace.prefill_tokens
    for each in trace.rounds or ():
        found.update(range(at, at + each.emitted - 1))
        at += each.emitted
    return frozenset(found)


def _told(ground: Ground, ids: tuple[int, ...]) -> tuple[int, ...] | None:
    """What is expected, of an engine whose ids can be relied on."""
    return ids if ground.bounds is not None else None


def _budgets(ground: Ground, said: Said) -> Iterator[Probe]:
    if _PLAIN[0] not in said.reference:
        return
    ids = said.reference[_PLAIN[0]].token_ids
    for budget in range(1, ground.k + 4):
        wrong = f"more or fewer than {budget} tokens"
        asked = ground.request(0, max_tokens=budget)
        yield Probe(f"budget/{budget}", "budget", wrong, asked, expected=_told(ground, ids[:budget]))


def _ends(ground: Ground, places: Sequence[_Place]) -> Iterator[Probe]:
    for number, place in enumerate(places, start=1):
        asked = ground.request(place.number, stop_ids=(place.token,))
        wrong = f"text that goes on after an end at output token {place.at + 1}"
        expected = _told(ground, place.ids[: place.at + 1])
        yield Probe(f"end/{number}", "end of text", wrong, asked, expected=expected)


def _stops(ground: Ground, places: Sequence[_Place], said: Said) -> Iterator[Probe]:
    if said.decode is None:
        return
    for number, place in enumerate(places, start=1):
        before, whole = said.decode(place.ids[: place.at]), said.decode(place.ids[: place.at + 1])
        string = whole[max(0, len(before) - 2) :].strip()
        if not string or string in before or string not in whole or "\ufffd" in string:
            continue
        asked = ground.request(place.number, stop=("\x00 never said", string))
        wrong = f"text that goes on after the stop string {string!r} at output token {place.at + 1}"
        expected = _told(ground, place.ids[: place.at + 1])
        yield Probe(f"stop/{number}", "stop string", wrong, asked, expected=expected)


def _least(ground: Ground, places: Sequence[_Place]) -> Iterator[Probe]:
    for number, place in enumerate(places[:3], start=1):
        least = min(place.at + 2 + number, ground.budget)
        asked = ground.request(place.number, stop_ids=(place.token,), sampling=Sampling(min_tokens=least))
        wrong = f"an end before {least} tokens"
        yield Probe(f"least/{number}", "min_tokens", wrong, asked, never=(place.token,), until=least)
    if ground.bounds is None or not ground.bounds.eos:
        return
    least, eos = ground.k + 2, ground.bounds.eos
    pushed = Sampling(min_tokens=least, logit_bias=(Bias(eos[0], _FAR),))
    asked = ground.request(0, ignore_eos=False, sampling=pushed)
    wrong = f"an end before {least} tokens, though the end of text is made likely"
    yield Probe("least/pushed", "min_tokens", wrong, asked, never=eos, until=least)


def _shaped(ground: Ground, places: Sequence[_Place], said: Said) -> Iterator[Probe]:
    for name, size in (
        ("repetition_penalty", 1.5),
        *(("frequency_penalty", size) for size in (1.5, -1.5)),
        *(("presence_penalty", size) for size in (1.5, -1.5)),
    ):
        asked = ground.request(0, sampling=Sampling(**{name: size}))  # type: ignore[arg-type]  # a field by its name
        wrong = f"text as if {name} {size:g} had not been asked for, or not at every position"
        yield Probe(f"{name}/{size:g}", name, wrong, asked)
    for place in places[:1]:
        barred = Sampling(logit_bias=(Bias(place.token, -_FAR),))
        asked = ground.request(place.number, sampling=barred)
        wrong = f"token {place.token} in spite of a bias of -100"
        yield Probe("bias/barred", "logit_bias", wrong, asked, never=(place.token,), until=ground.budget)
    eos = ground.bounds.eos if ground.bounds else ()
    if forced := [token for token in ground.words if token not in eos][:1]:
        asked = ground.request(2, sampling=Sampling(logit_bias=(Bias(forced[0], _FAR),)))
        wrong = f"another token than {forced[0]} in spite of a bias of 100"
        yield Probe("bias/forced", "logit_bias", wrong, asked, always=forced[0])
    yield from _bad_words(ground, said)


def _bad_words(ground: Ground, said: Said) -> Iterator[Probe]:
    """Words that the target says, as the tokens that they are forbidden by."""
    if said.encode is None or _PLAIN[0] not in said.reference:
        return
    trace = said.reference[_PLAIN[0]]
    words = [word.strip(".,;:!?\"'") for word in trace.text.split()]
    fresh = [word for word in dict.fromkeys(words) if word.isalnum()]
    known = [word for word in fresh if _holds(trace.token_ids, said.encode(f" {word}"))]
    for number, word in enumerate(known[1:3], start=1):
        asked = ground.request(0, sampling=Sampling(bad_words=(word,)))
        wrong = f"the word {word!r}, which the request forbids"
        yield Probe(f"bad-word/{number}", "bad_words", wrong, asked, unlike=(_PLAIN[0],))


def _holds(ids: Sequence[int], part: tuple[int, ...]) -> bool:
    width = len(part)
    return width > 0 and any(tuple(ids[at : at + width]) == part for at in range(len(ids) - width + 1))


def _filters(ground: Ground, said: Said) -> Iterator[Probe]:
    """Draws that can only come out one way: a filter that a path forgets shows in a single token."""
    if _PLAIN[0] not in said.reference:
        return
    expected = _told(ground, said.reference[_PLAIN[0]].token_ids)
    for name, sampling in (
        ("top_k", Sampling(1.0, top_k=1, seed=5)),
        ("top_p", Sampling(1.0, top_p=1e-6, seed=5)),
        ("min_p", Sampling(1.0, min_p=1.0, seed=5)),
        ("temperature", Sampling(1e-4, seed=5)),
    ):
        wrong = f"another text than the most likely one, though {name} leaves nothing else"
        asked = ground.request(0, sampling=sampling)
        yield Probe(f"filter/{name}", name, wrong, asked, expected=expected, same_as=_PLAIN[0])
    both = Sampling(1.0, top_k=1, seed=5, repetition_penalty=1.5)
    wrong = "another text drawn with a repetition penalty than chosen with it"
    asked = ground.request(0, sampling=both)
    yield Probe("filter/penalised", "repetition_penalty", wrong, asked, same_as="repetition_penalty/1.5")


def _company(ground: Ground, found: Sequence[Probe]) -> Iterator[Probe]:
    """Requests of other lengths, budgets and parameters, seeded and not, in one call: each as it is alone."""
    if Capability.BATCH not in ground.capabilities:
        return
    alone = {probe.name: probe for probe in found}
    names = ("budget/2", "least/1", "repetition_penalty/1.5", "bias/barred")
    asked = [alone[name] for name in names if name in alone]
    if ground.bounds is not None:
        asked += [Probe(f"length/{n}", "", "", ground.request(n, n)) for n in (1, ground.k + 3)]
    if Capability.SEEDS in ground.capabilities:
        asked += [Probe("seed/1", "", "", ground.request(1, sampling=Sampling(HOT, seed=1)))]
    for probe in asked[: COMPANY - 1]:
        wrong = "another text beside other requests than alone"
        yield Probe(f"mixed/{probe.name}", "mixed batch", wrong, probe.request, same_as=probe.name, company="mixed")
    extra = ground.request(2, sampling=Sampling(HOT, seed=None))
    yield Probe("mixed/unseeded", "mixed batch", "a crash", extra, company="mixed")


def _again(ground: Ground, said: Said) -> Iterator[Probe]:
    """What was asked before, now that caches are warm and odd requests have passed."""
    if _PLAIN[0] not in said.reference:
        return
    ids = said.reference[_PLAIN[0]].token_ids
    wrong = "another text when a request is repeated"
    repeated = ground.request(0)
    yield Probe("again/same", "warm cache", wrong, repeated, expected=_told(ground, ids), same_as=_PLAIN[0])
    if repeated.token_ids is not None:
        begun = (*repeated.token_ids, *ids[: ground.k + 1])
        rest = ids[ground.k + 1 :]
        asked = replace(repeated, prompt="sweep-continued", token_ids=begun, max_tokens=len(rest))
        wrong = "another text when an answer is continued from its middle"
        yield Probe("again/continued", "warm cache", wrong, asked, expected=rest)
