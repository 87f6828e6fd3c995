"""Text scores in scripts without spaces, and closeness in meaning, or why there is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pytest_specgate.records import Outcome
from pytest_specgate.samples import semantic
from pytest_specgate.samples.semantic import Unscored, similarity
from pytest_specgate.samples.text import SCORES
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from tests.unit.project import load, write

#: (a sentence, the same with one word changed, another sentence)
SENTENCES = {
    "Chinese": ("今天天气很好，我们去公园散步吧。", "今天天气很好，我们去海边散步吧。", "他昨晚写完了那封长信。"),
    "Japanese": (
        "今日はとても天気がいいので、公園を散歩しましょう。",
        "今日はとても天気がいいので、海辺を散歩しましょう。",
        "彼は昨夜その長い手紙を書き終えた。",
    ),
    "Korean": (
        "오늘은 날씨가 좋으니 공원에서 산책합시다.",
        "오늘은 날씨가 좋으니 바닷가에서 산책합시다.",
        "그는 어젯밤 긴 편지를 다 썼다.",
    ),
    "mixed": ("模型 Qwen3 在 GPU 上运行得很快。", "模型 Qwen3 在 CPU 上运行得很快。", "他昨晚写完了那封长信。"),
    "English": (
        "The weather is fine, so let us walk in the park.",
        "The weather is fine, so let us walk by the sea.",
        "He wrote that long letter last night.",
    ),
}


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("name", SCORES)
def test_scores_find_words_in_every_script(name: str, language: str) -> None:
    text, near, far = SENTENCES[language]
    score = SCORES[name]
    # The same words in another setting: equal texts are not even handed to the libraries.
    assert score(text + " ", text) == pytest.approx(100, abs=1)
    assert 45 < score(near, text) < 100
    assert score(far, text) < 35 < score(near, text)
    assert score("", text) == 0


GATE = {"metric": "semantic_similarity", "limit": ">=90"}


def judged(folder: Path, **gate: object) -> tuple[Outcome, str, str]:
    suite, case = load(write(folder, {**GATE, **gate}, options={"fault": "diverge"}))
    verdict = SuiteSession(suite, "tiny", Settings(folder)).judge(case.gates[0], case)
    return verdict.outcome, verdict.reason, verdict.advice


@pytest.fixture
def _absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No embedding package can be imported."""
    import sys

    semantic._embedder.cache_clear()
    semantic._vector.cache_clear()
    for package in ("wordllama", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("_absent")
def test_without_a_package_the_error_names_the_extra(tmp_path: Path) -> None:
    outcome, reason, advice = judged(tmp_path)
    assert outcome is Outcome.ERROR
    assert reason.startswith("semantic_similarity was not measured: package 'wordllama' is not installed (")
    assert advice == "python -m pip install 'pytest-specgate[similarity]'"


@pytest.mark.usefixtures("_absent")
def test_a_named_model_needs_sentence_transformers(tmp_path: Path) -> None:
    outcome, reason, advice = judged(tmp_path, embedding="some/model")
    assert outcome is Outcome.ERROR
    assert "package 'sentence-transformers' is not installed" in reason
    assert advice == "python -m pip install sentence-transformers"


@pytest.mark.usefixtures("_absent")
def test_equal_texts_need_no_model(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, GATE))
    assert SuiteSession(suite, "tiny", Settings(tmp_path)).judge(case.gates[0], case).outcome is Outcome.PASS


def test_the_model_keys_the_baseline_only_where_one_is_named(tmp_path: Path) -> None:
    for gate, known in (({}, False), ({"embedding": "some/model"}, True)):
        suite, case = load(write(tmp_path, {**GATE, **gate}))
        workload = SuiteSession(suite, "tiny", Settings(tmp_path)).case(case).measurement.workload
        assert ("embedding" in workload) is known


def test_english_vectors_are_not_asked_for_other_scripts() -> None:
    with pytest.raises(Unscored) as raised:
        similarity(*SENTENCES["Chinese"][:2], semantic.BUNDLED)
    assert str(raised.value) == (
        "wordllama knows English, and these texts are in another script — "
        "name a multilingual model of sentence-transformers in the gate: embedding: NAME"
    )


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="needs the extra 'similarity'")
def test_the_bundled_vectors_know_meaning_from_letters() -> None:
    text, near, far = SENTENCES["English"]
    same = "It is nice outside, let's go for a stroll through the gardens."
    assert similarity(text, text, semantic.BUNDLED) == 100
    assert similarity(near, text, semantic.BUNDLED) > similarity(same, text, semantic.BUNDLED)
    assert similarity(same, text, semantic.BUNDLED) > similarity(far, text, semantic.BUNDLED) + 10
