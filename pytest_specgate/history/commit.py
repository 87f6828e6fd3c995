"""Which commit a run is of: what CI says in its environment, else what git says of the working tree.

``SPECGATE_COMMIT`` and ``SPECGATE_BRANCH`` win over both. Nothing here goes through a shell, and what comes back is
kept only where it has the form of a name, for people will paste it into one.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pytest_specgate.history.record import Source

#: The first that is set counts: our own, then GitHub, GitLab, Jenkins, Azure, Buildkite, CircleCI, Bitbucket, Drone.
COMMITS = (
    *("SPECGATE_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION"),
    *("BUILDKITE_COMMIT", "CIRCLE_SHA1", "BITBUCKET_COMMIT", "DRONE_COMMIT_SHA"),
)
BRANCHES = (
    *("SPECGATE_BRANCH", "GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME", "GIT_BRANCH"),
    *("BUILD_SOURCEBRANCHNAME", "BUILDKITE_BRANCH", "CIRCLE_BRANCH", "BITBUCKET_BRANCH", "DRONE_BRANCH"),
)
_LINKS = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
_COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
_BRANCH = re.compile(r"[0-9A-Za-z][\w./+-]{0,199}")
_LINK = re.compile(r"https?://[\w.~:/?#@!$&*+,;=%-]{1,400}")
_GIT_SECONDS = 10


def source(environ: Mapping[str, str], folder: Path) -> Source:
    """What this run is of; nothing is raised, and what nobody knows stays empty."""
    commit, branch = _first(environ, COMMITS, _COMMIT), _first(environ, BRANCHES, _BRANCH)
    if commit:
        return Source(commit, branch, _link(environ))
    commit = _kept(_git(folder, "rev-parse", "HEAD"), _COMMIT)
    if not commit:
        return Source("", branch, _link(environ))
    changed = bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))
    named = branch or _kept(_git(folder, "rev-parse", "--abbrev-ref", "HEAD"), _BRANCH)
    return Source(commit, "" if named == "HEAD" else named, _link(environ), changed)


def _first(environ: Mapping[str, str], names: tuple[str, ...], form: re.Pattern[str]) -> str:
    return next((kept for name in names if (kept := _kept(environ.get(name, ""), form))), "")


def _kept(text: str, form: re.Pattern[str]) -> str:
    return text if form.fullmatch(text) else ""


def _link(environ: Mapping[str, str]) -> str:
    server, repository, run = (environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    if server and repository and run:
        return _kept(f"{server}/{repository}/actions/runs/{run}", _LINK)
    return _first(environ, _LINKS, _LINK)


def _git(folder: Path, *arguments: str) -> str:
    # Optional locks would wait for, or disturb, whoever works in the same tree.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command without a shell
            command, capture_output=True, text=True, errors="replace", timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
