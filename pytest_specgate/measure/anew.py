"""A case measured anew in a process of its own: what a restart changes shows between such sessions and nowhere else."""

from __future__ import annotations

from typing import Any

from pytest_specgate.codec import CodecError, decode, encode
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError, Location
from pytest_specgate.measure.child import ChildFailed, ask, encode_context
from pytest_specgate.records import Measurement, Sampling
from pytest_specgate.suite.cases import Case, Scenario
from pytest_specgate.suite.model import EngineSpec, ScenarioSpec
from pytest_specgate.suite.prompts import Conversation

TIMEOUT_SECONDS = 4 * 3600


def measure_anew(context: EngineContext, case: Case, rounds: int, warmup: int) -> Measurement:
    """The case on an engine started for it alone, so many rounds. Raises EngineError with the child's last words."""
    order = {"context": encode_context(context), "case": encode_case(case), "rounds": rounds, "warmup": warmup}
    try:
        return decode(Measurement, ask("pytest_specgate.measure.anew_child", order, TIMEOUT_SECONDS))
    except (ChildFailed, CodecError) as error:
        what = f"{case.id}: measuring in a process of its own failed: {error}"
        raise EngineError(context.name, what, "run the engine alone to see why, or record one session") from None


def encode_case(case: Case) -> dict[str, Any]:
    """What of the case is measured, as JSON can carry it; its gates stay at home."""
    return {
        "engine": case.engine,
        "engine_spec": case.engine_spec.model_dump(mode="json", exclude_defaults=True),
        "scenario": case.scenario.name,
        "spec": case.scenario.spec.model_dump(mode="json"),
        "conversations": encode(case.scenario.conversations),
        "sampling": encode(case.sampling),
        "concurrency": case.concurrency,
        "path": str(case.scenario.location.path),
    }


def decode_case(data: dict[str, Any]) -> Case:
    """The inverse of :func:`encode_case`."""
    conversations = tuple(decode(Conversation, one) for one in data["conversations"])
    spec = ScenarioSpec.model_validate(data["spec"])
    scenario = Scenario(data["scenario"], spec, Location(data["path"]), conversations)
    engine_spec = EngineSpec.model_validate(data["engine_spec"])
    sampling = decode(Sampling, data["sampling"])
    return Case(data["engine"], engine_spec, scenario, sampling, data["concurrency"], ())
