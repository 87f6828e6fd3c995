"""What loading draws on standard error: no progress bar, every warning; and the switches stand as before."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import utils as hub
from transformers import modeling_gguf_pytorch_utils as gguf_reader
from transformers.utils import logging as transformers_logging

from pytest_specgate.engines.hf.quiet import without_progress_bars
from tests import tiny

START = """
import logging, sys
from pathlib import Path
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.suite.model import EngineSpec
from transformers.utils import logging as theirs

class Telling(logging.Handler):
    def emit(self, record):
        sys.stderr.write(f"{record.levelname} {record.name}\\n")

theirs.add_handler(Telling())
folder = Path(sys.argv[1])
drafting = {"method": "draft_model", "draft": "draft"}
candidate = drafting if sys.argv[2] == "target" else {"method": "prompt_lookup"}
engine = create(EngineContext("e", EngineSpec(target=sys.argv[2], candidate=candidate), folder))
engine.start()
engine.close()
"""


def _said_at_start(folder: Path, target: str, **environment: str) -> str:
    """Standard error of a fresh process that starts an engine."""
    environ = {**os.environ, "SPECGATE_CACHE": str(folder / ".cache"), **environment}
    command = [sys.executable, "-c", START, str(folder), target]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder)
    tiny.gguf(folder / "tiny.gguf", tiny.model())
    return folder


@pytest.fixture
def _as_found() -> Iterator[None]:
    yield
    transformers_logging.set_tqdm_hook(None)
    hub.enable_progress_bars()


# --- in a process of its own ------------------------------------------------------------------------------------


def test_bars_are_drawn_where_somebody_asks_for_them(models: Path) -> None:
    assert "Loading weights: 100%" in _said_at_start(models, "target", HF_HUB_DISABLE_PROGRESS_BARS="0")


def test_a_start_draws_no_bar(models: Path) -> None:
    said = _said_at_start(models, "target")

    assert "%" not in said
    assert "\r" not in said


def test_converting_a_gguf_file_draws_no_bar_either(models: Path) -> None:
    said = _said_at_start(models, "tiny.gguf")

    assert "%" not in said
    assert "\r" not in said


def test_a_warning_is_still_told(models: Path) -> None:
    """A checkpoint that lacks weights is one of transformers' own warnings."""
    import safetensors.torch

    folder = models / "lacking"
    tiny.save(folder, tiny.model())
    file = folder / "model.safetensors"
    weights = safetensors.torch.load_file(file)
    weights.pop("model.norm.weight")
    safetensors.torch.save_file(weights, file, metadata={"format": "pt"})

    said = _said_at_start(models, "lacking")

    assert "WARNING transformers.modeling_utils" in said
    assert "\r" not in said


# --- the switches -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_as_found")
def test_the_switches_stand_as_before_even_after_an_error() -> None:
    def hook(draw: object, given: object, options: object) -> None:
        raise AssertionError

    transformers_logging.set_tqdm_hook(hook)
    draw = gguf_reader.tqdm

    def load_in_vain() -> None:
        with without_progress_bars(reading_gguf=True):
            assert hub.are_progress_bars_disabled()
            assert gguf_reader.tqdm is not draw
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load_in_vain()

    assert not hub.are_progress_bars_disabled()
    assert gguf_reader.tqdm is draw
    assert transformers_logging.set_tqdm_hook(None) is hook


@pytest.mark.usefixtures("_as_found")
def test_bars_that_were_off_stay_off() -> None:
    hub.disable_progress_bars()
    with without_progress_bars(), without_progress_bars():
        assert hub.are_progress_bars_disabled()

    assert hub.are_progress_bars_disabled()


def test_levels_of_logging_are_not_touched() -> None:
    before = transformers_logging.get_verbosity(), logging.getLogger("huggingface_hub").level
    with without_progress_bars():
        assert (transformers_logging.get_verbosity(), logging.getLogger("huggingface_hub").level) == before
