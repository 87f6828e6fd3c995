"""Which commit a run is of: CI's environment first, then git, and only what has the form of a name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_specgate.history.commit import source
from pytest_specgate.history.record import Source
from tests.unit.committing import git_as_anybody

SHA = "0123456789abcdef0123456789abcdef01234567"
GIT = git_as_anybody("trunk")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*GIT, "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("1")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_github_says_commit_branch_and_link(tmp_path: Path) -> None:
    environ = {
        "GITHUB_SHA": SHA,
        "GITHUB_REF_NAME": "main",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "me/mine",
        "GITHUB_RUN_ID": "7",
    }

    assert source(environ, tmp_path) == Source(SHA, "main", "https://github.com/me/mine/actions/runs/7")


def test_a_pull_request_is_of_its_own_branch(tmp_path: Path) -> None:
    environ = {"GITHUB_SHA": SHA, "GITHUB_HEAD_REF": "fix/x", "GITHUB_REF_NAME": "12/merge"}

    assert source(environ, tmp_path).branch == "fix/x"


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (
            {"CI_COMMIT_SHA": SHA, "CI_COMMIT_REF_NAME": "b", "CI_JOB_URL": "https://l/1"},
            Source(SHA, "b", "https://l/1"),
        ),
        (
            {"GIT_COMMIT": SHA, "GIT_BRANCH": "origin/b", "BUILD_URL": "http://j/1/"},
            Source(SHA, "origin/b", "http://j/1/"),
        ),
        ({"SPECGATE_COMMIT": "v1.2-rc", "GITHUB_SHA": SHA}, Source("v1.2-rc")),
        ({"GITHUB_SHA": "$(rm -rf /)", "CI_COMMIT_SHA": SHA}, Source(SHA)),
        ({"GITHUB_SHA": SHA, "GITHUB_REF_NAME": "a;b", "CI_JOB_URL": "javascript:alert(1)"}, Source(SHA)),
        ({"SPECGATE_COMMIT": "--upload-pack=x"}, Source()),
    ],
)
def test_what_ci_says_is_taken_where_it_has_the_form_of_a_name(
    tmp_path: Path, environ: dict[str, str], found: Source
) -> None:
    assert source(environ, tmp_path) == found


def test_git_says_commit_branch_and_changes(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    branch = git(checkout, "rev-parse", "--abbrev-ref", "HEAD")

    assert source({}, checkout) == Source(head, branch)
    (checkout / "a.txt").write_text("2")
    assert source({}, checkout) == Source(head, branch, "", changed=True)


def test_a_detached_checkout_has_no_branch(checkout: Path) -> None:
    git(checkout, "checkout", "--quiet", "--detach")

    assert source({}, checkout).branch == ""
    assert source({"SPECGATE_BRANCH": "main"}, checkout).branch == "main"


def test_no_git_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source({}, tmp_path) == Source()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source({}, tmp_path) == Source()
