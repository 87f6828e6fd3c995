"""Whether each request of a sweep got what it asks: pure, one request at a time, both arms.

An answer is held against what was asked (budget, ends, what may not be said), against the target's own choice under the
request, against the other arm's answer where only one is right, and against the answers that it must repeat, or not.
Texts that part where the target scores both alike, within its measured noise, are equal here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Probe, Reply, Request, Sweep, Trace
from pytest_specgate.samples.draws import QUOTED
from pytest_specgate.samples.output import accounting_problems

#: A log-probability may be off by so much: 32 bits move it by a hundredth of the first.
QUOTED_FINE = 0.01
#: A logarithm of a chance of one, as rounding leaves it.
_ABOVE = 1e-3


@dataclass(frozen=True, slots=True)
class Broken:
    """A request that an arm did not honour, and how that shows."""

    probe: str
    arm: Arm
    what: str


@dataclass(frozen=True, slots=True)
class Measure:
    """The regret, in logits, that rounding explains (None: unknown), and whether ties are too rare to reckon with.

    ``steady``: the same forward gives the same bits again, on this machine and by this engine.
    """

    noise: float | None
    fine: bool
    steady: bool = False


def broken(sweep: Sweep, measure: Measure) -> Iterator[Broken]:
    """Every broken request, in the order in which they were asked; one may be broken in several ways."""
    answers = Answers(sweep, measure)
    for probe in sweep.probes:
        yield from answers.of_both(probe)


def parted(sweep: Sweep, measure: Measure) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Requests whose answers are not what they have to equal, and not broken: by rounding, and where nobody can tell.

    What a greedy answer has to equal is the other arm's; what any has to, a text that is known, or an earlier answer.
    """
    answers = Answers(sweep, measure)
    found = {probe.name: {answers.differs(probe), *answers.differ_from_own(probe)} for probe in sweep.probes}
    untold = tuple(name for name, how in found.items() if "untold" in how)
    return tuple(name for name, how in found.items() if "rounding" in how and name not in untold), untold


class Answers:
    """Replies by probe and arm, and the comparisons between them."""

    def __init__(self, sweep: Sweep, measure: Measure) -> None:
        self._replies = {(reply.probe, reply.arm): reply for reply in sweep.replies}
        self._probes = {probe.name: probe for probe in sweep.probes}
        self._measure = measure

    def of(self, probe: Probe, arm: Arm) -> Reply | None:
        """What an arm made of a probe."""
        return self._replies.get((probe.name, arm))

    def earlier(self, probe: Probe, arm: Arm) -> Reply | None:
        """The same arm's answer that this one has to repeat."""
        return self._replies.get((probe.same_as, arm))

    def scores(self, reply: Reply) -> bool:
        """Whether the target tells what it would have said, and how exactly."""
        return reply.regrets is not None and self._measure.noise is not None

    def of_both(self, probe: Probe) -> Iterator[Broken]:
        """How either arm broke a request."""
        one, other = (self._replies.get((probe.name, arm)) for arm in (Arm.REFERENCE, Arm.CANDIDATE))
        if one is None or other is None:
            return
        for reply in (one, other):
            yield from (Broken(probe.name, reply.arm, what) for what in self._alone(probe, reply))
        if (one.trace is None) != (other.trace is None) and not (one.crashed or other.crashed):
            refused = one if one.trace is None else other
            if probe.may_refuse:
                what = f"refused ({refused.refusal}) what the other arm answers"
                yield Broken(probe.name, refused.arm, what)
        if one.trace is None or other.trace is None:
            return
        if probe.request.logprobs and other.logs is None:
            told = self._told_otherwise(one.trace, other.trace)
            yield from (Broken(probe.name, Arm.CANDIDATE, what) for what in told)
        if not probe.request.sampling.greedy:
            return
        if what := self._apart(other, _like(one.trace, other.trace), f"the reference arm's: {probe.looks_for}"):
            yield Broken(probe.name, Arm.CANDIDATE, what)

    def differs(self, probe: Probe) -> str:
        """``rounding`` or ``untold`` where the candidate's greedy answer is another one and not broken, else empty."""
        one, other = (self._replies.get((probe.name, arm)) for arm in (Arm.REFERENCE, Arm.CANDIDATE))
        if one is None or other is None or one.trace is None or other.trace is None:
            return ""
        same = _as_far(probe, _like(one.trace, other.trace), _like(other.trace, one.trace))
        if not probe.request.sampling.greedy or same or self._apart(other, _like(one.trace, other.trace), ""):
            return ""
        return "rounding" if self._legitimate(other) else "untold"

    def differ_from_own(self, probe: Probe) -> Iterator[str]:
        """As :meth:`differs`, by each arm against what its answer has to equal whatever the other arm says."""
        for arm in Arm:
            reply = self._replies.get((probe.name, arm))
            if reply is None or reply.trace is None:
                continue
            for ids in self._own(probe, reply, reply.trace):
                own = reply.trace.text if isinstance(ids, str) else _said(reply.trace)
                if not _as_far(probe, own, ids) and not self._apart(reply, ids, "other"):
                    yield "rounding" if self._legitimate(reply) else "untold"

    def _own(self, probe: Probe, reply: Reply, trace: Trace) -> Iterator[Sequence[object]]:
        """What an answer has to equal: a text that is known, else the earlier answer that it repeats."""
        if probe.expected is not None and trace.token_ids:
            yield probe.expected
            return
        earlier = self._replies.get((probe.same_as, reply.arm))
        if earlier is not None and earlier.trace is not None:
            yield _like(earlier.trace, trace)

    def _alone(self, probe: Probe, reply: Reply) -> Iterator[str]:
        """What is wrong with one arm's answer, its own earlier answers at hand."""
        trace = reply.trace
        if trace is None:
            if reply.crashed:
                yield f"crashed ({reply.refusal})"
            elif probe.after:
                yield f"{probe.looks_for} ({reply.refusal})"
            elif not probe.may_refuse:
                yield f"refused ({reply.refusal})"
            return
        if 0 < probe.within < trace.seconds:
            yield f"answered after {trace.seconds:.0f} s: {probe.looks_for}"
        if problems := (*trace_problems(trace), *accounting_problems(trace, probe.request.stop)):
            yield problems[0]
            return
        yield from _said_wrongly(probe, trace)
        yield from _left_wrongly(probe, trace)
        yield from self._quoted_wrongly(probe, reply, trace)
        yield from self._not_the_choice(reply)
        for ids in self._own(probe, reply, trace):
            yield from self._other_than(reply, ids, probe)
        yield from self._unlike(probe, reply, trace)

    def _unlike(self, probe: Probe, reply: Reply, trace: Trace) -> Iterator[str]:
        others = [self._replies.get((name, reply.arm)) for name in probe.unlike]
        traces = [other.trace for other in others if other is not None and other.trace is not None]
        if traces and all(_like(other, trace) == _like(trace, other) for other in traces):
            yield probe.looks_for

    def _other_than(self, reply: Reply, ids: Sequence[object], probe: Probe) -> Iterator[str]:
        if what := self._apart(reply, ids, probe.looks_for):
            yield what

    def _not_the_choice(self, reply: Reply) -> Iterator[str]:
        """Tokens that the target would not choose under the request, whatever the other arm says."""
        noise = self._measure.noise
        if noise is None or reply.regrets is None or self._legitimate(reply):
            return
        worst = max(range(len(reply.regrets)), key=reply.regrets.__getitem__)
        forbidden = reply.regrets[worst] > 1e6
        how_far = "is forbidden" if forbidden else f"lies {reply.regrets[worst]:.3g} logits below the target's choice"
        yield f"output token {worst + 1} {how_far} under this request"

    def _apart(self, reply: Reply, ids: Sequence[object], than: str) -> str:
        """How an answer differs from these ids (or letters) beyond what rounding can do; empty if it does not."""
        assert reply.trace is not None  # noqa: S101 - asked of answers alone
        own = reply.trace.text if isinstance(ids, str) else _said(reply.trace)
        if self._probes[reply.probe].request.cancel_after is not None:
            own, ids = own[: len(ids)], ids[: len(own)]
        common = next((at for at, (a, b) in enumerate(zip(own, ids)) if a != b), min(len(own), len(ids)))
        if own == ids:
            return ""
        if reply.trace.token_ids and common in (len(own), len(ids)):
            return f"{len(own)} tokens instead of {len(ids)}: {than}"
        if self._legitimate(reply) or not self._decides(self._probes[reply.probe], reply):
            return ""
        return f"another token from output token {common + 1} on: {than}"

    def _quoted_wrongly(self, probe: Probe, reply: Reply, trace: Trace) -> Iterator[str]:
        """Log-probabilities that were asked for and are missing, or not the target's own."""
        if not probe.request.logprobs:
            return
        if trace.logprobs is None:
            yield "tells no log-probabilities, which the request asks for"
        elif any(told > _ABOVE for told in trace.logprobs):
            yield f"tells a log-probability of {max(trace.logprobs):.3g}, a chance above 1"
        elif reply.logs is not None:
            yield from self._first_off(trace.logprobs, reply.logs, "the target gives it")

    def _told_otherwise(self, reference: Trace, candidate: Trace) -> Iterator[str]:
        """Where nobody can say what is right: log-probabilities that the arms tell of the same beginning."""
        pairs = zip(_said(reference), _said(candidate))
        common = next((at for at, (a, b) in enumerate(pairs) if a != b), reference.output_tokens)
        told, held = candidate.logprobs or (), reference.logprobs or ()
        if candidate.token_ids or candidate.text == reference.text:
            yield from self._first_off(told[:common], held[:common], "the reference arm tells")

    def _first_off(self, told: Sequence[float], held: Sequence[float], who: str) -> Iterator[str]:
        most = QUOTED_FINE if self._measure.fine else QUOTED
        for at, (one, other) in enumerate(zip(told, held), start=1):
            if not abs(one - other) <= most:
                yield f"output token {at} is told with a log-probability of {one:.3g}, {who} {other:.3g}"
                return

    def _legitimate(self, reply: Reply) -> bool:
        """Whether the target would have said every token itself, within its noise."""
        noise = self._measure.noise
        if noise is None or reply.regrets is None:
            return False
        above = sum(regret > noise for regret in reply.regrets)
        return above <= 1 and max(reply.regrets, default=0.0) <= 2 * noise

    def _decides(self, probe: Probe, reply: Reply) -> bool:
        """Whether unequal texts mean anything: rounding may turn a draw, or a choice that nothing scored."""
        if probe.settled:
            one, other = (self._replies.get((name, reply.arm)) for name in (probe.same_as, probe.settled))
            both = (one.trace, other.trace) if one and other else (None, None)
            if both[0] and both[1] and _like(both[0], both[1]) == _like(both[1], both[0]):
                return True
        if self._measure.fine or self._repeats(probe, reply.arm):
            return True
        return probe.request.sampling.greedy and self.scores(reply)

    def _repeats(self, probe: Probe, arm: Arm) -> bool:
        """Whether the same call came twice, and the other arm answered it alike: then rounding turns nothing."""
        first = self._probes.get(probe.same_as)
        if (
            not self._measure.steady
            or first is None
            or first.request != probe.request
            or first.company
            or probe.company
        ):
            return False
        other = Arm.REFERENCE if arm is Arm.CANDIDATE else Arm.CANDIDATE
        replies = [self._replies.get((name, other)) for name in (first.name, probe.name)]
        one, again = (reply.trace if reply else None for reply in replies)
        return one is not None and again is not None and _like(one, again) == _like(again, one)


def _like(trace: Trace, other: Trace) -> Sequence[object]:
    """The answer's ids where both answers have them, else its letters."""
    return trace.token_ids if trace.token_ids and other.token_ids else trace.text


def _said(trace: Trace) -> Sequence[object]:
    """The answer's ids, or its letters where a server tells no ids."""
    return trace.token_ids or trace.text


def _as_far(probe: Probe, one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether two answers are the same, as far as both go where a caller left."""
    if probe.request.cancel_after is None:
        return one == other
    return one[: len(other)] == other[: len(one)]


def _left_wrongly(probe: Probe, trace: Trace) -> Iterator[str]:
    """An answer that goes on though its caller left, or that ends before."""
    after, count = probe.request.cancel_after, trace.output_tokens
    if after is None:
        if trace.finish == "cancelled":
            yield f"is cancelled after {count} tokens, though nobody left"
    elif trace.finish != "cancelled" and count >= probe.request.max_tokens:
        yield f"goes on to its budget of {count} tokens, though its caller left after {after}"
    elif trace.finish == "cancelled" and count < after:
        yield f"is cut after {count} tokens, before its caller left after {after}"


def _said_wrongly(probe: Probe, trace: Trace) -> Iterator[str]:
    ids = trace.token_ids
    if probe.never and any(token in probe.never for token in ids[: probe.until]):
        at = next(at for at, token in enumerate(ids) if token in probe.never)
        yield f"output token {at + 1} is {ids[at]}: {probe.looks_for}"
    if probe.always is not None and any(token != probe.always for token in ids):
        at = next(at for at, token in enumerate(ids) if token != probe.always)
        yield f"output token {at + 1} is {ids[at]}: {probe.looks_for}"
    if _early(probe.request, trace):
        yield f"ends after {len(ids)} of at least {probe.request.sampling.min_tokens} tokens"


def _early(request: Request, trace: Trace) -> bool:
    least = min(request.sampling.min_tokens, request.max_tokens)
    return trace.output_tokens < least and not (trace.finish == "stop" and request.stop)
