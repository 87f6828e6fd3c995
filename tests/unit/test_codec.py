"""The codec gives back what it was given, and says where it cannot."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_specgate import records
from pytest_specgate.codec import CodecError, decode, encode
from pytest_specgate.records import (
    Arm,
    Capability,
    Chunk,
    Interval,
    Measurement,
    MemoryReading,
    Pair,
    Place,
    Samples,
    Trace,
    Verdict,
)

RECORDS = [kind for name in records.__all__ if dataclasses.is_dataclass(kind := getattr(records, name))]
TRACE = Trace("p", Arm.CANDIDATE, (1, 2), "ab", 3, 10, (Chunk(11, 2),), "eos")
MEASURED = Measurement(
    "e::c", "scripted", Place("cpu", 1, "float32"), {"prompts": "x"}, {},
    (Pair("p", "p", 0, "AB", TRACE, TRACE),), greedy=True,
    memory={Arm.REFERENCE: MemoryReading(host_rss=5)}, capabilities=frozenset(Capability),
)  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_record_survives_json(kind: type, data: st.DataObject) -> None:
    st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
    value = data.draw(st.builds(kind))

    text = json.dumps(encode(value), allow_nan=False)

    assert decode(kind, json.loads(text)) == value


def test_a_whole_measurement_survives() -> None:
    back = decode(Measurement, json.loads(json.dumps(encode(MEASURED))))

    assert back == MEASURED
    assert isinstance(back.pairs[0].candidate.chunks[0], Chunk)
    assert back.capabilities == frozenset(Capability)
    assert list(back.memory) == [Arm.REFERENCE]


def test_numbers_keep_every_bit() -> None:
    interval = Interval(0.1 + 0.2, -0.0, 5e-324)

    back = decode(Interval, json.loads(json.dumps(encode(interval))))

    assert back == interval
    assert math.copysign(1, back.low) == -1


def changed(*path: str | int, to: Any) -> Any:
    data = encode(MEASURED)
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return data


CHUNKS = ("pairs", 0, "candidate", "chunks")
ARM = ("pairs", 0, "candidate", "arm")
WHERE = "pairs[0].candidate"
REFUSED = [
    (CHUNKS, 3, f"{WHERE}.chunks: expected a list, got a whole number"),
    ((*CHUNKS, 0, "t_ns"), True, f"{WHERE}.chunks[0].t_ns: expected a whole number, got true or false"),
    ((*CHUNKS, 0, "t_ns"), 1.0, f"{WHERE}.chunks[0].t_ns: expected a whole number, got a number"),
    (ARM, "both", f"{WHERE}.arm: 'both' is none of reference, candidate"),
    (ARM, [], f"{WHERE}.arm: [] is none of reference, candidate"),
    (("pairs", 0, "extra"), 1, "pairs[0].extra: unknown key"),
    (("seconds",), "1", "seconds: expected a number, got text"),
    (("seconds",), math.nan, "seconds: nan is no finite number"),
    (("seconds",), 10**400, "seconds: inf is no finite number"),
    (("seconds",), None, "seconds: expected a number, got nothing"),
    (("memory", "both"), {}, "memory.both: 'both' is none of reference, candidate"),
    (("memory", "reference", "host_rss"), "x", "memory.reference.host_rss: expected a whole number, got text"),
    (("capabilities",), ["fly"], f"capabilities[0]: 'fly' is none of {', '.join(Capability)}"),
    (("workload", "prompts"), None, "workload.prompts: expected text, got nothing"),
    (("place",), [], "place: expected an object, got a list"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "to", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_a_wrong_value_is_refused_with_its_path(path: tuple[str | int, ...], to: Any, said: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(Measurement, changed(*path, to=to))

    assert str(caught.value) == said
    if "key" not in said:
        assert caught.value.path[: len(path)] == path or caught.value.path == (*path, 0)


@pytest.mark.parametrize("name", ["case", "seconds", "pairs"])
def test_a_missing_key_is_refused_even_where_the_record_has_a_default(name: str) -> None:
    data = encode(MEASURED)
    del data[name]

    with pytest.raises(CodecError, match=rf"^{name}: missing key$"):
        decode(Measurement, data)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_not_stored(number: float) -> None:
    samples = Samples("c", True, (), {"vram": number})

    with pytest.raises(CodecError) as caught:
        encode((samples,))

    assert str(caught.value) == (
        f"[0].scalars.vram: {number} cannot be stored — a number that is not finite was measured"
    )


def test_what_could_not_be_read_back_is_not_stored() -> None:
    with pytest.raises(CodecError) as caught:
        encode({"a": [object()]})

    assert str(caught.value) == "a[0]: object cannot be stored — convert it first"


def test_a_type_that_is_no_part_of_records_has_no_codec() -> None:
    with pytest.raises(TypeError, match="no codec for <class 'bytes'>"):
        decode(bytes, "x")


def test_text_is_changed_on_request_and_names_of_fields_are_not() -> None:
    verdict = Verdict("case", "speedup", "case", records.Outcome.PASS, "case", warnings=("case",))

    data = encode({"case": verdict}, lambda text: text.replace("case", "*"))

    assert data["*"]["case"] == "*"
    assert data["*"]["reason"] == "*"
    assert data["*"]["warnings"] == ["*"]
    assert data["*"]["outcome"] == "PASS"
