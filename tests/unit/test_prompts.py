"""Prompt files: what each format means, what is selected, and every mistake with its text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_specgate.errors import Location, PromptError
from pytest_specgate.suite.model import Prompts
from pytest_specgate.suite.prompts import Conversation, PromptFiles, load_prompts, prompts_hash

IN_SUITE = Location(Path("s.yaml"), 7, 14)


def load(folder: Path, text: str | bytes, **selection: object) -> tuple[Conversation, ...]:
    path = folder / "p.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    chosen = Prompts.model_validate({"file": "p.jsonl", **selection})
    return load_prompts(path, chosen, IN_SUITE, PromptFiles(folder))


def refusal(folder: Path, text: str | bytes, **selection: object) -> str:
    with pytest.raises(PromptError) as caught:
        load(folder, text, **selection)
    return str(caught.value)


def lines(*records: object) -> str:
    return "\n".join(json.dumps(record) for record in records)


ONE = '{"id": "one", "turns": ["Say one."]}'
TWO = '{"id": "two", "turns": ["Say two."]}'


# --- formats --------------------------------------------------------------------------------------------------------


def test_own_format(tmp_path: Path) -> None:
    record = {
        "id": "a",
        "turns": ["x", "y"],
        "system": "s",
        "reference": "r",
        "language": "de",
        "category": "chat",
    }

    assert load(tmp_path, lines(record)) == (Conversation("a", ("x", "y"), "s", "r", "de", "chat"),)


def test_spec_bench_and_mt_bench(tmp_path: Path) -> None:
    records = lines(
        {"question_id": 81, "category": "writing", "turns": ["x", "y"], "reference": ["r1", "r2"]},
        {"question_id": 82, "category": "qa", "turns": ["z"], "choices": []},
    )

    assert load(tmp_path, records) == (
        Conversation("81", ("x", "y"), reference="r2", category="writing"),
        Conversation("82", ("z",), category="qa"),
    )


def speed_bench(number: int, text: str) -> dict[str, object]:
    return {
        "question_id": f"q{number}",
        "category": "coding",
        "sub_category": None,
        "turns": [text],
        "source": "x",
        "src_id": str(number),
        "difficulty": None,
        "multiturn": False,
    }


def test_speed_bench(tmp_path: Path) -> None:
    records = lines(speed_bench(1, "Write a sort."), speed_bench(2, "Write a search."))

    assert [(c.id, c.turns, c.category) for c in load(tmp_path, records)] == [
        ("q1", ("Write a sort.",), "coding"),
        ("q2", ("Write a search.",), "coding"),
    ]


FETCH = "fetch the full texts with the benchmark's own tool (SPEED-Bench: its prepare step), and name that file here"


def test_speed_bench_without_its_texts_is_refused(tmp_path: Path) -> None:
    placeholder = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"

    assert refusal(tmp_path, lines(speed_bench(1, "Write a sort."), speed_bench(2, placeholder))) == (
        f"p.jsonl:2:1: prompt 'q2' holds a placeholder instead of its text — {FETCH}"
    )


def test_one_text_in_all_prompts_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, lines(speed_bench(1, "TBD"), speed_bench(2, "TBD"), speed_bench(3, "TBD"))) == (
        f"p.jsonl:1:1: all 3 prompts have the same text: placeholders, or one prompt copied — {FETCH}"
    )


SHAREGPT = [
    {
        "id": "x",
        "conversations": [
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": "Hi"},
            {"from": "gpt", "value": "dropped"},
            {"from": "human", "value": "Bye"},
        ],
    },
    {"conversations": [{"from": "user", "value": "Other"}]},
]
SHAREGPT_READ = (Conversation("x", ("Hi", "Bye"), system="Be brief."), Conversation("prompt-2", ("Other",)))


@pytest.mark.parametrize("text", [lines(*SHAREGPT), json.dumps(SHAREGPT), json.dumps(SHAREGPT, indent=2)])
def test_sharegpt_as_lines_and_as_an_array(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == SHAREGPT_READ


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "user", "content": [{"type": "text", "text": "By"}, {"type": "text", "text": "e"}]},
]


def test_openai_chat(tmp_path: Path) -> None:
    assert load(tmp_path, lines({"messages": OPENAI})) == (Conversation("prompt-1", ("Hi", "Bye"), system="Be brief."),)


def test_openai_batch(tmp_path: Path) -> None:
    request = {
        "custom_id": "c-1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": OPENAI},
    }

    assert load(tmp_path, lines(request)) == (Conversation("c-1", ("Hi", "Bye"), system="Be brief."),)


def test_text_is_kept_character_for_character(tmp_path: Path) -> None:
    text = " Zeile\u2028eins\r\n\ttwo 😀 \\ \u0000 "

    assert load(tmp_path, json.dumps({"id": "a", "turns": [text]}, ensure_ascii=False))[0].turns == (text,)
    assert load(tmp_path, json.dumps({"id": "a", "turns": [text]}))[0].turns == (text,)


# --- selection ------------------------------------------------------------------------------------------------------


def test_limit_takes_the_first(tmp_path: Path) -> None:
    assert [c.id for c in load(tmp_path, f"{ONE}\n\n{TWO}\n", limit=1)] == ["one"]
    assert [c.id for c in load(tmp_path, f"{ONE}\n\n{TWO}\n", limit=9)] == ["one", "two"]


def test_only_takes_the_named_in_file_order(tmp_path: Path) -> None:
    assert [c.id for c in load(tmp_path, f"{ONE}\n{TWO}", only=("two", "one"))] == ["one", "two"]


def test_the_hash_covers_what_is_sent_and_nothing_else() -> None:
    base = Conversation("a", ("x", "y"))

    assert prompts_hash([base]) == prompts_hash([Conversation("a", ("x", "y"), reference="r", category="qa")])
    others = [
        [],
        [base, base],
        [Conversation("b", ("x", "y"))],
        [Conversation("a", ("y", "x"))],
        [Conversation("a", ("x", "y"), system="s")],
        [Conversation("a", ("xy",))],
    ]
    assert len({prompts_hash(other) for other in [[base], *others]}) == len(others) + 1


def test_the_hash_stays_the_same_between_versions() -> None:
    # Baselines are keyed by it: a change here disowns every stored baseline.
    assert prompts_hash([Conversation("a", ("Grüße 😀", "y"), "s")]) == "faf0056321d27d2f"


# --- mistakes -------------------------------------------------------------------------------------------------------

WRITE = 'write {"id": ..., "turns": [...]}'
EACH_LINE = "write one JSON object a line"
DEEP = "a record that is nested too deeply, or a number too long — mend it"
BEGINS = "mend the record that begins here"
MISTAKES: list[tuple[str | bytes, str]] = [
    ("", ': the file holds no prompt — write one JSON object a line: {"id": ..., "turns": [...]}'),
    (" \n\n", ': the file holds no prompt — write one JSON object a line: {"id": ..., "turns": [...]}'),
    ("[]", ': the file holds no prompt — write one JSON object a line: {"id": ..., "turns": [...]}'),
    ("5", f":1:1: a record is no JSON object — {WRITE}"),
    ("[[]]", f":1:2: a record is no JSON object — {WRITE}"),
    (f'{ONE}\n{{"id": "two", "turns": ["x"}}', f":2:28: broken JSON: expecting ',' delimiter — {EACH_LINE}"),
    (f"{ONE}\n  {TWO} {ONE}", f":2:40: text after the JSON object — {EACH_LINE}"),
    (f"[{ONE}\n {TWO}]", ":2:2: the JSON array is not continued or closed — add ',' or ']'"),
    (f"[{ONE}", ":1:38: the JSON array is not continued or closed — add ',' or ']'"),
    (f"[{ONE},]", ":1:39: a ',' before the end of the JSON array — remove it"),
    (f"[{ONE}]\n{TWO}", ":2:1: text after the JSON array — remove it"),
    (
        f"{ONE}\n{ONE}",
        ":2:1: prompt id 'one' is given twice (first at line 1) — give every prompt its own id",
    ),
    ('{"turns": ["x"]}', ":1:1: the prompt has no 'id' — give it one: pairing and baselines go by it"),
    (
        '{"id": " ", "turns": ["x"]}',
        ":1:1: 'id' is no usable id — write a short text that no other prompt has",
    ),
    (
        '{"id": "a", "turn": ["x"]}',
        ':1:1: no known prompt format has the keys: id, turn — write {"id": ..., "turns": ["..."]}',
    ),
    (
        '{"id": "a", "turns": ["x"], "systm": "s"}',
        (
            ":1:1: unknown key 'systm'; did you mean 'system'? — "
            "valid keys: id, turns, system, reference, language, category, answer"
        ),
    ),
    ('{"id": "a", "turns": ["x"], "system": 5}', ":1:1: 'system' is no text — write it as a JSON string"),
    ('{"id": "a", "turns": []}', ":1:1: 'turns' holds no turn — write the user's turns as a list: [\"...\"]"),
    (
        '{"id": "a", "turns": "x"}',
        ":1:1: 'turns' holds no turn — write the user's turns as a list: [\"...\"]",
    ),
    ('{"id": "a", "turns": ["x", 5]}', ":1:1: turn 2 is no text — write every turn as a JSON string"),
    (
        '{"id": "a", "turns": ["x", "\\n"]}',
        ":1:1: turn 2 is empty — write the user's text, or remove the turn",
    ),
    ('{"id": "a", "id": "b", "turns": ["x"]}', f":1:1: duplicate key 'id' — {BEGINS}"),
    ('{"id": "a", "turns": [NaN]}', f":1:1: NaN is no JSON value — {BEGINS}"),
    (
        '{"id": "a", "turns": ["\\ud83d"]}',
        f":1:1: a text with half a surrogate pair, which is no Unicode — {BEGINS}",
    ),
    ('{"id": "a", "turns": ' + 100_000 * "[", f":1:1: {DEEP}"),
    ('{"id": ' + 5_000 * "1" + ', "turns": ["x"]}', f":1:1: {DEEP}"),
    (b'{"id": "\xff"}', ":1:9: byte 0xff is not UTF-8 — save the file as UTF-8"),
    (
        f"{ONE}\n{json.dumps(SHAREGPT[0])}",
        ":2:1: this record is not this project's format, as the file's first is — keep one format in one file",
    ),
    (
        '{"conversations": [{"from": "tool", "value": "x"}]}',
        ":1:1: speaker 'tool' is not supported — keep human, gpt and system messages",
    ),
    (
        '{"conversations": [{"from": "gpt", "value": "x"}]}',
        ":1:1: the conversation has no turn of the user — remove it, or add one",
    ),
    (
        '{"conversations": {}}',
        ":1:1: 'conversations' is no list of objects — see the format's own description",
    ),
    (
        '{"messages": [{"role": "tool", "content": "x"}]}',
        ":1:1: role 'tool' is not supported — keep system, user and assistant messages",
    ),
    (
        '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        ":1:1: a message holds something else than text — keep text messages only",
    ),
    (
        '{"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]}',
        ":1:1: a system message after the conversation began — put one system message first",
    ),
    ('{"body": {}}', ":1:1: 'messages' is no list of objects — see the format's own description"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_in_a_prompt_file(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert refusal(tmp_path, text) == f"p.jsonl{message}"


def test_an_unknown_id_is_told_in_the_suite(tmp_path: Path) -> None:
    assert refusal(tmp_path, f"{ONE}\n{TWO}", only=("three", "one")) == (
        "s.yaml:7:14: no prompt 'three' — choose ids that p.jsonl holds"
    )
    assert refusal(tmp_path, f"{ONE}\n{TWO}", only=("twoo",)) == (
        "s.yaml:7:14: no prompt 'twoo'; did you mean 'two'? — choose ids that p.jsonl holds"
    )


def test_a_missing_file_is_told_in_the_suite(tmp_path: Path) -> None:
    with pytest.raises(PromptError) as caught:
        load_prompts(tmp_path / "q.jsonl", Prompts(file="q.jsonl"), IN_SUITE, PromptFiles(tmp_path))

    text = "s.yaml:7:14: prompt file q.jsonl cannot be read: No such file or directory — create it or correct the name"
    assert str(caught.value) == text


def test_a_folder_is_no_prompt_file(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"^s.yaml:7:14: prompt file . cannot be read: Is a directory — "):
        load_prompts(tmp_path, Prompts(file="."), IN_SUITE, PromptFiles(tmp_path))


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "p.jsonl").open("wb") as file:
        file.truncate(64 * 2**20 + 1)

    with pytest.raises(PromptError) as caught:
        load_prompts(tmp_path / "p.jsonl", Prompts(file="p.jsonl"), IN_SUITE, PromptFiles(tmp_path))

    assert str(caught.value) == (
        "p.jsonl: the file is larger than 64 MiB — keep the prompts that are run in a file of their own"
    )
