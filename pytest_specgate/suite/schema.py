"""The suite format as JSON Schema, for editors: drawn from the same models that validate a suite.

It knows what stands in one file. It does not know whether selectors name something, whether a prompt file
exists, or what a base adds: a suite with ``extends`` may leave out what its base gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel

from pytest_specgate.suite.model import Candidate, Prompts, ScenarioSpec, SuiteSpec
from pytest_specgate.suite.prefixes import Kind
from pytest_specgate.suite.servers import ArmServer, ServerSpec

Schema = dict[str, Any]
_CHOOSING = ("Rule", "GateSpec", "ScenarioSpec")


def json_schema() -> Schema:
    """The JSON Schema (draft 2020-12) of a suite file."""
    schema: Schema = SuiteSpec.model_json_schema()
    definitions: Schema = schema["$defs"]
    for name in ("engines", "scenarios"):
        _close(schema["properties"][name], {"maxLength": 60})
    _close(definitions["SamplingSpec"]["properties"]["logit_bias"])
    _of_matrix(definitions)
    for name in ("engines", "scenarios", "gates"):
        del schema["properties"][name]["examples"]  # text for messages, not values of the type
    prompts = definitions["ScenarioSpec"]["properties"]["prompts"]
    definitions["ScenarioSpec"]["properties"]["prompts"] = {
        "anyOf": [{"type": "string", "minLength": 1}, {"$ref": "#/$defs/Prompts"}],
        **{key: value for key, value in prompts.items() if key not in ("$ref", "allOf")},
    }
    prefix = definitions["ScenarioSpec"]["properties"]["prefix"]
    definitions["ScenarioSpec"]["properties"]["prefix"] = {
        "anyOf": [{"enum": list(get_args(Kind))}, {"$ref": "#/$defs/PrefixSpec"}],
        "default": "as_is",
        "description": prefix["description"],
    }
    for model in (Candidate, ScenarioSpec, Prompts, ServerSpec, ArmServer):
        definitions[model.__name__].pop("required", None)
    _tidy(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-specgate suite",
        **{key: value for key, value in schema.items() if key not in ("title", "required")},
        "if": {"required": ["extends"]},
        "else": _complete(),
    }


def _of_matrix(definitions: Schema) -> None:
    """Options are parts of an engine, and ``where`` names axes."""
    part, matrix, rule = {"$ref": "#/$defs/EngineSpec"}, definitions["MatrixSpec"], definitions["Rule"]
    axes = matrix["properties"]["axes"]
    (options,) = axes["patternProperties"].values()
    (pattern,) = options["patternProperties"]
    options["patternProperties"][pattern] = part
    for one in (axes, options, *(definitions[name]["properties"]["where"] for name in _CHOOSING)):
        _close(one, {"maxLength": 60})
    for one in (matrix, rule):
        told = one["properties"]["engine"]
        one["properties"]["engine"] = {**part, "description": told["description"]}
    del axes["examples"], rule["properties"]["where"]["examples"]


def _close(mapping: Schema, bounds: Mapping[str, int] = MappingProxyType({})) -> None:
    """Refuse names that the pattern refuses; pydantic leaves that open."""
    (pattern,) = mapping["patternProperties"]
    mapping["additionalProperties"] = False
    mapping["propertyNames"] = {"pattern": pattern, **bounds}


def _complete() -> Schema:
    """What a suite without a base must have; not said in the parts, for a child may override half a part."""
    arm = {"anyOf": [{"required": ["url"]}, {"required": ["command"]}]}
    server = {"required": _required(ServerSpec), "properties": {"reference": arm, "candidate": arm}}
    engine = {"properties": {"candidate": {"required": _required(Candidate)}, "server": server}}
    scenario = {
        "required": _required(ScenarioSpec),
        "properties": {"prompts": {"required": _required(Prompts)}},
    }
    return {
        "required": [name for name in _required(SuiteSpec) if name != "engines"],
        "anyOf": [{"required": ["engines"]}, {"required": ["matrix"]}],
        "properties": {
            "engines": {"additionalProperties": engine},
            "scenarios": {"additionalProperties": scenario},
        },
    }


def _required(model: type[BaseModel]) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _tidy(schema: object) -> None:
    """Remove what says nothing: titles that repeat a name, and the default ``additionalProperties``."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        if schema.get("additionalProperties") is True:
            del schema["additionalProperties"]
        for value in schema.values():
            _tidy(value)
    elif isinstance(schema, list):
        for value in schema:
            _tidy(value)
