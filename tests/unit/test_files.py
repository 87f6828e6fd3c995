"""Files are whole at every moment: real processes are killed, real locks are held."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_specgate.errors import StoreError
from pytest_specgate.files import write_atomically

KILLS = 200

# Loads files.py and errors.py only: a start takes a tenth of what the whole package would.
WRITER = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from pytest_specgate.files import write_atomically
path, number = Path(sys.argv[1]), 0
print("ready", flush=True)
while True:
    number = 1 - number
    body = "ab"[number] * 200_000
    write_atomically(path, '{{"version": %d, "body": "%s", "end": %d}}\\n' % (number, body, number))
"""


def scratch_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".tmp")]


def test_the_text_is_there_as_utf_8_and_nothing_else_is(tmp_path: Path) -> None:
    write_atomically(tmp_path / "deep" / "er" / "x.json", "é\n")

    assert (tmp_path / "deep" / "er" / "x.json").read_bytes() == b"\xc3\xa9\n"
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["x.json"]


def test_200_kills_leave_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path, moments, torn = tmp_path / "x.json", random.Random(7), 0
    script = WRITER.format(root=str(Path(__file__).parents[2]))
    for _ in range(KILLS):
        command = [sys.executable, "-S", "-E", "-c", script, str(path)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0, 0.02))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        torn += bool(scratch_files(tmp_path))
        if path.exists():
            data = json.loads(path.read_text())
            assert data["version"] == data["end"]
            assert data["body"] == "ab"[data["version"]] * 200_000
    assert path.exists()
    assert torn, "the kills never met a writer at work, so that the test shows nothing"
    write_atomically(path, "{}\n")
    assert scratch_files(tmp_path) == []


def test_a_writer_that_lives_keeps_its_scratch_file(tmp_path: Path) -> None:
    import fcntl

    theirs, dead = tmp_path / ".x.json.aaaa.tmp", tmp_path / ".x.json.bbbb.tmp"
    theirs.write_text("half")
    dead.write_text("half")
    with theirs.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(tmp_path / "x.json", "{}")

        assert scratch_files(tmp_path) == [theirs]
    write_atomically(tmp_path / "x.json", "{}")
    assert scratch_files(tmp_path) == []


def test_other_files_scratch_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / ".y.json.aaaa.tmp"
    other.write_text("theirs")

    write_atomically(tmp_path / "x.json", "{}")

    assert other.read_text() == "theirs"


def test_many_writers_at_once_never_fail_and_leave_one_of_theirs(tmp_path: Path) -> None:
    script = WRITER.format(root=str(Path(__file__).parents[2])).replace("while True:", "for _ in range(40):")
    command = [sys.executable, "-S", "-E", "-c", script, str(tmp_path / "x.json")]
    writers = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
    errors = [writer.communicate()[1] for writer in writers]

    assert errors == [b""] * 4
    assert json.loads((tmp_path / "x.json").read_text())["version"] in (0, 1)
    assert scratch_files(tmp_path) == []


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("precious")
    link = tmp_path / "x.json"
    link.symlink_to(outside)

    write_atomically(link, "{}")

    assert outside.read_text() == "precious"
    assert not link.is_symlink()
    assert link.read_text() == "{}"


def test_a_leftover_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("precious")
    (tmp_path / ".x.json.aaaa.tmp").symlink_to(outside)

    write_atomically(tmp_path / "x.json", "{}")

    assert outside.read_text() == "precious"


def test_the_umask_says_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x.json", "{}")
    finally:
        os.umask(before)

    assert (tmp_path / "x.json").stat().st_mode & 0o777 == 0o640


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "x.json"

    with pytest.raises(StoreError) as caught:
        write_atomically(path, "{}")

    assert str(caught.value) in (
        f"{path}: cannot be written (Not a directory) — choose a writable place",
        f"{path}: cannot be written (File exists) — choose a writable place",
    )


def test_a_failed_write_keeps_the_old_file_and_leaves_no_scratch(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")

    with pytest.raises(StoreError) as caught:
        write_atomically(path, "ab\ud800")

    what = "holds half a surrogate pair at character 2 — store only what UTF-8 can carry"
    assert str(caught.value) == f"{path}: {what}"
    assert path.read_text() == "old"
    assert scratch_files(tmp_path) == []
