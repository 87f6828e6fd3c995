"""From the ``kind`` in a suite to an engine: built in, registered by entry point, or ``module:Class``.

Whatever goes wrong on the way is an EngineError; nothing of torch is imported here.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any, cast

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.errors import EngineError, SpecgateError
from pytest_specgate.units import did_you_mean

GROUP = "specgate.engines"
BUILT_IN = {
    "native": "pytest_specgate.engines.native:NativeEngine",
    "openai": "pytest_specgate.engines.openai:OpenAIEngine",
    "scripted": "pytest_specgate.engines.scripted:ScriptedEngine",
    "transformers": "pytest_specgate.engines.transformers:TransformersEngine",
}
_LONGEST = 300  # characters that are shown of a foreign error
_MEMBERS = (
    "capabilities",
    "start",
    "check",
    "generate",
    "memory",
    "place",
    "workload",
    "subject",
    "close",
)


def create(context: EngineContext) -> Engine:
    """Build the engine that the context's ``kind`` names; cheap, nothing is loaded. Raises EngineError."""
    reference = _reference(context)
    build = _load(reference, context)
    try:
        engine = build(context)
        missing = [name for name in _MEMBERS if not hasattr(engine, name)]
    except SpecgateError:
        raise
    except Exception as error:  # a user's class may fail in any way
        raise _cannot_build(reference, context, error) from error
    if missing:
        hint = "write what pytest_specgate.engines.base.Engine lists"
        raise EngineError(context.name, f"{reference} is no engine: it lacks {', '.join(missing)}", hint)
    return cast("Engine", engine)


def _cannot_build(reference: str, context: EngineContext, error: Exception) -> EngineError:
    said = " ".join(str(error).split())[:_LONGEST].rstrip()
    if isinstance(error, TypeError):
        hint = "its constructor takes one argument, the EngineContext"
        return EngineError(context.name, f"cannot build {reference} ({said})", hint)
    why = f"{type(error).__name__}: {said}" if said else type(error).__name__
    hint = "check the engine's keys in the suite, then that class's constructor"
    return EngineError(context.name, f"cannot build {reference} ({why})", hint)


def _reference(context: EngineContext) -> str:
    kind, registered = context.spec.kind, _registered()
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    if kind in registered:
        return registered[kind]
    if ":" in kind:
        return kind
    known = sorted({*BUILT_IN, *registered})
    what = f"unknown engine kind {kind!r}{did_you_mean(kind, known)}"
    hint = f"choose one of {', '.join(known)}, or write 'package.module:Class'"
    raise EngineError(context.name, what, hint)


def _registered() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _load(reference: str, context: EngineContext) -> Any:
    module_name, _, class_name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may fail to import in any way
        hint = "install it, or check the spelling and that it can be imported from here"
        what = f"cannot import {module_name!r} ({type(error).__name__}: {error})"
        raise EngineError(context.name, what, hint) from error
    found = getattr(module, class_name, None)
    if found is None:
        names = [name for name in dir(module) if not name.startswith("_")]
        what = f"{module_name!r} has no {class_name!r}{did_you_mean(class_name, names)}"
        raise EngineError(context.name, what, "check the spelling")
    return found
