"""What the scripted engine is told to do, and what it can be told to do wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm
from pytest_specgate.units import did_you_mean

#: What can go wrong, and what it looks like; all but ``start`` and ``drift`` strike the candidate arm alone.
FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "none": "nothing",
        "start": "the engine cannot start",
        "crash": "generation raises an EngineError",
        "oom": "generation raises OutOfMemory",
        "interrupt": "generation raises KeyboardInterrupt, as Ctrl-C would",
        "bad_trace": "the first round claims more accepted than tested tokens",
        "diverge": "one token in the middle of the output differs",
        "tie": "one token in the middle differs, and the target scores both nearly alike",
        "truncate": "the output ends after half of its tokens",
        "overrun": "one token follows the end of the output",
        "nan": "logits are not numbers, and a greedy decoder takes token 0 every time",
        "no_rounds": "the engine cannot tell rounds",
        "no_logits": "the engine cannot score texts",
        "no_costs": "the engine cannot run forwards alone",
        "never_drafts": "every round drafts nothing",
        "drift": "both arms become 2 % slower with every call, as a throttled machine does",
    }
)


@dataclass(frozen=True, slots=True)
class Script:
    """What the fake does. Times in seconds; ``noise`` is the standard deviation of log time per call.

    ``tokens`` are emitted, the end of text being the last of them, unless the request's budget is smaller.
    ``speedup`` is the true ratio of the arms' times per token, ``acceptance`` the chance that a tested draft
    token is kept, ``k`` the draft length; ``draft_cost`` is what a draft forward costs in forwards of the target, and
    ``verify_cost`` what each further token of one adds to it: as told when asked for, in no other time. ``memory``
    gives each arm's peak in bytes; ``batch`` is whether requests may run side by side; ``fault`` (one of
    :data:`FAULTS`) strikes every prompt, or ``fail_on`` alone.
    """

    tokens: int = 32
    seconds_per_token: float = 0.01
    speedup: float = 1.5
    noise: float = 0.01
    acceptance: float = 0.6
    k: int = 4
    draft_cost: float = 0.1
    verify_cost: float = 0.02
    batch: bool = True
    device: str = "simulated"
    target: str = "scripted-target"
    memory: Mapping[str, float] = field(default_factory=lambda: {"reference": 1e9, "candidate": 1.1e9})
    fault: str = "none"
    fail_on: str = ""
    seed: int = 0


def script_of(context: EngineContext) -> Script:
    """The script of an engine's options. Raises EngineError for what is none."""
    options: dict[str, Any] = dict(context.spec.options)
    known = {f.name: f for f in fields(Script)}
    for key, value in options.items():
        if key not in known:
            what = f"unknown option {key!r}{did_you_mean(key, known)}"
            raise EngineError(context.name, what, f"valid: {', '.join(known)}")
        _refuse_wrong_kind(context.name, key, value)
    script = Script(**options)
    if script.fault not in FAULTS:
        what = f"unknown fault {script.fault!r}{did_you_mean(script.fault, FAULTS)}"
        raise EngineError(context.name, what, f"valid: {', '.join(FAULTS)}")
    _refuse_impossible(context.name, script)
    if missing := {arm.value for arm in Arm} - set(script.memory):
        raise EngineError(context.name, f"memory lacks {', '.join(sorted(missing))}", "give bytes for both arms")
    return script


def _refuse_impossible(engine: str, script: Script) -> None:
    hint = "correct the engine's options"
    if script.tokens < 1 or script.k < 1 or not (script.seconds_per_token > 0 and script.speedup > 0):
        raise EngineError(engine, "tokens, k, seconds_per_token and speedup are above 0", hint)
    if not (0 <= script.noise < math.inf and 0 <= script.acceptance <= 1):
        raise EngineError(engine, "noise is at least 0, and acceptance between 0 and 1", hint)
    if not (0 <= script.draft_cost < math.inf and 0 <= script.verify_cost < math.inf):
        raise EngineError(engine, "draft_cost and verify_cost are at least 0", hint)
    if not all(isinstance(peak, (int, float)) and 0 < peak < math.inf for peak in script.memory.values()):
        raise EngineError(engine, "memory is in bytes, above 0", hint)


def _refuse_wrong_kind(engine: str, key: str, value: object) -> None:
    default = getattr(Script(), key)
    wanted = (int, float) if isinstance(default, float) else Mapping if key == "memory" else type(default)
    if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
        raise EngineError(engine, f"option {key}: {value!r} is of the wrong kind", f"write it like {default!r}")
