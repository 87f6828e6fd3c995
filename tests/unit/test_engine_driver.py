"""NVIDIA's driver among the facts of a transformers engine: told where NVML tells it, absent elsewhere."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf.machine import driver_version
from pytest_specgate.engines.transformers import TransformersEngine
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

from .nvml_library import Library


@dataclass
class Driven(Library):
    """NVML that knows its driver, in text or, as it did once, in bytes."""

    version: str | bytes = "575.57.08"

    def nvmlSystemGetDriverVersion(self) -> str | bytes:  # noqa: N802 - the library's name
        self._refuse("nvmlSystemGetDriverVersion")
        assert self.open == 1
        return self.version


@pytest.mark.parametrize(
    ("library", "driver"),
    [
        (Driven(), "575.57.08"),
        (Driven(version=b"575.57.08"), "575.57.08"),
        (Driven(unsupported=frozenset({"nvmlInit"})), None),
        (Driven(unsupported=frozenset({"nvmlSystemGetDriverVersion"})), None),
        (None, None),
    ],
    ids=["text", "bytes", "no driver", "not told", "no library"],
)
def test_the_version_is_nvmls_own(monkeypatch: pytest.MonkeyPatch, library: Driven | None, driver: str | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)  # type: ignore[arg-type]

    assert driver_version() == driver
    assert library is None or library.open == 0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersEngine]:
    folder = tmp_path_factory.mktemp("models")
    tiny.save(folder / "target", tiny.model())
    spec = EngineSpec(target="target", candidate={"method": "prompt_lookup"})
    made = TransformersEngine(EngineContext("e", spec, folder))
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("device", "library", "driver"),
    [("cuda", Driven(), "575.57.08"), ("cuda:1", Driven(), "575.57.08"), ("cuda", None, None), ("cpu", Driven(), None)],
)
def test_a_subject_has_it_on_cuda_alone(
    engine: TransformersEngine,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    library: Driven | None,
    driver: str | None,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)  # type: ignore[arg-type]
    monkeypatch.setattr(engine, "_device", device)

    assert engine.subject().get("driver") == driver


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="needs nvidia-ml-py")
def test_the_real_library_has_that_name() -> None:
    import pynvml

    assert callable(pynvml.nvmlSystemGetDriverVersion)


def test_this_machine_tells_a_version_or_nothing() -> None:
    found = driver_version()
    assert found is None or Path("/proc/driver/nvidia").exists()
