"""Probes asked of both arms: one call at a time, nothing is timed, and whatever becomes of a request is put down.

What an engine says that it cannot do is left out by name; what it declines is put down as declined, and what it raises
besides as a crash: judging is left to the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

from pytest_specgate.engines.base import Engine, FromOutside
from pytest_specgate.errors import Ended, OutOfMemory, SpecgateError, Unsupported
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Probe, Reply, Request, Trace

#: How often a server that failed is asked whether it lives.
TRIES = 3


@dataclass(slots=True)
class Asking:
    """Probes and replies so far; ``lacking`` are those that an arm does not take at all."""

    engine: Engine
    case: str
    progress: Callable[[str], None]
    probes: list[Probe] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    lacking: set[str] = field(default_factory=set)
    gone: bool = False

    def ask(self, probes: Sequence[Probe]) -> None:
        """Ask both arms, those of one company in one call."""
        for company, group in groupby(probes, key=lambda probe: probe.company or probe.name):
            # What is not taken alone would have the whole company refused.
            together = [probe for probe in group if not (probe.company and probe.same_as in self.lacking)]
            if not together:
                continue
            self.progress(f"{self.case}: request {len(self.probes) + 1}, {company}")
            replies = [self._one_call(together, arm) for arm in Arm]
            if all(replies):
                self.probes += together
                self.replies += [reply for arm in replies for reply in arm]
            silent = any(reply.trace is None for arm in replies for reply in arm)
            if silent and isinstance(self.engine, FromOutside) and not self._mended():
                last = together[0].after or company
                self.left_out.append(f"what comes after {last}: the server does not answer any more")
                self.gone = True
                return

    def _mended(self) -> bool:
        """Whether both arms answer, servers that were started here being started anew."""
        small = self.probes[0].request
        for _ in range(TRIES):
            with suppress(SpecgateError):  # one that is dying still runs for a while
                self.engine.check(1, greedy=True)
                return all(self.engine.generate([small], arm) for arm in Arm)
        return False

    def _one_call(self, probes: Sequence[Probe], arm: Arm) -> list[Reply]:
        try:
            traces = self.engine.generate(list(sent(probes)), arm)
        except Unsupported as error:
            self.lacking.update(probe.name for probe in probes)
            areas = ", ".join(dict.fromkeys(probe.area for probe in probes))
            self.left_out.append(f"{areas}: the {arm.value} arm takes none ({error.what})")
            return []
        except OutOfMemory:
            raise
        except Ended as error:
            return [Reply(probe.name, arm, None, str(error), crashed=True) for probe in probes]
        except SpecgateError as error:
            return [Reply(probe.name, arm, None, str(error)) for probe in probes]
        except Exception as error:  # noqa: BLE001 - whatever a decoder raises is told
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return [Reply(probe.name, arm, None, said, crashed=True) for probe in probes]
        if len(traces) != len(probes):
            said = f"{len(traces)} answers where {len(probes)} were asked for"
            return [Reply(probe.name, arm, None, said, crashed=True) for probe in probes]
        return [Reply(probe.name, arm, trace) for probe, trace in zip(probes, traces)]

    def traces(self, arm: Arm) -> dict[str, Trace]:
        """Answers of one arm, by probe, as far as they make sense."""
        return {
            reply.probe: reply.trace
            for reply in self.replies
            if reply.arm is arm and reply.trace is not None and not trace_problems(reply.trace)
        }


def sent(probes: Sequence[Probe]) -> Iterator[Request]:
    """What is sent: a request for several answers once for all of its probes."""
    left = 0
    for probe in probes:
        if not left:
            yield probe.request
            left = probe.request.n
        left -= 1
