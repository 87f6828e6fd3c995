"""A right suite: what is read, where its parts are said to be, what comes from elsewhere."""

# ruff: noqa: E501, ISC004 -- messages stand as a user reads them
from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from pytest_specgate.errors import Location, PromptError, SuiteError
from pytest_specgate.suite.cases import Suite, expand, gate_id
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.prompts import PromptFiles

SUITE = """\
# a comment
specgate: 1
requires: {device: cpu, memory: 2 GiB, package: transformers}
engines:
  tiny:
    kind: scripted
    target: ${env:MODEL}
    candidate: {method: draft_model, draft: "${env:HUB}/draft", options: {url: "http://${env:HUB}:80", list: ["$${env:X}"]}}
  other:
    target: plain
scenarios:
  chat:
    category: chat
    prompts: {file: prompts/p.jsonl, limit: 2}
    concurrency: [1, 4]
    sampling: [{}, {temperature: 0.7, top_p: 1}]
    engines: [tiny]
  qa:
    category: qa
    prompts: {file: prompts/p.jsonl, only: [c, a]}
    ignore_eos: yes
    stop: ["${"]
measure: {budget: 90 s}
gates:
  - metric: speedup
    limit: ">=1.2x"
  - {metric: vram, limit: <=6 GiB, max_rise: 5% + 64 MiB, engines: [tiny], waive: {reason: known, until: 2030-01-31}}
  - metric: ttft
    statistic: p95
    max_rise: 20%
    scenarios: [qa]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    folder = tmp_path / "suites"
    (folder / "prompts").mkdir(parents=True)
    prompts = [f'{{"id": "{name}", "turns": ["Say {name}."]}}' for name in "abc"]
    (folder / "prompts" / "p.jsonl").write_text("\n".join(prompts))
    (folder / "demo.specgate.yaml").write_text(SUITE)
    return load_suite(folder / "demo.specgate.yaml", tmp_path, {"MODEL": "org/m", "HUB": "hub"})


def test_units_and_dates_are_values(suite: Suite) -> None:
    vram = suite.gates[1].spec

    assert suite.spec.requires.memory == 2 * 2**30
    assert suite.spec.requires.package == ("transformers",)
    assert suite.spec.measure.budget == 90.0
    assert vram.limit is not None
    assert vram.limit.high == 6 * 2**30
    assert vram.max_rise is not None
    assert vram.max_rise.of(1000) == 50 + 64 * 2**20
    assert vram.waive is not None
    assert vram.waive.until == dt.date(2030, 1, 31)


def test_the_name_is_that_of_the_file(suite: Suite, tmp_path: Path) -> None:
    assert suite.name == "demo"
    assert suite.path == (tmp_path / "suites/demo.specgate.yaml").resolve()


def test_positions_name_the_file_from_the_root(suite: Suite) -> None:
    path = Path("suites/demo.specgate.yaml")

    assert [scenario.location for scenario in suite.scenarios] == [
        Location(path, 12, 3),
        Location(path, 18, 3),
    ]
    assert [gate.location for gate in suite.gates] == [
        Location(path, 25, 5),
        Location(path, 27, 5),
        Location(path, 28, 5),
    ]


def test_the_environment_fills_models_and_urls(suite: Suite) -> None:
    tiny = suite.spec.engines["tiny"]

    assert tiny.target == "org/m"
    assert tiny.candidate is not None
    assert tiny.candidate.draft == "hub/draft"
    assert tiny.candidate.options == {"url": "http://hub:80", "list": ["${env:X}"]}


def test_an_environment_value_is_text_and_never_structure(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "turns": ["x"]}')
    text = "specgate: 1\nengines: {e: {target: '${env:M}'}}\nscenarios: {s: {category: qa, prompts: p.jsonl}}\n"
    (tmp_path / "s.yaml").write_text(text + "gates: [{metric: speedup, limit: '>=1x'}]\n")
    value = "a, device: cuda}\n# ${env:HOME}"

    assert load_suite(tmp_path / "s.yaml", tmp_path, {"M": value}).spec.engines["e"].target == value


def test_prompts_are_selected_in_file_order(suite: Suite) -> None:
    chosen = [[conversation.id for conversation in scenario.conversations] for scenario in suite.scenarios]

    assert chosen == [["a", "b"], ["a", "c"]]


def test_ignore_eos_is_warned_about(suite: Suite) -> None:
    assert suite.warnings == (
        "suites/demo.specgate.yaml:18:3: scenario 'qa' ignores the end of text, which distorts acceptance — "
        "remove 'ignore_eos' unless a fixed length is what you measure",
    )


def test_cases_and_their_gates_follow_the_file(suite: Suite) -> None:
    found = {case.id: [gate_id(gate, case) for gate in case.gates] for case in expand(suite)}

    assert found == {
        "tiny::chat-t0-c1": ["speedup[chat-t0-c1]", "vram[chat-t0-c1]"],
        "tiny::chat-t0-c4": ["speedup[chat-t0-c4]", "vram[chat-t0-c4]"],
        "tiny::chat-t0.7-c1": ["speedup[chat-t0.7-c1]", "vram[chat-t0.7-c1]"],
        "tiny::chat-t0.7-c4": ["speedup[chat-t0.7-c4]", "vram[chat-t0.7-c4]"],
        "tiny::qa-t0-c1": ["speedup[qa-t0-c1]", "vram[qa-t0-c1]", "ttft.p95[qa-t0-c1]"],
        "other::qa-t0-c1": ["speedup[qa-t0-c1]", "ttft.p95[qa-t0-c1]"],
    }


def test_a_gate_that_judges_nothing_is_an_error(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "suites/demo.specgate.yaml"
    path.write_text(SUITE + "  - {metric: itl, limit: <=1 s, engines: [other], scenarios: [chat]}\n")

    with pytest.raises(SuiteError) as caught:
        expand(load_suite(path, tmp_path, {"MODEL": "m", "HUB": "h"}))

    assert str(caught.value) == (
        "suites/demo.specgate.yaml:32:5: itl judges no case: its engines and scenarios never meet — "
        "widen 'engines' or 'scenarios' of this gate, or of the scenario"
    )


def test_a_prompt_file_reached_by_a_link_out_of_the_project_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "secret.jsonl").write_text('{"id": "a", "turns": ["x"]}')
    (root / "p.jsonl").symlink_to(tmp_path / "secret.jsonl")
    text = "specgate: 1\nengines: {e: {target: m}}\nscenarios: {s: {category: qa, prompts: p.jsonl}}\n"
    (root / "s.yaml").write_text(text + "gates: [{metric: speedup, limit: '>=1x'}]\n")

    with pytest.raises(SuiteError, match=r"^s.yaml:3:40: prompt file 'p.jsonl' lies outside the project — "):
        load_suite(root / "s.yaml", root, {})


def test_a_mistake_in_a_prompt_file_is_told_there(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "suites/prompts/p.jsonl").write_text('{"id": "a", "turns": []}')

    with pytest.raises(PromptError) as caught:
        load_suite(suite.path, tmp_path, {"MODEL": "m", "HUB": "h"})

    assert str(caught.value) == (
        "suites/prompts/p.jsonl:1:1: 'turns' holds no turn — write the user's turns as a list: [\"...\"]"
    )


def test_a_prompt_file_is_read_once_until_it_changes(suite: Suite, tmp_path: Path) -> None:
    files = PromptFiles(tmp_path.resolve())
    environ = {"MODEL": "m", "HUB": "h"}
    first = load_suite(suite.path, tmp_path, environ, files).scenarios[1].conversations
    again = load_suite(suite.path, tmp_path, environ, files).scenarios[1].conversations
    (tmp_path / "suites/prompts/p.jsonl").write_text(
        '{"id": "a", "turns": ["Other."]}\n{"id": "c", "turns": ["Words."]}'
    )
    changed = load_suite(suite.path, tmp_path, environ, files).scenarios[1].conversations

    assert all(one is two for one, two in zip(first, again, strict=True))
    assert changed[0].turns == ("Other.",)


def test_anchors_aliases_and_merge_keys_work(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "turns": ["x"]}')
    (tmp_path / "s.yaml").write_text(
        "specgate: 1\nengines: {e: &e {target: m, device: cpu}, f: {<<: *e, target: n}}\n"
        "scenarios: {s: {category: qa, prompts: p.jsonl, sampling: [{temperature: 1e-1}]}}\n"
        "gates: [{metric: speedup, limit: '>=1x'}]\n"
    )
    spec = load_suite(tmp_path / "s.yaml", tmp_path, {}).spec

    assert (spec.engines["f"].target, spec.engines["f"].device) == ("n", "cpu")
    assert spec.scenarios["s"].sampling[0].temperature == 0.1


def test_a_byte_order_mark_and_windows_lines_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "a", "turns": ["x"]}\r\n')
    text = "specgate: 1\nengines: {e: {target: m}}\nscenarios: {s: {category: qa, prompts: p.jsonl}}\n"
    text += "gates: [{metric: speedup, limit: '>=1x'}]\n"
    (tmp_path / "s.yaml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())

    assert load_suite(tmp_path / "s.yaml", tmp_path, {}).gates[0].location.line == 4


def test_the_gpu_suite_reads_and_has_prompts_for_all_that_run_at_once() -> None:
    root = Path(__file__).parents[2]
    suite = load_suite(root / "suites" / "gpu.specgate.yaml", root)
    cases = expand(suite)
    assert suite.spec.requires.device == "cuda"
    assert {case.concurrency for case in cases} == {1, 4, 8, 16, 64}
    assert all(len(case.scenario.conversations) >= case.concurrency for case in cases)


def test_spaces_and_line_ends_of_stops_and_beginnings_are_kept(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "turns": ["x"]}')
    more = 'stop: ["\\n\\n", "End. "], prefix: {kind: shared, text: "Read this.\\n"}'
    text = f"specgate: 1\nengines: {{e: {{target: m}}}}\nscenarios: {{s: {{category: qa, prompts: p.jsonl, {more}}}}}\n"
    (tmp_path / "s.yaml").write_text(text + "gates: [{metric: speedup, limit: '>=1x'}]\n")

    found = load_suite(tmp_path / "s.yaml", tmp_path, {}).spec.scenarios["s"]

    assert found.stop == ("\n\n", "End. ")
    assert found.prefix.text == "Read this.\n"
