"""Gates on the memory of servers, from suite to verdicts: NVML is a stand-in, the servers are fake, the rest real."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import psutil
import pytest

from pytest_specgate.engines.serving.client import MOST_TRIES
from pytest_specgate.errors import TurnedAway
from pytest_specgate.measure.capacity import measure_served
from pytest_specgate.records import Arm
from tests.plugin.conftest import Project, project
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import SPECULATES, served
from tests.serving.test_started import FAST, STARTED, arm
from tests.serving.test_started import served as started
from tests.unit.nvml_library import MIB, Library, install

__all__ = ["project"]
VRAM = (
    {"metric": "vram", "limit": "<=600 MiB"},
    {"metric": "vram_ratio", "limit": "<=1.6x"},
)
USAGE = (
    {"metric": "kv_cache_usage", "limit": "<=50%"},
    {"metric": "kv_cache_usage_p95", "limit": "<=50%"},
    {"metric": "kv_cache_usage_max", "limit": "<=20%"},
)
GAUGES = 'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:num_requests_waiting{engine="0"} 2.0\n'
SLOW = {"gap": 0.02, "gauges": GAUGES}


def command_of(process: psutil.Process) -> list[str]:
    """Its words; none of one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def two_gpus(hold: Callable[[str], Mapping[str, int]], numbers_from: int = 0) -> Library:
    """NVML on which every fake server holds so many MiB of each GPU: ``hold`` sees its script.

    It numbers processes as this system does, or from another number on, as the host of a container does.
    """

    def held(uuid: str) -> Mapping[int, int | None]:
        found: dict[int, int | None] = {1: 5}
        for process in psutil.Process().children(recursive=True):
            command = command_of(process)
            if STARTED in command and uuid in (sizes := hold(command[-1])):
                found[numbers_from + process.pid] = sizes[uuid] * MIB
        return found

    return Library(held=held)


def more_for_the_candidate(script: str) -> Mapping[str, int]:
    """Tensor parallel: both GPUs, and the one that speculates holds half as much again."""
    return {"GPU-a": 300, "GPU-b": 300} if '"k"' in script else {"GPU-a": 200, "GPU-b": 200}


def report(project: Project) -> dict[str, Any]:
    ((measured,),) = json.loads((project.path / "out.json").read_text(encoding="utf-8"))["measurements"].values()
    found: dict[str, Any] = measured
    return found


def said(result: pytest.RunResult) -> str:
    return " ".join(result.stdout.str().split())


def test_vram_of_started_servers_is_summed_over_gpus(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    library = two_gpus(more_for_the_candidate)
    install(monkeypatch, library)
    log = "Model loading took 0.25 GiB and 1.0 seconds\nAvailable KV cache memory: 0.125 GiB\n"
    log += "GPU KV cache size: 4,096 tokens\n"
    project.suite(*VRAM, *USAGE, engines=started(arm(**FAST, **SLOW, log=log)), measure={"rounds": 1})

    result = project.run("--specgate", "--specgate-report=out.json", "--specgate-report=out.md", "suites")

    result.assert_outcomes(passed=4, failed=1)  # the fullest look is above its limit
    candidate, reference = (report(project)["memory"][name] for name in ("candidate", "reference"))
    assert candidate["max_process_vram"] == 600 * MIB
    assert candidate["gpus"] == {"GPU-a": 300 * MIB, "GPU-b": 300 * MIB}
    assert reference["max_process_vram"] == 400 * MIB
    told = candidate["served"]
    assert (told["weights"], told["kv_cache"], told["kv_cache_tokens"]) == (256 * MIB, 128 * MIB, 4096)
    assert set(told["kv_cache_usage"]) == {0.25}
    assert told["waiting"] == 2
    assert candidate["kv_cache"] == 128 * MIB
    assert reference["served"]["weights"] is None
    page = (project.path / "out.md").read_text(encoding="utf-8")
    assert "| weights, as the server says | not measured | 256 MiB |" in page
    assert "| cache pool taken, fullest | not measured | 25.0% |" in page
    assert library.open == 0


def test_servers_that_take_turns_are_looked_at_one_by_one(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(script: str) -> Mapping[str, int]:
        return {"GPU-a": 400 if '"k"' in script else 300}

    install(monkeypatch, two_gpus(alone))
    engines = started(arm(**FAST, gap=0.002), together=False)
    project.suite(*VRAM, engines=engines, measure={"rounds": 1, "warmup": 1})
    project.write("suites/prompts/p.jsonl", '{"id": "q1", "turns": ["Say it."]}\n')

    result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=2)


def test_in_a_container_each_server_is_what_came_when_it_was_started(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, two_gpus(more_for_the_candidate, numbers_from=2**22))
    project.suite(*VRAM, engines=started(arm(**FAST)), measure={"rounds": 1})

    result = project.run("--specgate", "--specgate-report=out.json", "suites")

    result.assert_outcomes(passed=2)
    memory = report(project)["memory"]
    assert [memory[name]["max_process_vram"] for name in ("reference", "candidate")] == [400 * MIB, 600 * MIB]


def test_a_server_in_a_container_may_be_kept_to_some_gpus(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, two_gpus(lambda _: {"GPU-a": 300}, numbers_from=2**22))
    kept = {**arm(**FAST), "env": {"CUDA_VISIBLE_DEVICES": "GPU-b"}}
    project.suite(VRAM[0], engines=started(kept), measure={"rounds": 1})

    result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)  # what came to the other GPU is somebody else's


def test_without_nvml_vram_is_an_error_that_says_what_to_install(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, None)
    project.suite(*VRAM, engines=started(arm(**FAST)), measure={"rounds": 1})

    result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=2)
    told = "vram was not measured: nvidia-ml-py is not installed — pip install 'pytest-specgate[nvidia]'"
    assert told in said(result)
    assert f"vram_ratio{told.removeprefix('vram')}" in said(result)


def test_a_server_on_a_cpu_has_no_vram_and_no_zero(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Library(memory={1: 5}))
    host = {"metric": "host_memory_ratio", "limit": "<=2x"}
    project.suite(VRAM[0], host, engines=started(arm(**FAST)), measure={"rounds": 1})

    result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1, errors=1)
    assert "vram was not measured: none of its processes is on a GPU that NVML lists" in said(result)


def test_a_server_at_a_url_is_found_by_its_port_and_its_host_memory_is_not_believed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Library(uuids=("GPU-a",), held=lambda _: {psutil.Process().pid: 100 * MIB}))
    host = {"metric": "host_memory", "limit": "<=20 GiB"}  # of this very process, whatever it has loaded
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:
        project.suite(VRAM[0], host, engines=served(plain.url, fast.url), measure={"rounds": 1})
        found = project.run("--specgate", "suites")
        engines: Any = served(plain.url, fast.url)
        for server in ("reference", "candidate"):
            engines["pair"]["server"][server]["pid"] = psutil.Process().pid
        project.suite(VRAM[0], host, engines=engines, measure={"rounds": 1})
        named = project.run("--specgate", "suites")

    found.assert_outcomes(passed=1, errors=1)
    assert "host_memory was not measured: who listens at its port may only pass its traffic on" in said(found)
    named.assert_outcomes(passed=2)


def test_a_server_that_tells_no_occupancy_is_unmeasured(project: Project) -> None:
    script = replace(SPECULATES, gap=0.02)
    with FakeServer() as plain, FakeServer(script) as fast:
        project.suite(USAGE[0], engines=served(plain.url, fast.url), measure={"rounds": 1})
        result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    told = "kv_cache_usage was not measured: the candidate server (vLLM) does not tell how full its cache is — "
    hint = "start vLLM without --disable-log-stats, and let /metrics through where a proxy stands before it"
    assert told + hint in said(result)


def test_a_software_without_gauges_is_told_to_have_none(project: Project) -> None:
    with FakeServer() as plain, FakeServer(replace(SPECULATES, gap=0.02)) as fast:
        engines = served(plain.url, fast.url, dialect="auto")
        for server in (plain, fast):
            server.pages = {"/metrics": (404, "", ""), "/version": (404, "", "")}
            server._owner = "somebody"
        project.suite(USAGE[0], engines=engines, measure={"rounds": 1})
        result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    told = (
        "the candidate server (OpenAI protocol) does not tell how full its cache is, for its software has no such gauge"
    )
    assert f"kv_cache_usage was not measured: {told} — remove the gate" in said(result)


def test_a_soak_follows_the_servers_own_memory(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, two_gpus(more_for_the_candidate))
    gates = (
        {"metric": "vram_slope", "limit": "<=1 MiB"},
        {"metric": "kv_cache_slope", "limit": "<=1 KiB"},
    )
    log = "Available KV cache memory: 0.125 GiB\n"
    engines = started(arm(**FAST, gauges=GAUGES, log=log))
    project.suite(*gates, engines=engines, measure={"rounds": 1, "soak": 8})

    result = project.run("--specgate", "--specgate-report=out.json", "suites")

    result.assert_outcomes(passed=2)
    soak = report(project)["memory"]["candidate"]["soak"]
    assert soak["vram"] == [600 * MIB] * 8
    assert soak["cache"] == [32 * MIB] * 8
    own = psutil.Process().memory_info().rss
    assert all(5 * MIB < held < own for held in soak["host"])  # the server's, which loads less than we did


def test_requests_that_were_put_back_are_counted_and_told(project: Project) -> None:
    gate = {"metric": "preemptions", "limit": "<=0"}
    scenario = {"category": "qa", "prompts": "prompts/p.jsonl", "concurrency": [1, 2]}
    with FakeServer() as plain, FakeServer(SPECULATES) as fast:

        def too_many() -> None:
            fast.script = replace(SPECULATES, preempts=int(fast.counters.requests >= 14))

        fast.after_reply = too_many
        project.suite(gate, engines=served(plain.url, fast.url), scenarios={"qa": scenario}, measure={"rounds": 1})
        result = project.run("--specgate", "--specgate-report=out.md", "suites")

    result.assert_outcomes(passed=1, failed=1)
    page = (project.path / "out.md").read_text(encoding="utf-8")
    assert "pair::qa-t0: none up to 1, requests were put back for want of cache at 2 at once" in page
    assert "preemptions: requests put back for want of cache: reference 0, candidate" in page


def test_a_server_that_does_not_count_them_is_unmeasured(project: Project) -> None:
    gate = {"metric": "preemptions", "limit": "<=0"}
    with FakeServer() as plain, FakeServer(replace(SPECULATES, counters=False)) as fast:
        project.suite(gate, engines=served(plain.url, fast.url), measure={"rounds": 1})
        result = project.run("--specgate", "suites")

    result.assert_outcomes(errors=1)
    told = "preemptions: not measured by this engine (openai) — gate a server that counts them at /metrics"
    assert told in said(result)


BATCH = (
    {"metric": "max_batch", "limit": "3..3"},
    {"metric": "max_batch_ratio", "limit": "0.5x..0.5x"},
)
#: Answers when it was looked at, however busy the machine is.
HELD = replace(SPECULATES, held=True)


def filled(
    project: Project, candidate: Script, *gates: dict[str, str]
) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """The run of a suite whose reference server has six slots, and what the candidate's server was asked."""
    with FakeServer(Script(slots=6, held=True)) as plain, FakeServer(candidate) as fast:
        scenario = {"category": "qa", "prompts": {"file": "prompts/p.jsonl", "limit": 1}, "max_tokens": 13}
        measure = {"rounds": 1, "warmup": 1, "capacity": {"most": 7}}
        project.suite(*gates, engines=served(plain.url, fast.url), scenarios={"qa": scenario}, measure=measure)
        result = project.run("--specgate", "--specgate-report=out.json", "suites")
    return result, fast.requests


@pytest.mark.parametrize("bound", [{"slots": 3}, {"slots": 5, "room": 3}], ids=["waits", "puts-back"])
def test_the_largest_batch_of_a_server_is_where_nobody_waits_and_nobody_is_put_back(
    project: Project, bound: dict[str, int]
) -> None:
    result, asked = filled(project, replace(HELD, **bound), *BATCH)

    result.assert_outcomes(passed=2)
    capacity = report(project)["memory"]["candidate"]["capacity"]
    assert (capacity["max_batch"], capacity["exhausted"]) == (3, True)
    assert [rate["concurrency"] for rate in capacity["rates"]] == [1, 2, 3]
    crowd = [body for body in asked if body.get("ignore_eos")]
    begins = [body["messages"][0]["content"].partition("\n")[0] for body in crowd]
    assert len(crowd) == 1 + 2 + 4 + 3
    assert len(set(begins)) == 4  # what a prefix cache keeps for one of them is of no use to another


@pytest.mark.parametrize("beyond", ["refused", "later"])
def test_a_server_that_turns_away_what_does_not_fit_has_room_for_what_it_takes(project: Project, beyond: str) -> None:
    result, _ = filled(project, replace(HELD, slots=3, beyond=beyond, retry_after="0"), *BATCH)

    result.assert_outcomes(passed=2)
    capacity = report(project)["memory"]["candidate"]["capacity"]
    assert (capacity["max_batch"], capacity["exhausted"], capacity["refused"]) == (3, True, [4])
    told = "max_batch: the candidate server turned requests away (429 or 503) at 4 at once: counted as not fitting"
    assert told in said(result)


def test_a_server_that_turns_a_lone_request_away_tells_no_largest_batch(arms: Arms) -> None:
    engine, _, fast = arms(replace(HELD, status=429, retry_after="0"))

    with pytest.raises(TurnedAway, match="refuses the request with status 429"):
        measure_served(engine, [ask()], Arm.CANDIDATE, 4)

    assert len(fast.requests) == MOST_TRIES


def test_a_server_without_such_gauges_tells_no_largest_batch(project: Project) -> None:
    result, _ = filled(project, HELD, BATCH[0])

    result.assert_outcomes(errors=1)
    told = "max_batch was not measured: candidate server "
    assert told in said(result)
    assert "does not tell how many requests it runs at once — start vLLM without --disable-log-stats" in said(result)


def test_requests_that_are_over_too_soon_tell_no_largest_batch(project: Project) -> None:
    result, _ = filled(project, replace(SPECULATES, gauges="vllm:num_requests_running 0.0\n"), BATCH[0])

    result.assert_outcomes(errors=1)
    why = "was never seen to run 1 requests at once, nor to let one wait: they were over too soon"
    assert f"{why} — raise the scenario's max_tokens" in said(result)


def test_a_pid_is_for_a_server_at_a_url(project: Project) -> None:
    engines = started({**arm(**FAST), "pid": 7})
    project.suite(*VRAM, engines=engines)

    result = project.run("--specgate", "suites")

    assert "'pid' is for a server at a url — remove it: what specgate starts it knows" in said(result)
