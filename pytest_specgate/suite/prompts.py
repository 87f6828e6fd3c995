"""Prompt files: five formats, told apart by content, all read into the same frozen Conversations.

====================  ======================================================================================
format                a record
====================  ======================================================================================
own                   ``{"id", "turns": [str], ["system"], ["reference"], ["language"], ["category"]}``
Spec-Bench, MT-bench  ``{"question_id", "category", "turns": [str], ["reference"]}``
SPEED-Bench           as Spec-Bench, with ``sub_category``, ``src_id``, ``difficulty``, ``multiturn`` …
ShareGPT              ``{["id"], "conversations": [{"from", "value"}]}``
OpenAI chat           ``{["id"], "messages": [{"role", "content"}]}``, or a batch request with it in ``body``
====================  ======================================================================================

A file is JSON Lines or one JSON array; every record must have the format of the first. **Assistant messages
in ShareGPT and OpenAI records are dropped**: between the user's turns go the answers of the model under
test. Records without an id are named by their place in the file (``prompt-3``). Text is kept as it is,
character for character.

This module knows files and positions; what a record means stands in ``formats``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_specgate.errors import Location, PromptError
from pytest_specgate.suite.formats import Conversation, Format, RecordError, format_of, placeholder_problem
from pytest_specgate.suite.jsonl import Record, records
from pytest_specgate.suite.model import Prompts
from pytest_specgate.units import did_you_mean

__all__ = ["Conversation", "PromptFiles", "load_prompts", "prompts_hash"]

MAX_BYTES = 64 * 2**20
_Key = tuple[Path, int, int]


@dataclass(slots=True)
class PromptFiles:
    """Prompt files read so far, by path, time and size; messages name them relative to ``root``."""

    root: Path = field(default_factory=Path.cwd)
    _read: dict[_Key, tuple[Conversation, ...]] = field(default_factory=dict)

    def conversations(self, path: Path, location: Location) -> tuple[Conversation, ...]:
        """Every conversation of the file; ``location`` is where the suite names it.

        Raises PromptError.
        """
        shown = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        try:
            status = path.stat()
            key = (path, status.st_mtime_ns, status.st_size)
            if key not in self._read:
                self._read[key] = _parse(_text(path, shown, status.st_size), shown)
        except OSError as error:
            raise PromptError(
                location,
                f"prompt file {shown} cannot be read: {error.strerror}",
                "create it or correct the name",
            ) from error
        return self._read[key]


def load_prompts(
    path: Path, selection: Prompts, location: Location, files: PromptFiles | None = None
) -> tuple[Conversation, ...]:
    """The selected conversations of a file, in file order; ``location`` is where the suite names them.

    Raises PromptError: in the prompt file where its content is wrong, at ``location`` where the selection is.
    """
    conversations = (files if files is not None else PromptFiles()).conversations(path, location)
    if selection.only:
        known = {conversation.id for conversation in conversations}
        for name in selection.only:
            if name not in known:
                hint = f"choose ids that {selection.file} holds"
                raise PromptError(location, f"no prompt {name!r}{did_you_mean(name, known)}", hint)
        conversations = tuple(c for c in conversations if c.id in set(selection.only))
    return conversations[: selection.limit]


def prompts_hash(conversations: Iterable[Conversation]) -> str:
    """16 hex digits of SHA-256 over what is sent to the model: ids, system texts and turns, in order."""
    sent = [[c.id, c.system, list(c.turns)] for c in conversations]
    return hashlib.sha256(json.dumps(sent, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _text(path: Path, shown: Path, size: int) -> str:
    if size > MAX_BYTES:
        raise PromptError(
            Location(shown),
            "the file is larger than 64 MiB",
            "keep the prompts that are run in a file of their own",
        )
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        where = Location(shown, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise PromptError(where, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8") from error


def _parse(text: str, shown: Path) -> tuple[Conversation, ...]:
    found: list[Conversation] = []
    places: dict[str, Location] = {}
    format_: Format | None = None
    for record in records(text, shown):
        try:
            format_ = format_ or format_of(record.data)
            conversation = format_.conversation(record.data, record.number)
        except RecordError as problem:
            raise PromptError(record.location, problem.what, problem.hint) from None
        if conversation.id in places:
            raise _duplicate(record, conversation.id, places[conversation.id].line)
        places[conversation.id] = record.location
        found.append(conversation)
    if not found:
        raise PromptError(
            Location(shown),
            "the file holds no prompt",
            'write one JSON object a line: {"id": ..., "turns": [...]}',
        )
    if placeholder := placeholder_problem(found):
        raise PromptError(places[placeholder.prompt], placeholder.what, placeholder.hint)
    return tuple(found)


def _duplicate(record: Record, name: str, line: int) -> PromptError:
    return PromptError(
        record.location,
        f"prompt id {name!r} is given twice (first at line {line})",
        "give every prompt its own id",
    )
