"""A tokenizer that the suite names: it counts where the server does not, and checks where it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.engines.serving.accounting import ESTIMATED_TOTAL
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm
from tests import tiny
from tests.serving.conftest import Pair as Arms
from tests.serving.conftest import ask
from tests.serving.script import Script

SAYS_NOTHING = Script(pattern=(1, 3, 2), k=4, usage="none", ids=False)


def test_a_tokenizer_counts_what_a_server_does_not_tell(arms: Arms, tmp_path: Path) -> None:
    tiny.tokenizer().save_pretrained(tmp_path / "words")
    engine, _, fast = arms(SAYS_NOTHING, tokenizer="words")

    (found,) = engine.generate([ask()], Arm.CANDIDATE)
    fast.script = replace(SAYS_NOTHING, usage="final", tokens=40)
    (checked,) = engine.generate([ask()], Arm.CANDIDATE)

    assert found.told is not None
    assert (found.output_tokens, found.told.notes[0]) == (12, ESTIMATED_TOTAL)  # one a word; the end has no text
    assert checked.told is not None
    assert checked.output_tokens == 40


def test_a_tokenizer_that_is_not_there_is_told_at_the_start(arms: Arms) -> None:
    engine, _, _ = arms(tokenizer="./nowhere", start=False)

    with pytest.raises(EngineError, match="nowhere"):
        engine.start()
