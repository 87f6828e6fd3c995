"""A server's log on disk: bounded, whole lines, no secrets, and no harm from a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate import masking
from pytest_specgate.engines.serving import ringlog
from pytest_specgate.engines.serving.ringlog import RingLog


def on_disk(path: Path) -> str:
    older = path.with_name(path.name + ".1")
    return (older.read_text() if older.exists() else "") + (path.read_text() if path.exists() else "")


@pytest.mark.parametrize("limit", [64, 1000, 4096])
@pytest.mark.parametrize("piece", [1, 7, 300])
def test_it_keeps_the_newest_lines_within_its_limit(tmp_path: Path, limit: int, piece: int) -> None:
    said = "".join(f"line {number}\n" for number in range(2000))
    log = RingLog(tmp_path / "log", limit)

    for start in range(0, len(said), piece):
        log.write(said[start : start + piece].encode())
    log.close()

    kept = on_disk(tmp_path / "log")
    assert len(kept) <= limit
    assert len(kept) >= limit // 2 - 20
    assert said.endswith(kept)
    assert [line.decode() for line in log.tail] == said.splitlines()[-ringlog.TAIL_LINES :]


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "log", 1000)

    log.write(b"x" * 200_000)
    log.close()

    assert len(on_disk(tmp_path / "log")) <= 1000
    assert log.tail[-1] == b"x" * ringlog.TAIL_WIDTH


def test_of_a_progress_bar_the_last_state_is_told(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "log", 1000)

    log.write(b"loading 1%\rloading 50%\rloading 99%\r\n\n   \nready\r\n")

    log.close()

    assert list(log.tail) == [b"loading 99%", b"ready"]


def test_secrets_are_hidden_even_where_a_read_cuts_them(tmp_path: Path) -> None:
    log = RingLog(tmp_path / "log", 1000, ["sk-abcdef", ""])

    for byte in b"key sk-abcdef, again sk-abcdef\n":
        log.write(bytes([byte]))
    log.close()

    assert on_disk(tmp_path / "log") == f"key {masking.MASK}, again {masking.MASK}\n"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is always full")
def test_a_disk_that_is_full_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("/dev/full")
    log = RingLog(tmp_path / "log", 1 << 20)

    log.write(b"first\n")
    log.write(b"second\n" * 100)
    log.write(b"last")
    log.close()
    log.close()

    assert log.tail[0] == b"second"
    assert Path("/dev/full").is_char_device()
    assert log.tail[-1] == b"last"
