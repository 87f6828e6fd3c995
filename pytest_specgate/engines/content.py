"""What a model *is*: a hash over the bytes of its weight files, remembered between runs.

Hashing costs about 0.1 s per 100 MB, so a file's hash is kept in the user's cache under its path, size and
time of change. Names and folders do not enter: two copies of one checkpoint are the same model.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path

#: Nanoseconds for which a file has to have been left alone before its hash is kept: another change within the tick of
#: the file system's clock would not show.
_SETTLED = 2_000_000_000
#: Digits of a hash that are shown and compared: 64 bits.
_DIGITS = 16


def cache_folder() -> Path:
    """Return ``$SPECGATE_CACHE``, else ``pytest-specgate`` in the user's cache; it need not exist."""
    if chosen := os.environ.get("SPECGATE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pytest-specgate"


def file_hash(path: Path) -> str:
    """Return the sha256 of a file's bytes, 16 hex digits."""
    facts = path.stat()
    key = f"{path.resolve()}|{facts.st_size}|{facts.st_mtime_ns}|{facts.st_ino}"
    note = cache_folder() / "hashes" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if note.is_file() and len(kept := note.read_text(encoding="ascii").strip()) == _DIGITS:
        return kept
    settled = time.time_ns() - facts.st_mtime_ns > _SETTLED
    found = _digest(path)
    if settled:
        _remember(note, found)
    return found


def weights_hash(folder: Path) -> str:
    """Return one hash over all weight files of a model's directory, in the order of their names."""
    files = sorted(folder.glob("*.safetensors")) or sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])
    digest = hashlib.sha256()
    for file in files:
        digest.update(file_hash(file).encode())
    return digest.hexdigest()[:_DIGITS]


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()[:_DIGITS]


def _remember(note: Path, text: str) -> None:
    """Write whole or not at all: another process may read at any time."""
    note.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=note.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    Path(scratch).replace(note)
