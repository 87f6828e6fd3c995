"""``--specgate-selftest`` on servers: losses are planted into what the client hears and reads, and gates turn red."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.engines.plants import heavier, leaking
from pytest_specgate.records import MemoryReading, Served, Soak
from tests.plugin.conftest import Project, project
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import served
from tests.serving.test_scoring import scoring
from tests.serving.test_started import FAST, arm
from tests.serving.test_started import served as started

__all__ = ["project"]
#: It draws where a request has a temperature.
PLAIN = Script(tokens=400, honours=True, drawn="target", window=512)
QUICK = replace(PLAIN, pattern=(1, 3, 2), k=4)
SHORT = {"qa": {"category": "qa", "prompts": {"file": "prompts/p.jsonl", "limit": 8}, "max_tokens": 12}}


def rehearsed(project: Project, candidate: Script, *gates: dict[str, Any], max_tokens: int = 12) -> None:
    """All of these gates turn red."""
    scenarios = {"qa": {**SHORT["qa"], "max_tokens": max_tokens}}
    with scoring(PLAIN) as plain, scoring(candidate) as fast:
        engines = served(plain.url, fast.url)
        project.suite(*gates, engines=engines, scenarios=scenarios, measure={"rounds": 1, "warmup": 1})
        result = project.run("--specgate-selftest", "suites", "-v", "-rs")
    assert result.parseoutcomes() == {"passed": len(gates)}, result.stdout.str()


def many(project: Project) -> None:
    """As many prompts as a median needs."""
    prompts = (json.dumps({"id": f"q{n}", "turns": [f"Say {n}."]}) for n in range(8))
    project.write("suites/prompts/p.jsonl", "\n".join(prompts))


def test_a_delay_is_seen_by_gates_on_times(project: Project) -> None:
    # An answer takes 20 ms at least, and 80 ms with the loss, however fast or slow the machine is.
    many(project)
    rehearsed(project, replace(QUICK, first=0.02), {"metric": "e2el", "limit": "<=79 ms"})


@pytest.mark.parametrize("tells", ["detailed", "summary", ""], ids=["rounds", "totals", "counters"])
def test_a_loss_of_acceptance_is_seen_whoever_tells_of_it(project: Project, tells: str) -> None:
    gates = ({"metric": "acceptance_rate", "limit": ">=25%"}, {"metric": "acceptance_length", "limit": ">=2"})
    rehearsed(project, replace(QUICK, per_request=tells), *gates)


def test_a_biased_sampler_is_seen_by_gates_on_texts(project: Project) -> None:
    many(project)  # the scorer's noise is told by some 256 tokens of the reference arm
    gates = ({"metric": "exact_match", "limit": "==100%"}, {"metric": "greedy_exactness", "limit": "==100%"})
    rehearsed(project, QUICK, *gates, max_tokens=64)


def test_what_a_server_holds_and_keeps_is_seen_by_gates_on_memory(project: Project) -> None:
    gates = ({"metric": "host_memory", "limit": "<=0.9 GiB"}, {"metric": "host_memory_slope", "limit": "<=64 KiB"})
    project.suite(*gates, engines=started(arm(**FAST)), scenarios=SHORT, measure={"rounds": 1, "warmup": 1, "soak": 8})

    result = project.run("--specgate-selftest", "suites", "-v")

    result.assert_outcomes(passed=2)


def test_half_the_room_is_seen_by_gates_on_it(project: Project) -> None:
    held = {"slots": 4, "held": True}
    with FakeServer(Script(**held)) as plain, FakeServer(Script(pattern=(1, 3, 2), k=4, **held)) as fast:
        gate = {"metric": "max_batch", "limit": ">=3"}
        measure = {"rounds": 1, "warmup": 1, "capacity": {"most": 4}}
        project.suite(gate, engines=served(plain.url, fast.url), scenarios=SHORT, measure=measure)
        result = project.run("--specgate-selftest", "suites", "-v")

    result.assert_outcomes(passed=1)
    assert "max_batch 2 requests" in " ".join(result.stdout.str().split())


def test_a_silent_gate_of_a_server_is_named(project: Project) -> None:
    many(project)
    with scoring(PLAIN) as plain, scoring(QUICK) as fast:
        gate, measure = {"metric": "e2el", "limit": "<=3600 s"}, {"rounds": 1, "warmup": 1}
        project.suite(gate, engines=served(plain.url, fast.url), scenarios=SHORT, measure=measure)
        result = project.run("--specgate-selftest", "suites")

    result.assert_outcomes(failed=1)
    assert "a silent gate: it stays green under delay=300%" in " ".join(result.stdout.str().split())


def test_a_heavier_server_holds_more_wherever_that_was_read() -> None:
    read = MemoryReading(max_process_vram=100, gpus={"a": 40, "b": 60}, served=Served(kv_cache_usage=(0.2, 0.7)))

    found = heavier(read, 10)

    assert (found.host_rss, found.max_process_vram, found.gpus) == (None, 110, {"a": 45, "b": 65})
    assert found.served == Served(kv_cache_usage=(0.4, 1.0))


def test_a_leak_grows_with_every_request() -> None:
    read = MemoryReading(soak=Soak(2, (100, 100, 100), vram=(), cache=(5, 5, 5)))

    soak = leaking(read, 10).soak

    assert soak == Soak(2, (120, 140, 160), vram=(), cache=(25, 45, 65))
    assert leaking(MemoryReading(), 10) == MemoryReading()
