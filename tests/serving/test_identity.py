"""Whose weights a server serves: what is made of what it says, and what a changed model does to a baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.serving.dialects import DIALECTS, Probe
from pytest_specgate.engines.serving.identity import unlike, weights, without_place
from tests.plugin.conftest import Project, project
from tests.serving.fake_server import FakeServer
from tests.serving.script import Script
from tests.serving.test_end_to_end import SPECULATES, served

__all__ = ["project"]
GATE = {"metric": "conditional_acceptance", "max_drop": "0.02"}


def told(dialect: str, pages: dict[str, Any], model: str = "smol") -> dict[str, str]:
    return dict(DIALECTS[dialect].weights(Probe(pages), model))


def listed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"/v1/models": {"data": list(entries)}}


LLAMA = {"n_params": 134_515_008, "size": 96_576_768, "n_vocab": 49_152, "ftype": "Q4_1", "n_ctx": 1024}


@pytest.mark.parametrize(
    ("dialect", "pages", "expected"),
    [
        (
            "vllm",
            listed({"id": "smol", "root": "org/smol-1b", "max_model_len": 4096}, {"id": "lora", "root": "x"}),
            {"model": "org/smol-1b"},
        ),
        ("vllm", listed({"id": "a", "root": "x"}, {"id": "b", "root": "y"}), {}),
        ("vllm", {}, {}),
        (
            "llamacpp",
            {**listed({"id": "/models/s.gguf", "meta": LLAMA}), "/props": {"model_path": "/models/s.gguf"}},
            {"model": "/models/s.gguf"} | {name: str(LLAMA[name]) for name in ("size", "n_params", "n_vocab", "ftype")},
        ),
        ("llamacpp", {"/props": {"model_path": "/models/s.gguf"}}, {"model": "/models/s.gguf"}),
        (
            "sglang",
            {
                "/get_model_info": {"model_path": "org/smol", "weight_version": "step-40"},
                "/get_server_info": {"quantization": "fp8", "dtype": "auto", "revision": None},
            },
            {"model": "org/smol", "weight_version": "step-40", "quantization": "fp8", "dtype": "auto"},
        ),
        ("sglang", {"/model_info": {"model_path": "org/smol", "weight_version": "default"}}, {"model": "org/smol"}),
        (
            "tgi",
            {"/info": {"model_id": "org/smol", "model_sha": "c0ffee", "model_dtype": "torch.bfloat16"}},
            {"model": "org/smol", "sha": "c0ffee", "dtype": "torch.bfloat16"},
        ),
        ("trtllm", listed({"id": "smol"}), {}),
        ("plain", listed({"id": "smol", "root": "org/smol"}), {}),
    ],
)
def test_what_each_software_tells_of_its_weights(dialect: str, pages: dict[str, Any], expected: dict[str, str]) -> None:
    assert told(dialect, pages) == expected


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("org/smol-1b", "org/smol-1b"),
        ("/data/models/smol-1b/", "smol-1b"),
        ("./smol.gguf", "smol.gguf"),
        ("/home/me/.cache/huggingface/hub/models--org--smol-1b/snapshots/c0ffee0112233", "org/smol-1b@c0ffee01"),
    ],
)
def test_where_a_model_lies_is_no_part_of_it(model: str, shown: str) -> None:
    assert without_place(model) == shown


def test_flags_that_change_what_is_loaded_are_part_of_it() -> None:
    command = ["vllm", "serve", "org/smol", "--quantization", "fp8", "--revision=main", "--port", "8000", "--dtype"]

    assert weights({"model": "org/smol"}, command, None) == "model=org/smol quantization=fp8 revision=main"
    assert weights({}, ["vllm", "serve", "org/smol"], None) == ""


def test_a_model_that_lies_here_is_told_by_its_content(tmp_path: Path) -> None:
    file, folder = tmp_path / "smol.gguf", tmp_path / "smol"
    folder.mkdir()
    found = []
    for change in (b"", b"a", b"b"):
        file.write_bytes(bytes(3 << 20) + change)
        (folder / "model.safetensors").write_bytes(change)
        (folder / "config.json").write_text("{}", encoding="utf-8")
        (folder / "notes.txt").write_bytes(change)
        found.append([weights({"model": str(one)}, ["serve"], tmp_path) for one in (file, folder)])
    files, folders = zip(*found)

    assert len(set(files)) == len(set(folders)) == 3
    assert files[0].startswith("model=smol.gguf content=")
    (folder / "notes.txt").write_text("more", encoding="utf-8")
    assert weights({"model": "smol"}, ["serve"], tmp_path) == folders[2]
    assert weights({"model": "gone"}, ["serve"], tmp_path) == "model=gone"
    (tmp_path / "empty").mkdir()
    assert weights({"model": "empty"}, ["serve"], tmp_path) == "model=empty"


def test_two_servers_are_unlike_where_both_tell_the_same_part_differently() -> None:
    assert unlike("model=a size=3", "model=a") == ""
    assert unlike("", "model=a") == ""
    assert unlike("model=a size=3", "model=a size=4") == (
        "the servers serve different weights: reference model=a size=3, candidate model=a size=4"
    )


def serve(server: FakeServer, root: str) -> None:
    models = {"data": [{"id": "smol", "owned_by": "vllm", **({"root": root} if root else {})}]}
    server.pages["/v1/models"] = (200, "application/json", json.dumps(models))


def said(result: pytest.RunResult) -> str:
    return " ".join(result.stdout.str().split())


def test_a_changed_model_under_the_same_name_has_no_baseline(project: Project) -> None:
    with FakeServer(Script()) as plain, FakeServer(SPECULATES) as fast:
        project.suite(GATE, engines=served(plain.url, fast.url), measure={"rounds": 1})
        project.run("--specgate-update", "suites").assert_outcomes(passed=1)  # by what no server tells
        for server in (plain, fast):
            serve(server, "org/smol-v1")
        unknown = project.run("--specgate", "suites")
        project.run("--specgate-update", "suites").assert_outcomes(passed=1)
        same = project.run("--specgate", "suites")
        for server in (plain, fast):
            serve(server, "org/smol-v2")
        changed = project.run("--specgate", "suites")

    unknown.assert_outcomes(errors=1)
    assert "no baseline for this workload: weights (not recorded then) changed since" in said(unknown)
    same.assert_outcomes(passed=1)
    changed.assert_outcomes(errors=1)
    assert "no baseline for this workload: weights changed since" in said(changed)


def test_an_updated_server_is_compared_all_the_same(project: Project) -> None:
    with FakeServer(Script()) as plain, FakeServer(SPECULATES) as fast:
        for server in (plain, fast):
            serve(server, "org/smol")
        project.suite(GATE, engines=served(plain.url, fast.url), measure={"rounds": 1})
        project.run("--specgate-update", "suites").assert_outcomes(passed=1)
        fast.pages["/version"] = (200, "application/json", '{"version": "0.33.0"}')
        result = project.run("--specgate", "suites")

    result.assert_outcomes(passed=1)


def test_arms_of_two_models_are_warned_of(project: Project) -> None:
    with FakeServer(Script()) as plain, FakeServer(SPECULATES) as fast:
        serve(plain, "org/smol")
        serve(fast, "org/smaller")
        project.suite({**GATE, "limit": ">=40%", "max_drop": None}, engines=served(plain.url, fast.url))
        project.run("--specgate", "--specgate-report=out.json", "suites")

    ((measured,),) = json.loads((project.path / "out.json").read_text(encoding="utf-8"))["measurements"].values()
    told = "the servers serve different weights: reference model=org/smol, candidate model=org/smaller"
    assert any(warning.startswith(told) for warning in measured["warnings"])
    assert measured["workload"]["weights"] == "model=org/smol"
    assert measured["subject"]["candidate_weights"] == "model=org/smaller"
