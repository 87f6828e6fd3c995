"""Whose values are secrets beyond those of variables with a telling name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate import masking
from pytest_specgate.masking import MASK, masker
from tests.unit.test_suite_started_servers import load

ENVIRON = {"GATE_PASS": "sk-0123456789", "FLAGS": "--api-key=abc", "FOLDER": "/models/large", "MODE": "true"}


@pytest.fixture(autouse=True)
def nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_learned", {})


def test_a_suite_tells_which_variables_hold_keys(tmp_path: Path) -> None:
    text = " ".join(ENVIRON.values())
    assert masker(ENVIRON)(text) == text

    arm = {"command": ["serve", "${env:FLAGS}", "${env:MODE}", "${port}"]}
    load(tmp_path, arm, ENVIRON, api_key_env="GATE_PASS", model="${env:FOLDER}")

    assert masker(ENVIRON)(text) == f"{MASK} {MASK} /models/large true"


@pytest.mark.parametrize(("value", "shown"), [("abc", "abc"), ("abcd", MASK)])
def test_a_key_may_be_shorter_than_what_only_looks_like_one(value: str, shown: str) -> None:
    masking.learn_key("GATE_PASS")
    masking.learn_part("GATE_PASS")

    assert masker({"GATE_PASS": value, "MY_TOKEN": "abcdefg"})(f"{value} abcdefg").split()[0] == shown
    assert masker({"MY_TOKEN": "abcdefg"})("abcdefg") == "abcdefg"


def test_another_process_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    masking.learn_key("ONE")
    masking.learn_part("OTHER")
    told = masking.learned()
    monkeypatch.setattr(masking, "_learned", {"OTHER": 4})

    masking.learn_all(told)

    assert masking.learned() == {"ONE": 4, "OTHER": 4}
