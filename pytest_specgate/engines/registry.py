"""From the ``kind`` in a suite to an engine: built in, registered by entry point, or named as ``module:Class``."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.units import did_you_mean

GROUP = "specgate.engines"
BUILT_IN = {
    "scripted": "pytest_specgate.engines.scripted:ScriptedEngine",
    "transformers": "pytest_specgate.engines.transformers:TransformersEngine",
}


def create(context: EngineContext) -> Engine:
    """Build the engine that the context's ``kind`` names; cheap, nothing is loaded yet. Raises EngineError."""
    kind = context.spec.kind
    reference = BUILT_IN.get(kind) or _registered().get(kind) or (kind if ":" in kind else None)
    if reference is None:
        known = sorted({*BUILT_IN, *_registered()})
        what = f"unknown engine kind {kind!r}{did_you_mean(kind, known)}"
        raise EngineError(context.name, what, f"choose one of {', '.join(known)}, or write 'package.module:Class'")
    engine: Engine = _load(reference, context)(context)
    if not isinstance(engine, Engine):
        missing = [name for name in _MEMBERS if not hasattr(engine, name)]
        raise EngineError(context.name, f"{reference} is no engine: it lacks {', '.join(missing)}", "see engines/base.py")
    return engine


_MEMBERS = ("capabilities", "start", "check", "generate", "memory", "place", "workload", "subject", "close")


def _registered() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _load(reference: str, context: EngineContext) -> type:
    module_name, _, class_name = reference.partition(":")
    try:
        loaded: type = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        hint = "install it, or check the spelling and that it can be imported from here"
        raise EngineError(context.name, f"cannot import {module_name!r} ({error})", hint) from error
    except AttributeError as error:
        raise EngineError(context.name, f"{module_name!r} has no {class_name!r}", "check the spelling") from error
    return loaded
