"""The NVML reader on a stand-in for the library; its names are compared with the real one's where that is installed."""

from __future__ import annotations

import importlib.util

import pytest

from pytest_specgate.measure.nvml import GpuReader, open_gpu, processes_by_gpu
from pytest_specgate.measure.readings import GpuSample, Unknown
from tests.unit.nvml_library import MIB, Library, install, torch_with


def test_the_device_is_found_by_torchs_uuid_and_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    install(monkeypatch, library, torch_with(cuda="b"))
    reader = open_gpu("cuda")
    assert isinstance(reader, GpuReader)
    assert reader.uuid == "GPU-b"
    read = reader.sample()
    assert read == GpuSample(read.counter_ns, 0x04, 1900, 9 * MIB, {41: 5 * MIB}, 3 * MIB, 0.87, 412.5)
    reader.close()
    assert library.open == 0


def test_without_torch_the_only_device_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Library(uuids=("GPU-a",)))
    reader = open_gpu("cuda")
    assert isinstance(reader, GpuReader)
    assert reader.sample().reserved == 0


def test_an_older_driver_has_another_name_for_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(unsupported=frozenset({"nvmlDeviceGetCurrentClocksEventReasons"}))
    install(monkeypatch, library, torch_with(cuda="a"))
    reader = open_gpu("cuda")
    assert isinstance(reader, GpuReader)
    assert reader.sample().reasons == 0x104


def test_what_a_device_does_not_tell_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name for name in vars(Library) if name.startswith("nvmlDeviceGet") and "Handle" not in name}
    install(monkeypatch, Library(unsupported=frozenset(names)), torch_with(cuda="a"))
    reader = open_gpu("cuda")
    assert isinstance(reader, GpuReader)
    read = reader.sample()
    assert read == GpuSample(read.counter_ns, None, None, None, None, 3 * MIB)


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    assert open_gpu("cuda") == Unknown("cannot be told: install nvidia-ml-py")
    assert processes_by_gpu() == {}


@pytest.mark.parametrize(
    ("library", "torch", "why"),
    [
        (Library(unsupported=frozenset({"nvmlInit"})), None, "NVML does not start (Not Supported)"),
        (Library(), torch_with(cuda="c"), "NVML does not find cuda (Not Found)"),
        (Library(), torch_with(), "NVML does not find cuda (Invalid device id)"),
        (Library(), None, "NVML does not find cuda (which of 2 GPUs it is, torch alone would know)"),
    ],
)
def test_a_device_that_nvml_does_not_know(
    monkeypatch: pytest.MonkeyPatch, library: Library, torch: object, why: str
) -> None:
    install(monkeypatch, library, torch)
    found = open_gpu("cuda")
    assert isinstance(found, Unknown)
    assert found.why.splitlines()[0].rstrip(")") == f"cannot be told: {why}".rstrip(")")
    assert library.open == 0


def test_who_computes_on_which_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(memory={5: None, 6: 1})
    install(monkeypatch, library)
    assert processes_by_gpu() == {"GPU-a": frozenset({5, 6}), "GPU-b": frozenset({5, 6})}
    assert library.open == 0
    install(monkeypatch, Library(unsupported=frozenset({"nvmlDeviceGetCount"})))
    assert processes_by_gpu() == {}


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="needs nvidia-ml-py")
def test_the_real_library_has_these_names_and_values() -> None:
    import pynvml

    names = [name for name in vars(Library) if name.startswith(("nvml", "NVML"))]
    assert [name for name in names if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_CLOCK_SM == Library().NVML_CLOCK_SM
    assert pynvml.nvmlClocksEventReasonSwPowerCap == 0x04
    assert pynvml.nvmlClocksEventReasonHwSlowdown == 0x08
    assert pynvml.nvmlClocksEventReasonSwThermalSlowdown == 0x20
    assert pynvml.nvmlClocksEventReasonHwThermalSlowdown == 0x40
    assert pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown == 0x80
    assert pynvml.nvmlClocksEventReasonGpuIdle == 0x01
