"""Requests are honoured: one verdict on a sweep of made-up requests, with every broken one by name.

All or nothing: a single request that does not get what it asks is a fault. What the target's own rounding can turn is
told apart, by the same noise as greedy exactness is judged by, and counts as kept. Where answers differ and nobody can
tell rounding from a fault, as where a draw is repeated in 16 bits, there is no pass. What looks kept and was held
against nothing is counted, and named.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.gates.context import JudgeContext, Judged
from pytest_specgate.gates.honoured import Broken, Measure, broken, parted
from pytest_specgate.gates.noise import FINE, tolerance
from pytest_specgate.gates.parts import unmeasured
from pytest_specgate.gates.unchecked import unchecked
from pytest_specgate.records import Check, Interval, Outcome, Probe, Samples, Stored, Sweep
from pytest_specgate.suite.cases import Gate

#: Broken requests that the verdict names in full.
MOST_NAMED = 12
_PROMPT_SHOWN = 8
_SCORE = "use an engine that scores texts (a server: name a 'scorer'), or float32"

_FINER = "use float32: no scores tell whether rounding turned a draw"


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:  # noqa: ARG001 - as all
    """The check of one gate. Raises NoVerdict where no request was asked."""
    sweep = samples.sweep
    if sweep is None or not sweep.probes:
        raise unmeasured(gate.spec.metric, context.engine, "use an engine that takes token ids or messages")
    noise = None if sweep.control is None else tolerance(sweep.control, context.place.dtype)
    # A server may find a repeated prompt in its cache, and read it by other kernels.
    control = sweep.control
    steady = control is not None and control.between is None and not control.self_change
    measure = Measure(noise, context.place.dtype in FINE, steady)
    found = tuple(broken(sweep, measure))
    names = list(dict.fromkeys(one.probe for one in found))
    share = 1 - len(names) / len(sweep.probes)
    value = Interval(share, share, share)
    unknown = {name for names in unchecked(sweep, measure).values() for name in names}
    outcome, reason, needed = _judged(sweep, found, names, parted(sweep, measure)[1])
    if unknown and outcome is Outcome.PASS:
        reason += f", as far as can be told: {len(unknown)} of them could not be checked"
    required = gate.spec.limit.text if gate.spec.limit else ""
    check = Check("limit", required, outcome, f"requests: {reason}", value, needed)
    return Judged((check,), value, warnings=tuple(_notes(sweep, found, measure)))


def _judged(
    sweep: Sweep, found: tuple[Broken, ...], names: list[str], untold: tuple[str, ...]
) -> tuple[Outcome, str, str]:
    """(outcome, what was found, what would decide)."""
    count = len(sweep.probes)
    if found:
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        return Outcome.FAIL, f"{len(names)} of {count} are not honoured: {names[0]}{more}: {found[0].what}", ""
    if untold:
        kinds = dict.fromkeys(probe.area for probe in sweep.probes if probe.name in untold)
        said = f"{len(untold)} of {count} are answered otherwise, by rounding or by a fault, and nothing tells which"
        drawn = any(not probe.request.sampling.greedy for probe in sweep.probes if probe.name in untold)
        return Outcome.INCONCLUSIVE, f"{said}: {', '.join(kinds)}", _FINER if drawn else _SCORE
    areas = len({probe.area for probe in sweep.probes})
    return Outcome.PASS, f"all {count} requests of {areas} kinds are honoured by both arms", ""


def _notes(sweep: Sweep, found: tuple[Broken, ...], measure: Measure) -> Iterator[str]:
    probes = {probe.name: probe for probe in sweep.probes}
    ways: dict[str, list[Broken]] = {}
    for one in found:
        ways.setdefault(one.probe, []).append(one)
    for name, broke in list(ways.items())[:MOST_NAMED]:
        arms = " and ".join(dict.fromkeys(one.arm.value for one in broke))
        yield f"{name}, {arms} arm: {broke[0].what} [{shown(probes[name])}]"
    if len(ways) > MOST_NAMED:
        yield f"{len(ways) - MOST_NAMED} more: {', '.join(list(ways)[MOST_NAMED:])}"
    turned, untold = parted(sweep, measure)
    if turned:
        yield f"answers that differ within the target's own noise: {', '.join(turned)}"
    if untold:
        yield f"answers that differ, by rounding or by a fault, which nothing tells apart here: {', '.join(untold)}"
    for why, unknown in unchecked(sweep, measure).items():
        if names := [name for name in unknown if name not in ways]:
            yield f"not checked ({why}): {', '.join(names)}"
    for left_out in sweep.not_asked:
        yield f"not asked: {left_out}"


def shown(probe: Probe) -> str:
    """A request in one line, as a person would make it again; the whole of it is in the JSON report."""
    request, sampling = probe.request, probe.request.sampling
    parts = [f"max_tokens={request.max_tokens}"]
    plain = type(sampling)()
    parts += [
        f"{name}={getattr(sampling, name)!r}"
        for name in sampling.__dataclass_fields__
        if getattr(sampling, name) != getattr(plain, name)
    ]
    parts += [f"{name}={value!r}" for name in ("stop", "stop_ids") if (value := getattr(request, name))]
    parts += ["ignore_eos=True"] if request.ignore_eos else []
    parts += [f"n={request.n}"] if request.n > 1 else []
    parts += ["logprobs=True"] if request.logprobs else []
    parts += [f"cancelled after {request.cancel_after}"] if request.cancel_after is not None else []
    if request.token_ids is not None:
        begin = ", ".join(map(str, request.token_ids[:_PROMPT_SHOWN]))
        more = ", ..." if len(request.token_ids) > _PROMPT_SHOWN else ""
        parts.append(f"a prompt of {len(request.token_ids)} ids [{begin}{more}]")
    return " ".join(parts)
