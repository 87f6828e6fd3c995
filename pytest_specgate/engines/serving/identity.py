"""Whose weights a server serves, as far as it can be told: a name alone stays the same when they change.

It is made of what the server says of its model, of the command's flags that change what is loaded, and, where specgate
started the server and its model is here to see, of the files' sizes and the beginnings and ends of their contents: as
much as tells one set of weights from another without reading all of them. No path of a machine is part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/([0-9a-f]{8})[0-9a-f]*/?$")
_FLAGS = ("quantization", "quantize", "dtype", "revision", "load-format")
_FILES = frozenset({".safetensors", ".bin", ".gguf", ".pt", ".json"})
#: Read from both ends of a file.
_END_BYTES = 1 << 20


def unlike(reference: str, candidate: str) -> str:
    """What is odd about two servers' weights, in a sentence: both tell the same part, and tell it differently."""
    one, other = (dict(part.partition("=")[::2] for part in told.split(" ")) for told in (reference, candidate))
    if not any(one[name] != other[name] for name in one.keys() & other.keys()):
        return ""
    return f"the servers serve different weights: reference {reference}, candidate {candidate}"


def weights(told: Mapping[str, str], command: Sequence[str], folder: Path | None) -> str:
    """``model=org/name quantization=fp8``; empty where nothing is told.

    ``told`` are a dialect's parts, of which ``model`` may be a path; ``command`` is empty and ``folder``, in which it
    ran, None for a server that specgate did not start.
    """
    named = told.get("model", "")
    parts = {**told, **({"model": without_place(named)} if named else {}), **dict(_flags(command))}
    if named and folder is not None and (digest := _content(folder / named)):
        parts["content"] = digest
    return " ".join(f"{name}={value.replace(' ', '_')}" for name, value in parts.items() if value)


def without_place(model: str) -> str:
    """A model's name without where it lies: a Hub id, with its revision from a cache's folder; else the last name."""
    if found := _SNAPSHOT.search(model):
        return f"{found[1].replace('--', '/')}@{found[2]}"
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", ".", "~")) else model


def _flags(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags that change what is loaded, written in one word or two."""
    for number, word in enumerate(command):
        name, given, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _FLAGS:
            continue
        after = command[number + 1] if number + 1 < len(command) else ""
        yield name, value if given else after


def _content(path: Path) -> str:
    """16 hex digits; empty where there is nothing to read."""
    found = hashlib.sha256()
    try:
        files = [path] if path.is_file() else sorted(one for one in path.iterdir() if one.suffix in _FILES)
        for file in files:
            found.update(f"{'' if file == path else file.name}:{file.stat().st_size};".encode())
            found.update(_ends(file))
    except OSError:
        return ""
    return found.hexdigest()[:16] if files else ""


def _ends(file: Path) -> bytes:
    with file.open("rb") as opened:
        begin = opened.read(_END_BYTES)
        opened.seek(max(file.stat().st_size - _END_BYTES, len(begin)))
        return begin + opened.read(_END_BYTES)
