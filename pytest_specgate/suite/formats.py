"""What a record of each prompt format means: a table of readers, told apart by the keys they hold.

Readers are pure: a record (JSON object) and its number in the file go in, a Conversation comes out, or
RecordError with what is wrong and what to do. Positions are added by ``prompts``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_specgate.units import did_you_mean

Data = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One prompt: the user's turns in order; the model's own answers go between them.

    ``id`` is unique in its file; ``reference`` is a known good answer to the last turn where there is one;
    ``language`` and ``category`` are as the file names them. ``answer`` is what the scenario's check
    demands of the answer to the last turn, as text, an object as JSON; empty where the reference says it.
    """

    id: str
    turns: tuple[str, ...]
    system: str = ""
    reference: str = ""
    language: str = ""
    category: str = ""
    answer: str = ""


class RecordError(ValueError):
    """A record that its format's reader cannot understand."""

    def __init__(self, what: str, hint: str, prompt: str = "") -> None:
        super().__init__(f"{what} — {hint}")
        self.what = what
        self.hint = hint
        self.prompt = prompt


@dataclass(frozen=True, slots=True)
class Format:
    """A prompt format: its name, whether a record is of it, and its reader."""

    name: str
    fits: Callable[[Data], bool]
    read: Callable[[Data, int], Conversation]

    def conversation(self, data: Data, number: int) -> Conversation:
        """The record as a conversation. Raises RecordError, also for a record of another format."""
        if not self.fits(data):
            raise RecordError(f"this record is not {self.name}, as the file's first is", "keep one format in one file")
        return self.read(data, number)


def format_of(data: Data) -> Format:
    """The format whose keys the record holds. Raises RecordError where there is none."""
    for format_ in FORMATS:
        if format_.fits(data):
            return format_
    keys = ", ".join(sorted(data)[:8]) or "none"
    raise RecordError(f"no known prompt format has the keys: {keys}", 'write {"id": ..., "turns": ["..."]}')


_PLACEHOLDERS = ("FULL BENCHMARK DATA SHOULD BE FETCHED", "FETCH FROM SOURCE", "<PLACEHOLDER", "[PLACEHOLDER")


def placeholder_problem(conversations: Sequence[Conversation]) -> RecordError | None:
    """Texts that stand for others: a benchmark without its prompts, which would be measured as if real."""
    for conversation in conversations:
        if any(turn.lstrip().upper().startswith(_PLACEHOLDERS) for turn in conversation.turns):
            what = f"prompt {conversation.id!r} holds a placeholder instead of its text"
            return RecordError(what, _FETCH, conversation.id)
    texts = {turn for conversation in conversations for turn in conversation.turns}
    if len(conversations) > 1 and len(texts) == 1:
        what = f"all {len(conversations)} prompts have the same text: placeholders, or one prompt copied"
        return RecordError(what, _FETCH, conversations[0].id)
    return None


_FETCH = "fetch the full texts with the benchmark's own tool (SPEED-Bench: its prepare step), and name that file here"


# --- parts ----------------------------------------------------------------------------------------


def _text(data: Data, key: str, *, default: str | None = None) -> str:
    value = data.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise RecordError(f"{key!r} is no text", "write it as a JSON string")
    return value


def _identity(data: Data, key: str, number: int) -> str:
    value = data.get(key)
    if value is None:
        return f"prompt-{number}"
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise RecordError(f"{key!r} is no usable id", "write a short text that no other prompt has")
    return str(value)


def _turns(turns: object) -> tuple[str, ...]:
    if not isinstance(turns, list) or not turns:
        raise RecordError("'turns' holds no turn", 'write the user\'s turns as a list: ["..."]')
    for number, turn in enumerate(turns, start=1):
        if not isinstance(turn, str):
            raise RecordError(f"turn {number} is no text", "write every turn as a JSON string")
        if not turn.strip():
            raise RecordError(f"turn {number} is empty", "write the user's text, or remove the turn")
    return tuple(turns)


def _objects(data: Data, key: str) -> list[Data]:
    value = data.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RecordError(f"{key!r} is no list of objects", "see the format's own description")
    return value


# --- readers --------------------------------------------------------------------------------------

_OWN_KEYS = ("id", "turns", "system", "reference", "language", "category", "answer")


def _read_own(data: Data, number: int) -> Conversation:
    for key in data:
        if key not in _OWN_KEYS:
            raise RecordError(
                f"unknown key {key!r}{did_you_mean(key, _OWN_KEYS)}", f"valid keys: {', '.join(_OWN_KEYS)}"
            )
    if "id" not in data:
        raise RecordError("the prompt has no 'id'", "give it one: pairing and baselines go by it")
    rest = {key: _text(data, key, default="") for key in _OWN_KEYS[2:-1]}
    return Conversation(_identity(data, "id", number), _turns(data["turns"]), **rest, answer=_answer(data))


def _answer(data: Data) -> str:
    """What is right, as text: a number as its digits, an object as JSON."""
    value = data.get("answer", "")
    if isinstance(value, bool) or not isinstance(value, (str, int, float, dict)):
        raise RecordError("'answer' is no text, number or JSON schema", "write what the scenario's check asks for")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_question(data: Data, number: int) -> Conversation:
    """Spec-Bench, MT-bench and SPEED-Bench: ``reference`` is a text, or a list with one entry a turn."""
    reference = data.get("reference")
    last = reference[-1] if isinstance(reference, list) and reference else reference
    return Conversation(
        _identity(data, "question_id", number),
        _turns(data.get("turns")),
        reference=last if isinstance(last, str) else "",
        category=_text(data, "category", default=""),
    )


_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "system": "system",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
}


def _read_sharegpt(data: Data, number: int) -> Conversation:
    messages = []
    for item in _objects(data, "conversations"):
        speaker = _text(item, "from")
        if speaker not in _SHAREGPT_ROLES:
            raise RecordError(f"speaker {speaker!r} is not supported", "keep human, gpt and system messages")
        messages.append((_SHAREGPT_ROLES[speaker], _text(item, "value")))
    return _from_messages(_identity(data, "id", number), messages)


def _read_openai(data: Data, number: int) -> Conversation:
    body = data.get("body")
    holder = body if isinstance(body, dict) else data
    messages = []
    for item in _objects(holder, "messages"):
        role = _text(item, "role")
        if role not in ("system", "developer", "user", "assistant"):
            raise RecordError(f"role {role!r} is not supported", "keep system, user and assistant messages")
        if role != "assistant":
            messages.append((role.replace("developer", "system"), _content(item)))
    return _from_messages(_identity(data, "custom_id" if "custom_id" in data else "id", number), messages)


def _content(message: Data) -> str:
    """A message's text; the parts of a multi-part content are joined where all are text."""
    if isinstance(message.get("content"), str):
        return _text(message, "content")
    parts = _objects(message, "content")
    if any(part.get("type") != "text" for part in parts):
        raise RecordError("a message holds something else than text", "keep text messages only")
    return "".join(_text(part, "text") for part in parts)


def _from_messages(name: str, messages: list[tuple[str, str]]) -> Conversation:
    turns = [text for role, text in messages if role == "user"]
    systems = [text for role, text in messages if role == "system"]
    if len(systems) > 1 or (systems and messages[0][0] != "system"):
        raise RecordError("a system message after the conversation began", "put one system message first")
    if not turns:
        raise RecordError("the conversation has no turn of the user", "remove it, or add one")
    return Conversation(name, _turns(turns), system=systems[0] if systems else "")


def _has_question(data: Data) -> bool:
    return "question_id" in data and "turns" in data


#: In the order of trial: SPEED-Bench rows are Spec-Bench rows with more keys.
FORMATS = (
    Format(
        "SPEED-Bench",
        lambda data: _has_question(data) and "sub_category" in data and "src_id" in data,
        _read_question,
    ),
    Format("Spec-Bench", _has_question, _read_question),
    Format("this project's format", lambda data: "turns" in data and "question_id" not in data, _read_own),
    Format("ShareGPT", lambda data: "conversations" in data, _read_sharegpt),
    Format("OpenAI chat", lambda data: "messages" in data or "body" in data, _read_openai),
)
