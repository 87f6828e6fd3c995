"""Every mistake in a suite file, with the text that a user reads."""

# ruff: noqa: ISC004 -- messages stand as a user reads them
from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.errors import LocatedError
from pytest_specgate.suite.cases import expand
from pytest_specgate.suite.load import load_suite

GOOD = """\
specgate: 1
engines:
  tiny: {target: some/model, candidate: {method: prompt_lookup}}
scenarios:
  chat:
    category: chat
    prompts: p.jsonl
gates:
  - metric: speedup
    limit: ">=1.2x"
"""
HEAD = GOOD[: GOOD.index("gates:")]
TWO_PROMPTS = '{"id": "one", "turns": ["Say one."]}\n{"id": "two", "turns": ["Say two."]}\n'


def mistake(folder: Path, text: str | bytes) -> str:
    """What loading and expanding the text says, without the file's name."""
    folder.joinpath("p.jsonl").write_text(TWO_PROMPTS)
    suite = folder / "s.yaml"
    suite.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LocatedError) as caught:
        expand(load_suite(suite, folder, {"EMPTY": ""}))
    return str(caught.value).removeprefix("s.yaml:")


def test_the_suite_that_the_mistakes_are_put_into_is_right(tmp_path: Path) -> None:
    tmp_path.joinpath("p.jsonl").write_text(TWO_PROMPTS)
    suite = tmp_path / "s.yaml"
    suite.write_text(GOOD)

    assert [case.id for case in expand(load_suite(suite, tmp_path, {}))] == ["tiny::chat-t0-c1"]


TOP_KEYS = (
    "specgate, extends, name, description, tier, requires, policy, engines, matrix, scenarios, measure, advice, gates"
)
GATE_KEYS = (
    "metric, limit, max_drop, max_rise, statistic, engines, scenarios, where, policy, on_fail, waive, embedding, "
    "population"
)
NAMES = "use letters, digits and . _ + - (at most 60, the first a letter or digit)"
DIGITS = "write it in digits, without quotes"
NOTATION = (
    "is a number in a notation that YAML versions read differently — "
    "write it in decimal digits, or in quotes where it is text"
)

AT_TOP = [
    ("extra: 1", f"2:1: unknown key 'extra' — valid keys: {TOP_KEYS}"),
    ("engine: {}", f"2:1: unknown key 'engine'; did you mean 'engines'? — valid keys: {TOP_KEYS}"),
    ("specgate: 1", "2:1: duplicate key 'specgate' (first at line 1) — keep one of the two"),
    ("7: x", "2:1: YAML reads the key '7' as a number — put it in quotes: \"7\""),
    ("on: x", "2:1: YAML reads the key 'on' as a boolean — put it in quotes: \"on\""),
    ("null: x", "2:1: YAML reads the key 'null' as nothing — put it in quotes: \"null\""),
    ("[a]: x", "2:1: a key must be a word, not a list or mapping — write 'key: value'"),
    ("' name': x", "2:1: key ' name' is empty or has spaces around it — remove the spaces"),
    (
        "!!python/name:os.system x: 1",
        "2:1: unknown tag '!!python/name:os.system' — remove it; suites hold plain YAML values",
    ),
    ("description: 5", "2:14: 'description' expects text, not the number 5 — put it in quotes"),
    ("description: no", "2:14: 'description' expects text, not the boolean false — put it in quotes: \"no\""),
    (
        "description: !!python/object/apply:os.system [ls]",
        "2:14: unknown tag '!!python/object/apply:os.system' — remove it; suites hold plain YAML values",
    ),
    ("description: !env x", "2:14: unknown tag '!env' — remove it; suites hold plain YAML values"),
    ("description: !!set {x}", "2:14: unknown tag '!!set' — remove it; suites hold plain YAML values"),
    (
        "description: *other",
        "2:14: an alias without its anchor — define it before use: '&name', or put the '*' in quotes",
    ),
    (
        "description: '${env:HOME}'",
        "2:14: '${env:…}' is not replaced here — use it in target, draft, options or server only",
    ),
    ("name: a b", f"2:7: 'name' cannot be 'a b' — {NAMES}"),
    ("name: " + 61 * "a", "2:7: 'name' is too long (61) — it takes at most 60 characters"),
    (
        "tier: nigthly",
        "2:7: 'tier' cannot be 'nigthly'; did you mean 'nightly'? — choose one of: smoke, full, nightly",
    ),
    (
        "measure:",
        "2:9: 'measure' has no value; it expects a mapping — write its keys below it, indented: 'key: value'",
    ),
    ("measure: {budget: 0 s}", "2:19: '0 s' is not positive — write it like 90 s"),
    (
        "measure: {budget: 90}x",
        "2:22: indentation that fits nothing above — line it up with the keys beside it",
    ),
    ("measure: {rounds: 65}", "2:19: 'rounds' is 65 — it must be at most 64"),
    ("measure: {rounds: 1:30}", f"2:19: '1:30' {NOTATION}"),
    ("measure: {rounds: 010}", f"2:19: '010' {NOTATION}"),
    ("measure: {rounds: 1_0}", f"2:19: '1_0' {NOTATION}"),
    ("measure: {rounds: '2'}", f"2:19: 'rounds' expects a whole number, not '2' — {DIGITS}"),
    ("measure: {rounds: 2.0}", f"2:19: 'rounds' expects a whole number, not the number 2.0 — {DIGITS}"),
    ("measure: {rounds: yes}", f"2:19: 'rounds' expects a whole number, not the boolean true — {DIGITS}"),
    (
        "measure: {<<: 5}",
        "2:15: '<<' merges mappings, not the number 5 — name an anchor of a mapping: '<<: *name'",
    ),
    ("requires: {memory: 40 GB/s}", "2:20: unit 'GB/s' does not fit here: '40 GB/s' — write it like 6 GiB"),
    ("requires: {memory: lots}", "2:20: 'lots' is no quantity — write it like 6 GiB"),
    (
        "requires: {device: tpu}",
        "2:20: 'device' cannot be 'tpu'; did you mean 'cpu'? — choose one of: cpu, cuda, mps",
    ),
    ("extends: [a]", "2:10: 'extends' names a file, not a list — write it like 'extends: base.yaml'"),
    ("extends: none.yaml", "2:10: base 'none.yaml' does not exist — create none.yaml or correct the name"),
    ("extends: s.yaml", "2:10: 'extends' leads in a circle: s.yaml → s.yaml — remove one of them"),
    (
        "extends: ../s.yaml",
        "2:10: base '../s.yaml' lies outside the project — move the base into the suite's folder or the project's root",
    ),
]


@pytest.mark.parametrize(("line", "message"), AT_TOP, ids=[line for line, _ in AT_TOP])
def test_a_mistake_at_the_top(tmp_path: Path, line: str, message: str) -> None:
    assert mistake(tmp_path, GOOD.replace("specgate: 1\n", f"specgate: 1\n{line}\n")) == message


IN_ENGINE = [
    (
        "target: some/model",
        "target: no",
        "3:18: 'target' expects text, not the boolean false — put it in quotes: \"no\"",
    ),
    (
        "target: some/model",
        "dtype: float8",
        "3:17: 'dtype' cannot be 'float8'; did you mean 'float64'? — "
        "choose one of: auto, float32, float16, bfloat16, float64",
    ),
    (
        "target: some/model",
        "target: '${env:NOPE}'",
        "3:18: environment variable NOPE is not set — set NOPE, or write the value here",
    ),
    (
        "target: some/model",
        "target: 'a${env:EMPTY}'",
        "3:18: environment variable EMPTY is not set — set EMPTY, or write the value here",
    ),
    (
        "target: some/model",
        "target: '${HOME}'",
        "3:18: '${' without 'env:NAME}' — write '${env:NAME}', or '$${' for a literal '${'",
    ),
    (
        "target: some/model",
        "taget: x",
        "3:10: unknown key 'taget'; did you mean 'target'? — "
        "valid keys: kind, target, candidate, device, dtype, attention, quantization, threads, graphs, server, "
        "scorer, options, requires, expect",
    ),
    (
        "method: prompt_lookup",
        "method: prompt_lokup",
        "3:50: 'method' cannot be 'prompt_lokup'; did you mean 'prompt_lookup'? — "
        "choose one of: draft_model, prompt_lookup, early_exit, universal, mtp, dflash, synthetic",
    ),
    (
        "method: prompt_lookup",
        "method: off",
        "3:50: 'method' cannot be the boolean false — put it in quotes: \"off\"",
    ),
    (
        "method: prompt_lookup",
        "max_ngram: 2",
        "3:41: 'candidate' has no 'method' — add it: 'method: draft_model'",
    ),
    (
        "method: prompt_lookup",
        "method: draft_model",
        "3:41: method draft_model needs a draft model — add 'draft: PATH or Hub id'",
    ),
    (
        "method: prompt_lookup",
        "method: mtp, draft: x",
        "3:41: method mtp takes no draft model — remove 'draft' or use method: draft_model",
    ),
    (
        "target: some/model",
        "target: some/model, graphs: true",
        "3:9: kind transformers records no graphs — remove 'graphs' or write kind: native",
    ),
    (
        "method: prompt_lookup",
        "method: synthetic",
        "3:41: method synthetic forces an acceptance — add 'acceptance: 0.7'",
    ),
    (
        "method: prompt_lookup",
        "method: prompt_lookup, acceptance: 0.7",
        ("3:41: method prompt_lookup is accepted as the target finds — remove 'acceptance' or use method: synthetic"),
    ),
    (
        "method: prompt_lookup",
        "method: prompt_lookup, min_confidence: 0.2",
        (
            "3:41: method prompt_lookup is never unsure — "
            "remove 'min_confidence' or use method: draft_model or early_exit"
        ),
    ),
    (
        "method: prompt_lookup",
        "method: draft_model, draft: x, drafts_per_match: 2",
        ("3:41: method draft_model copies nothing — remove 'drafts_per_match' or use method: prompt_lookup"),
    ),
    (
        "method: prompt_lookup",
        "method: draft_model, draft: x, min_match: 2",
        ("3:41: method draft_model copies nothing — remove 'min_match' or use method: prompt_lookup"),
    ),
    (
        "method: prompt_lookup",
        "method: prompt_lookup, min_match: 2",
        "3:9: kind transformers keeps drafts at one length — remove 'min_match' or use kind: native",
    ),
    (
        "method: prompt_lookup",
        "method: prompt_lookup, min_acceptance: 0.3",
        "3:9: kind transformers keeps drafts at one length — remove 'min_acceptance' or use kind: native",
    ),
    (
        "method: prompt_lookup",
        "method: early_exit",
        "3:41: method early_exit needs 'exit_layer' — give the layer at which the draft is read",
    ),
    (
        "method: prompt_lookup",
        "method: mtp, num_draft_tokens: 0",
        "3:73: 'num_draft_tokens' is 0 — it must be at least 1",
    ),
    ("tiny:", "my engine:", f"3:3: name 'my engine' is not usable in a test id — {NAMES}"),
    ("tiny:", "a::b:", f"3:3: name 'a::b' is not usable in a test id — {NAMES}"),
]


@pytest.mark.parametrize(("old", "new", "message"), IN_ENGINE, ids=[new for _, new, _ in IN_ENGINE])
def test_a_mistake_in_an_engine(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert mistake(tmp_path, GOOD.replace(old, new)) == message


IN_SCENARIO = [
    (
        "category: cht",
        "6:15: 'category' cannot be 'cht'; did you mean 'chat'? — "
        "choose one of: chat, qa, summarization, code, long-form, math, rag, translation",
    ),
    (
        "category: chat\n    concurrency: [1, two]",
        f"7:22: an entry of 'concurrency' expects a whole number, not 'two' — {DIGITS}",
    ),
    ("category: chat\n    concurrency: []", "7:18: 'concurrency' is empty — give at least one"),
    (
        "category: chat\n    concurrency: 4",
        "7:18: 'concurrency' expects a list, not the number 4 — write it like [a, b], or one '- entry' a line",
    ),
    (
        "category: chat\n    concurrency: [1, 0]",
        "7:22: an entry of 'concurrency' is 0 — it must be at least 1",
    ),
    (
        "category: chat\n    concurrency: [1, 1]",
        "10:5: speedup judges tiny::chat-t0-c1 twice: two of the scenario's settings have the same label — "
        "list every concurrency once, and give sampling settings a 'name'",
    ),
    (
        "category: chat\n    stop: [no]",
        "7:12: an entry of 'stop' expects text, not the boolean false — put it in quotes: \"no\"",
    ),
    (
        "category: chat\n    sampling: [{temperature: 11}]",
        "7:30: 'temperature' is 11 — it must be at most 10",
    ),
    (
        "category: chat\n    sampling: [{temperature: .nan}]",
        "7:30: '.nan' is no finite number — write it in decimal digits",
    ),
    (
        "category: chat\n    sampling: [{temperature: hot}]",
        f"7:30: 'temperature' expects a number, not 'hot' — {DIGITS}",
    ),
    ("category: chat\n    sampling: [{top_p: 0}]", "7:24: 'top_p' is 0 — it must be greater than 0"),
    ("category: chat\n    sampling: [{min_p: 1.5}]", "7:24: 'min_p' is 1.5 — it must be at most 1"),
    (
        "category: chat\n    sampling: [{repetition_penalty: -1}]",
        "7:37: 'repetition_penalty' is -1 — it must be greater than 0",
    ),
    (
        "category: chat\n    sampling: [{presence_penalty: 3}]",
        "7:35: 'presence_penalty' is 3 — it must be at most 2",
    ),
    (
        'category: chat\n    sampling: [{logit_bias: {"the": 1}}]',
        """7:29: 'the' is no token id — write it in digits and quotes, such as "1234": -100""",
    ),
    (
        'category: chat\n    sampling: [{logit_bias: {"7": 101}}]',
        "7:35: '7' is 101 — it must be at most 100",
    ),
    (
        "category: chat\n    sampling: [{logit_bias: {7: 1}}]",
        """7:30: YAML reads the key '7' as a number — put it in quotes: "7\"""",
    ),
    (
        'category: chat\n    sampling: [{bad_words: [""]}]',
        "7:29: an entry of 'bad_words' is too short (0) — it takes at least 1 characters",
    ),
    (
        "category: chat\n    max_tokens: 8\n    sampling: [{}, {min_tokens: 9}]",
        "6:5: min_tokens 9 is above max_tokens 8 — raise max_tokens",
    ),
    (
        "category: chat\n    load: {rate: 4}",
        "7:18: 4 is no rate — write it like 4/s or 90/min",
    ),
    (
        "category: chat\n    load: {rate: 0/s}",
        "7:18: '0/s' is no rate — write it like 4/s or 90/min",
    ),
    (
        "category: chat\n    load: {rate: 4/s, arrival: bursts}",
        "7:32: 'arrival' cannot be 'bursts' — choose one of: poisson, fixed",
    ),
    (
        "category: chat\n    load: {}",
        "7:11: 'load' has no 'rate' — add it: 'rate: 4/s'",
    ),
    (
        "category: chat\n    concurrency: [2]\n    load: {rate: 4/s}",
        "6:5: a scenario with 'load' and 'concurrency' — keep one: by the clock, or so many at once",
    ),
    (
        "category: chat\n    ignore_eos: 1",
        "7:17: 'ignore_eos' expects true or false, not the number 1 — write true or false, without quotes",
    ),
    (
        "category: chat\n    engines: [tinny]",
        "7:15: no engine 'tinny'; did you mean 'tiny'? — choose among: tiny",
    ),
]


@pytest.mark.parametrize(("new", "message"), IN_SCENARIO, ids=[new for new, _ in IN_SCENARIO])
def test_a_mistake_in_a_scenario(tmp_path: Path, new: str, message: str) -> None:
    assert mistake(tmp_path, GOOD.replace("category: chat", new)) == message


IN_PROMPTS = [
    (
        "    prompts: 5\n",
        "7:14: 'prompts' expects a mapping, not the number 5 — write its keys below it, indented: 'key: value'",
    ),
    ("    prompts: {file: p.jsonl, limit: 0}\n", "7:37: 'limit' is 0 — it must be at least 1"),
    (
        "    prompts: {fiel: p.jsonl}\n",
        "7:15: unknown key 'fiel'; did you mean 'file'? — valid keys: file, limit, only",
    ),
    ("    prompts: {limit: 1}\n", "7:14: 'prompts' has no 'file' — add it: 'file: prompts/chat.jsonl'"),
    (
        "    prompts: {file: p.jsonl, only: [onne]}\n",
        "7:21: no prompt 'onne'; did you mean 'one'? — choose ids that p.jsonl holds",
    ),
    (
        "    prompts: q.jsonl\n",
        "7:14: prompt file q.jsonl cannot be read: No such file or directory — create it or correct the name",
    ),
    (
        "    prompts: ../q.jsonl\n",
        "7:14: prompt file '../q.jsonl' lies outside the project — "
        "move it into the suite's folder or the project's root",
    ),
    ("", "6:5: scenario 'chat' has no 'prompts' — add it: 'prompts: prompts/chat.jsonl'"),
]


@pytest.mark.parametrize(("new", "message"), IN_PROMPTS, ids=[new for new, _ in IN_PROMPTS])
def test_a_mistake_in_the_choice_of_prompts(tmp_path: Path, new: str, message: str) -> None:
    assert mistake(tmp_path, GOOD.replace("    prompts: p.jsonl\n", new)) == message


IN_GATE = [
    (
        "metric: speedup, limits: '>=1.2x'",
        f"9:23: unknown key 'limits'; did you mean 'limit'? — valid keys: {GATE_KEYS}",
    ),
    ("limit: '>=1.2x'", "9:5: this gate has no 'metric' — add it: 'metric: speedup'"),
    (
        "metric: speedup, limit: 1.2",
        "9:30: limit 1.2 does not say a direction — write '>=1.3x', '<=1.3x' or 'LOW..HIGH'",
    ),
    ("metric: speedup, limit: '>=1.2%'", "9:30: unit '%' does not fit here: '1.2%' — write it like 1.3x"),
    (
        "metric: speedup, limit: 1.6x..1.2x",
        "9:30: range '1.6x..1.2x' runs backwards — write the smaller bound first",
    ),
    (
        "metric: ttft, limit: '<=250'",
        "9:27: a number without a unit does not fit here: '250' — write it like 250 ms",
    ),
    ("metric: speedup", "9:5: a gate without a demand — give limit, max_drop or max_rise"),
    (
        "metric: speedup, max_drop: 150%",
        "9:33: allowed change '150%' is out of range — write 0 or more and less than 100%, such as 5%",
    ),
    (
        "metric: speedup, max_drop: 5%, statistic: p95",
        "9:5: speedup has no statistic 'p95' — remove 'statistic'; it is for latency metrics",
    ),
    (
        "metric: speedup, max_drop: 5%, policy: gaurd",
        "9:45: 'policy' cannot be 'gaurd'; did you mean 'guard'? — choose one of: guard, prove",
    ),
    (
        "metric: speedup, max_drop: 5%, waive: {reason: x, until: 2030-01-31}",
        "9:53: 'reason' is too short (1) — it takes at least 3 characters",
    ),
    (
        "metric: speedup, max_drop: 5%, waive: {reason: known, until: 2030-13-01}",
        "9:67: '2030-13-01' is no day of the calendar — write year-month-day, such as 2030-01-31",
    ),
    (
        "metric: speedup, max_drop: 5%, waive: {reason: known, until: 20300131}",
        "9:67: 20300131 is no date — write year-month-day, such as 2030-01-31",
    ),
    (
        "metric: speedup, max_drop: 5%, waive: {reason: known}",
        "9:44: 'waive' has no 'until' — add it: 'until: 2030-01-31'",
    ),
    (
        "metric: speedup, max_drop: 5%, engines: [tinny]",
        "9:47: no engine 'tinny'; did you mean 'tiny'? — choose among: tiny",
    ),
    (
        "metric: speedup, max_drop: 5%, scenarios: [chatt]",
        "9:49: no scenario 'chatt'; did you mean 'chat'? — choose among: chat",
    ),
    (
        "metric: speedup, max_drop: 5%, engines: tiny",
        "9:46: 'engines' expects a list, not 'tiny' — write it like [a, b], or one '- entry' a line",
    ),
    (
        "metric: speedup, max_drop: 5%}\n  - {metric: speedup, limit: '>=1x'",
        "10:5: speedup judges tiny::chat-t0-c1 twice (also at line 9) — "
        "narrow one of the two with 'engines' or 'scenarios'",
    ),
]


@pytest.mark.parametrize(("gate", "message"), IN_GATE, ids=[gate for gate, _ in IN_GATE])
def test_a_mistake_in_a_gate(tmp_path: Path, gate: str, message: str) -> None:
    assert mistake(tmp_path, f"{HEAD}gates:\n  - {{{gate}}}\n") == message


def test_an_unknown_metric_lists_all_of_them(tmp_path: Path) -> None:
    text = mistake(tmp_path, GOOD.replace("metric: speedup", "metric: spedup"))

    assert text.startswith(
        "9:13: unknown metric 'spedup'; did you mean 'speedup'? — choose one of: speedup, decode_speedup,"
    )


WHOLE_FILE: list[tuple[str | bytes, str]] = [
    (
        GOOD.replace("specgate: 1", "specgate: 2"),
        "1:11: unknown suite format — this version reads 'specgate: 1'",
    ),
    (
        GOOD.replace("specgate: 1", "specgate: yes"),
        "1:11: unknown suite format — this version reads 'specgate: 1'",
    ),
    (GOOD.replace("specgate: 1\n", ""), "1:1: the suite has no 'specgate' — add it: 'specgate: 1'"),
    (HEAD, "1:1: the suite has no 'gates' — add it: 'gates: [{metric: speedup, limit: \">=1.2x\"}]'"),
    (HEAD + "gates: []\n", "8:8: 'gates' is empty — give at least one"),
    (
        HEAD + "gates:\n",
        "8:7: 'gates' has no value; it expects a list — write it like [a, b], or one '- entry' a line",
    ),
    (
        HEAD + "gates: [speedup]\n",
        "8:9: an entry of 'gates' expects a mapping, not 'speedup' — write its keys below it, indented: 'key: value'",
    ),
    ("", " the file is empty — write a suite: specgate: 1, engines, scenarios, gates"),
    ("# nothing yet\n", " the file is empty — write a suite: specgate: 1, engines, scenarios, gates"),
    ("- a\n", "1:1: a suite is a mapping, not a list — begin with a line 'specgate: 1'"),
    ("hello\n", "1:1: a suite is a mapping, not 'hello' — begin with a line 'specgate: 1'"),
    ("a: 1\n---\nb: 2\n", "2:1: a second document — one suite per file: remove '---'"),
    ("a: [1, 2\n", "1:4: a '[' that is not closed, or a ',' missing after it — add ']' or ','"),
    (
        "a: {b: ${env:X}}\n",
        "1:4: a '{' that is not closed, or a ',' missing after it "
        "— add '}' or ','; in a {...} or [...] put \"${env:NAME}\" in quotes",
    ),
    ("a: {b: 1\n", "1:4: a '{' that is not closed, or a ',' missing after it — add '}' or ','"),
    ("a:\n\tb: 1\n", "2:1: a tab as indentation — indent with spaces"),
    (
        "a: 'x\n",
        "1:4: a quote that is not closed, or a '\\' that escapes nothing — close it; in \"...\" write '\\\\' for '\\'",
    ),
    ("a: b: c\n", "1:5: a ':' where no value can begin — indent the line, or put the text in quotes"),
    ("- a\nb: 1\n", "2:1: indentation that fits nothing above — line it up with the '-' beside it"),
    ("a: @x\n", "1:4: '@' cannot begin a value — put the text in quotes"),
    (b"a: b\nc: \xc3\xa9\xff\n", "2:5: byte 0xff is not UTF-8 — save the file as UTF-8"),
    (b"a: b\x00\n", "1:5: control character U+0000 — remove it; the file must be text"),
    ("a: b\nc: \x1b[31m\n", "2:4: control character U+001B — remove it; the file must be text"),
    ("a: &x [*x]\n", "1:4: nested deeper than 40 levels — flatten it; an alias may contain itself"),
    (
        "x: 1\n" * 300_000,
        " the file is larger than 1 MiB — split the suite, and keep prompts in files of their own",
    ),
]


@pytest.mark.parametrize(("text", "message"), WHOLE_FILE, ids=range(len(WHOLE_FILE)))
def test_a_mistake_in_the_file_as_a_whole(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert mistake(tmp_path, text) == message


def test_nesting_without_an_end_is_a_mistake(tmp_path: Path) -> None:
    found = mistake(tmp_path, "a: " + 3000 * "[")

    # libyaml 0.2.6 and later count levels, older ones meet the end of the file.
    assert found in ("1:1003: nested too deeply — flatten it", "2:1: a '[' or '{' that is not closed — add ']' or '}'")


def test_aliases_that_blow_up_are_stopped(tmp_path: Path) -> None:
    levels = [
        f"{name}: &{name} [{', '.join(10 * [below])}]"
        for name, below in zip("abcdef", ["x", "*a", "*b", "*c", "*d", "*e"], strict=True)
    ]

    assert mistake(tmp_path, "\n".join(levels)).endswith(
        "more than 50000 values — repeat less with aliases, or split the suite"
    )


def test_a_missing_suite_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(LocatedError) as caught:
        load_suite(tmp_path / "suites" / "none.yaml", tmp_path)

    text = "suites/none.yaml: cannot be read: No such file or directory — check the path and its permissions"
    assert str(caught.value) == text


def test_of_several_mistakes_the_first_in_the_file_is_told(tmp_path: Path) -> None:
    text = (
        GOOD.replace("category: chat", "category: cht").replace("1.2x", "1.2%").replace("tiny: {", "tiny: {dtype: x, ")
    )

    assert mistake(tmp_path, text).startswith("3:17: 'dtype' cannot be 'x'")


@pytest.mark.parametrize("metric", ["exact_match", "greedy_exactness", "length_ratio", "acceptance_rate"])
def test_nothing_is_judged_of_what_a_forced_acceptance_says(tmp_path: Path, metric: str) -> None:
    forced = GOOD.replace("method: prompt_lookup", "method: synthetic, acceptance: 0.7")
    limit = ">=0" if metric == "acceptance_rate" else "==100%" if metric != "length_ratio" else "==1x"
    said = mistake(tmp_path, forced + f"  - metric: {metric}\n    limit: '{limit}'\n")
    assert said == (
        f"11:13: {metric} judges what is said, and the acceptance of engine 'tiny' is forced — "
        "name other engines in the gate's 'engines'"
    )


def test_other_engines_of_a_suite_with_a_forced_acceptance_are_judged(tmp_path: Path) -> None:
    tmp_path.joinpath("p.jsonl").write_text(TWO_PROMPTS)
    suite = tmp_path / "s.yaml"
    forced = "engines:\n  fast: {target: shape://llama-1m, candidate: {method: synthetic, acceptance: 0.5, draft: d}}\n"
    gate = "  - metric: exact_match\n    limit: '==100%'\n    engines: [tiny]\n"
    suite.write_text(GOOD.replace("engines:\n", forced) + gate)
    assert len(expand(load_suite(suite, tmp_path, {}))) == 2
