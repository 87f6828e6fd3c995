"""The draft's data recipe: no bundled prompt is trained on, and a record that a kill cut off is passed over."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _load(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "models" / "distill" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


corpus = _load("corpus")


def test_a_run_of_eight_words_is_an_overlap_whatever_its_case_and_punctuation():
    one = corpus.ngrams("Please tell me, why is the sky so blue today?")
    other = corpus.ngrams("please tell me why IS the sky so blue")

    assert len(one) == 3
    assert other < one


def test_every_chinese_character_is_a_word():
    assert corpus.ngrams("请用一句话解释什么") == {tuple("请用一句话解释什"), tuple("用一句话解释什么")}


def test_records_that_share_an_8_gram_are_dropped_and_counted():
    texts = {(1,): "one two three four five six seven eight nine", (2,): "nothing of the kind"}
    records = [corpus.Record(ids, (9,), True) for ids in texts]

    forbidden = corpus.ngrams("zero one two three four five six seven eight")
    kept, dropped = corpus.without_overlap(records, forbidden, texts.get)

    assert kept == [records[1]]
    assert dropped == 1


def test_a_record_that_a_kill_cut_off_is_passed_over(tmp_path):
    whole = json.dumps({"prompt": [1, 2], "answer": [3], "greedy": True})
    path = tmp_path / "self.jsonl"
    path.write_text(f"{whole}\n{whole[:20]}")

    assert list(corpus.read([path])) == [corpus.Record((1, 2), (3,), True)]


def test_the_bundled_prompts_are_read():
    found = corpus.bundled_ngrams(ROOT / "suites" / "prompts")

    assert len(found) > 5000


def test_the_committed_draft_is_small_and_says_how_it_was_made():
    folder = ROOT / "models" / "smollm2-draft"
    summary = json.loads((folder / "training.json").read_text())

    assert sum(file.stat().st_size for file in folder.iterdir()) <= 20e6
    assert summary["rows_dropped_for_sharing_an_8_gram_with_a_bundled_prompt"] == 0
