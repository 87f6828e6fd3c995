"""What a sweep asks: requests at the edge, where the faults of speculative decoders hide. Pure, in two steps.

:func:`first` needs the engine's bounds alone; :func:`then` makes requests from what the target said to those: an end
inside an accepted block can only be placed where a block is known. Every probe carries what must hold of its answer, so
that judging needs nothing else. There is a module for each kind of thing that is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.measure.probes import answers, company, draws, edges, ends, lasting, leaving, shapes
from pytest_specgate.measure.probes.ground import PLAIN, Ground, Said
from pytest_specgate.records import Capability, Probe

__all__ = ["Ground", "Said", "first", "not_asked", "then"]


def first(ground: Ground) -> list[Probe]:
    """Requests that need nothing but the engine's bounds; the plain ones come first."""
    return [
        *(Probe(name, "plain", "another text than the target's", ground.request(n)) for n, name in enumerate(PLAIN)),
        *lasting.canary(ground),
        *lasting.with_liveness(ground, [*edges.lengths(ground), *edges.windows(ground)]),
        *draws.seeds(ground),
    ]


def then(ground: Ground, said: Said) -> list[Probe]:
    """Requests made from the answers to the plain ones, as far as there are any."""
    places = [place for n, name in enumerate(PLAIN) for place in ends.places(said, n, name)]
    chosen = places[:: max(1, len(places) // (ground.k + 1))][: ground.k + 1]
    found = [
        *ends.budgets(ground, said),
        *ends.ends(ground, chosen),
        *ends.stops(ground, chosen, said),
        *ends.least(ground, chosen),
        *shapes.shaped(ground, chosen, said),
        *draws.filters(ground, said),
        *answers.several(ground, said),
        *answers.quoted(ground, said),
    ]
    return [*found, *company.mixed(ground, found), *leaving.cancelled(ground, said), *company.again(ground, said)]


#: What a request asks for by a capability of its own.
_OFFERED = (
    (Capability.CHOICES, "several answers to one request (n>1)"),
    (Capability.LOGPROBS, "log-probabilities of the output"),
    (Capability.CANCEL, "a request that is cancelled"),
)


def not_asked(ground: Ground) -> Iterator[str]:
    """What no probe asks for, and why."""
    for capability, what in _OFFERED:
        if capability not in ground.capabilities:
            yield f"{what}: the engine offers none"
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
