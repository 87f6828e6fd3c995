"""What servers say of their memory: recorded where they could be run, else lines and names as their sources have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_specgate.engines.serving.dialects import DIALECTS, Probe
from pytest_specgate.engines.serving.dialects.rooms import GIB, MIB, Pressure, Rooms
from tests.serving.test_dialects import recorded


def rooms(dialect: str, log: str = "", pages: Mapping[str, Any] | None = None) -> Rooms:
    return DIALECTS[dialect].rooms(log.splitlines(), Probe(pages or {}))


def pressure(dialect: str, pages: Mapping[str, str]) -> Pressure:
    return DIALECTS[dialect].pressure(pages)


# --- vLLM: lines of v1/worker/gpu_model_runner.py, v1/worker/gpu_worker.py and v1/core/kv_cache_utils.py -------------

CONFIG = (
    "(EngineCore_DP0 pid=9) INFO 11-30 15:00:01 [core.py:77] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='m', dtype=torch.bfloat16, tensor_parallel_size={tp}, pipeline_parallel_size={pp}, data_parallel_size=1\n"
)
LOADED = "(Worker_TP{n} pid=9) INFO 11-30 15:00:09 [gpu_model_runner.py:1] Model loading took 7.5 GiB and 3 seconds\n"
POOL = "(Worker_TP{n} pid=9) INFO 11-30 15:00:11 [gpu_worker.py:298] Available KV cache memory: 50.25 GiB\n"
TOKENS = "(EngineCore_DP0 pid=9) INFO 11-30 15:00:12 [kv_cache_utils.py:864] GPU KV cache size: 1,234,560 tokens\n"


def vllm_log(tp: int, workers: int, pools: int, pp: int = 1) -> str:
    lines = [LOADED.format(n=n) for n in range(workers)] + [POOL.format(n=n) for n in range(pools)]
    return CONFIG.format(tp=tp, pp=pp) + "".join(lines) + TOKENS


@pytest.mark.parametrize(
    ("log", "weights", "pool"),
    [
        (vllm_log(1, 1, 1), 7.5, 50.25),
        (vllm_log(2, 2, 2), 15, 100.5),
        (vllm_log(2, 2, 1), 15, 100.5),  # the pool is told once for all of them
        (vllm_log(4, 1, 1), 30, 201),
        (vllm_log(1, 2, 1, pp=2), 15, None),  # stages are not alike
        (vllm_log(2, 0, 0), None, None),
    ],
)
def test_vllms_log(log: str, weights: float | None, pool: float | None) -> None:
    found = rooms("vllm", log)

    assert found.all_weights == (None if weights is None else weights * GIB)
    assert found.kv_cache == (None if pool is None else pool * GIB)
    assert found.kv_cache_tokens == 1_234_560


def test_vllms_room_for_tokens_without_its_log() -> None:
    info = 'vllm:cache_config_info{{block_size="16",cache_dtype="auto",num_gpu_blocks="{}",engine="{}"}} 1.0\n'
    whole = 'vllm:cache_config_info{engine="0",kv_cache_size_tokens="9000",num_gpu_blocks="None"} 1.0\n'

    assert rooms("vllm", pages={"/metrics": info.format(100, 0) + info.format(50, 1)}) == Rooms(kv_cache_tokens=2400)
    assert rooms("vllm", pages={"/metrics": whole}) == Rooms(kv_cache_tokens=9000)
    assert rooms("vllm", pages={"/metrics": info.format("None", 0)}) == Rooms()


def test_vllms_gauges() -> None:
    page = (
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.75\n'
        'vllm:num_requests_waiting{engine="0"} 3.0\nvllm:num_requests_waiting{engine="1"} 1.0\n'
    )

    assert pressure("vllm", {"/metrics": page}) == Pressure(0.5, 4)
    assert pressure("vllm", {"/metrics": "vllm:gpu_cache_usage_perc 0.25\n"}) == Pressure(0.25, None)
    assert pressure("vllm", {"/metrics": ""}) == Pressure()


# --- SGLang: lines of srt/model_executor/model_runner.py and srt/mem_cache/memory_pool.py ----------------------

LOAD = "[2026-11-30 15:00:09{rank}] Load weight end. elapsed=2.00 s, type=X, avail mem=80.84 GB, mem usage={gb} GB.\n"
SPLIT = "[2026-11-30 15:00:10{rank}] KV Cache is allocated. #tokens: {n}, K size: {gb} GB, V size: {gb} GB\n"
JOINT = "[2026-11-30 15:00:10{rank}] KV Cache is allocated. dtype: torch.bfloat16, #tokens: {n}, KV size: {gb} GB\n"


def test_sglangs_log_of_one_gpu() -> None:
    assert rooms("sglang", LOAD.format(rank="", gb=7.5) + SPLIT.format(rank="", n=1000, gb=2)) == Rooms(
        int(7.5 * GIB), 0, None, 4 * GIB, 0, 1000
    )


def test_sglangs_second_model_of_each_worker_is_the_draft() -> None:
    ranks = (" DP0 TP0", " DP0 TP1", " DP1 TP0", " DP1 TP1")
    target = "".join(LOAD.format(rank=rank, gb=8) + JOINT.format(rank=rank, n=1000, gb=4) for rank in ranks)
    draft = "".join(LOAD.format(rank=rank, gb=1) + JOINT.format(rank=rank, n=1000, gb=0.5) for rank in ranks)

    found = rooms("sglang", target + draft)

    assert found == Rooms(32 * GIB, 4 * GIB, None, 18 * GIB, 2 * GIB, 2000)
    assert found.all_weights == 36 * GIB


def test_what_sglang_freed_meanwhile_leaves_its_draft_unmeasured() -> None:
    log = LOAD.format(rank="", gb=82.97) + LOAD.format(rank="", gb=-1.86) + JOINT.format(rank="", n=10, gb=1)

    found = rooms("sglang", log)

    assert (found.weights_target, found.weights_draft, found.all_weights) == (round(82.97 * GIB), None, None)


STATE = {"memory_usage": {"weight": 8.0, "kvcache": 4.0, "token_capacity": 1000, "graph": 0.2}}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"internal_states": [STATE], "tp_size": 2}, Rooms(None, None, 16 * GIB, 8 * GIB, None, 1000)),
        ({"internal_states": [STATE, STATE], "tp_size": 2}, Rooms(None, None, 32 * GIB, 16 * GIB, None, 2000)),
        (
            {"internal_states": [STATE, STATE], "tp_size": 2, "enable_dp_attention": True},
            Rooms(None, None, 16 * GIB, 8 * GIB, None, 2000),
        ),
        ({"internal_states": [STATE], "tp_size": 2, "pp_size": 2}, Rooms()),
        ({"internal_states": [{"memory_usage": {"weight": "?"}}]}, Rooms()),
        ({"internal_states": "?"}, Rooms()),
        ({}, Rooms()),
    ],
)
def test_sglangs_pages(info: dict[str, Any], expected: Rooms) -> None:
    assert rooms("sglang", pages={"/get_server_info": info}) == expected


def test_sglangs_gauges() -> None:
    page = 'sglang:token_usage{tp_rank="0"} 0.28\nsglang:num_queue_reqs{tp_rank="0"} 2.0\n'

    assert pressure("sglang", {"/metrics": page}) == Pressure(0.28, 2)


# --- llama.cpp ---------------------------------------------------------------------------------------------------

BRIEF = "0.02.1 I srv    load_model: initializing, n_slots = {}, n_ctx_slot = 1024, kv_unified = '{}'\n"
DRAFT = "0.01.7 I common_speculative_init_result: loading draft model '/m/draft.gguf'\n"


def test_llamacpps_recorded_log() -> None:
    mib = {name: round(value * MIB) for name, value in (("target", 92.10), ("draft", 17.70))}

    assert rooms("llamacpp", recorded("llamacpp-11434-log.txt")) == Rooms(
        mib["target"], mib["draft"], None, round(48.75 * MIB), round(3.75 * MIB), 2048
    )


def test_llamacpps_log_of_several_devices_and_of_older_builds() -> None:
    log = (
        "load_tensors:        CUDA0 model buffer size =  1242.00 MiB\n"
        "load_tensors:   CPU_Mapped model buffer size =   100.00 MiB\n"
        "llama_new_context_with_model: KV self size  =  256.00 MiB, K (f16):  128.00 MiB, V (f16):  128.00 MiB\n"
    )

    assert rooms("llamacpp", log) == Rooms(1342 * MIB, 0, None, 256 * MIB, 0, None)


@pytest.mark.parametrize(
    ("log", "tokens", "draft"), [(BRIEF.format(2, "false"), 2048, 0), (DRAFT + BRIEF.format(4, "true"), 1024, None)]
)
def test_a_short_log_of_llamacpp_tells_its_room_and_a_page_the_targets_weights(
    log: str, tokens: int, draft: int | None
) -> None:
    models = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"size": 96_576_768, "n_params": 134_515_008}}]}

    assert rooms("llamacpp", log, {"/v1/models": models}) == Rooms(96_576_768, draft, None, None, draft, tokens)


def test_llamacpps_pages_tell_the_room_of_a_single_slot() -> None:
    def props(slots: int) -> dict[str, Any]:
        return {"/props": {"total_slots": slots, "default_generation_settings": {"n_ctx": 4096}}}

    assert rooms("llamacpp", pages=props(1)) == Rooms(kv_cache_tokens=4096)
    assert rooms("llamacpp", pages=props(2)) == Rooms()  # which may share it, or not


def test_llamacpps_gauges_and_slots() -> None:
    busy = {
        "is_processing": True,
        "n_prompt_tokens": 41,
        "n_prompt_tokens_processed": 30,
        "n_prompt_tokens_cache": 11,
        "next_token": [{"n_decoded": 9}],
    }
    slots = json.dumps([{"id": 0, "is_processing": False, "n_prompt_tokens": 70}, {"id": 1, **busy}])
    metrics = "llamacpp:kv_cache_usage_ratio 0.5\nllamacpp:requests_deferred 2\n"

    assert pressure("llamacpp", {"/metrics": metrics, "/slots": ""}) == Pressure(0.5, 2)
    assert pressure("llamacpp", {"/metrics": "", "/slots": slots}) == Pressure(None, None, 50)
    assert pressure("llamacpp", {"/slots": '{"error": "no"}'}) == Pressure()


@pytest.mark.parametrize("name", ["tgi", "trtllm", "plain"])
def test_other_servers_tell_nothing_of_their_memory(name: str) -> None:
    assert rooms(name, vllm_log(1, 1, 1)) == Rooms()
    assert pressure(name, {}) == Pressure()
