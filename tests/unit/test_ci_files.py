"""The files of ``docs/ci``: they parse, what they call exists, and the scripts do what they say."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_specgate.__main__ import parser
from pytest_specgate.history import store
from pytest_specgate.plugin.options import TABLE
from tests.unit.committing import git_as_anybody
from tests.unit.project import SPEEDUP, write

ROOT = Path(__file__).parents[2]
CI = ROOT / "docs" / "ci"
SCRIPTS = sorted(CI.glob("*.sh"))
FILES = sorted(path for path in CI.iterdir() if path.is_file())
GIT = git_as_anybody("main")


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """The least that a CI gives: nothing of the machine that runs this test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
    kept = {
        "PATH": path,
        "HOME": str(tmp_path),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p pytest_specgate.plugin",
        "SPECGATE_CACHE": str(tmp_path / ".cache"),
        "LC_ALL": "C.UTF-8",
    }
    return {**kept, **more}


def shell(script: str, *arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(CI / script), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(folder, **more), capture_output=True, text=True, check=False, timeout=900
    )


def project(folder: Path, *gates: dict[str, object], **how: Any) -> None:
    suites = folder / "suites"
    suites.mkdir(exist_ok=True)
    write(suites, *gates, **how)


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


# --- what they say ---


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_shell(path: Path) -> None:
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", str(path)], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["github.yml", "gitlab-ci.yml"])
def test_yaml_parses_and_its_commands_are_shell(name: str) -> None:
    data = yaml.safe_load((CI / name).read_text(encoding="utf-8"))
    commands = list(_commands(data))

    assert len(commands) >= 5
    for command in commands:
        plain = re.sub(r"\$\{\{.*?\}\}", "x", command)
        assert subprocess.run(["bash", "-n", "-c", plain], check=False, capture_output=True).returncode == 0, command


def _commands(data: Any) -> Iterator[str]:
    """What is run, whichever key says so."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in {"run", "script", "before_script", "after_script"}:
                yield from [value] if isinstance(value, str) else value
            else:
                yield from _commands(value)
    elif isinstance(data, list):
        for value in data:
            yield from _commands(value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_scripts_and_options_that_are_named_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    known = {option.flag for option in TABLE}

    assert set(re.findall(r"--specgate[a-z-]*", text)) <= known
    for named in re.findall(r"docs/ci/[\w.-]+", text):
        assert (ROOT / named).is_file(), named
    for command in re.findall(r"-m pytest_specgate (\w+)", text):
        assert command in parser().format_help()


def test_github_never_runs_a_fork_on_its_own_runner_and_writes_only_to_refresh() -> None:
    data = yaml.safe_load((CI / "github.yml").read_text(encoding="utf-8"))

    assert "head.repo.full_name == github.repository" in data["jobs"]["gate"]["if"]
    assert data["permissions"] == {"contents": "read"}
    assert "permissions" not in data["jobs"]["gate"]
    assert data["jobs"]["gate"]["runs-on"][0] == "self-hosted"
    # What others name (branches, titles) never stands in a command.
    assert not any("github.event" in command or "github.head_ref" in command for command in _commands(data))


def test_the_image_copies_what_is_there() -> None:
    lines = (CI / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]

    assert copied
    assert all((ROOT / name).exists() for name in copied)
    assert lines[-1] == 'ENTRYPOINT ["gate.sh"]'


def test_the_pipeline_of_jenkins_closes_what_it_opens() -> None:
    text = (CI / "Jenkinsfile").read_text(encoding="utf-8")

    assert text.count("{") == text.count("}")
    for command in re.findall(r"sh '([^']*)'", text):
        assert subprocess.run(["bash", "-n", "-c", command], check=False, capture_output=True).returncode == 0


# --- what they do ---


def test_the_gate_leaves_all_reports_and_a_history(tmp_path: Path) -> None:
    project(tmp_path, SPEEDUP)

    done = shell("gate.sh", folder=tmp_path, SPECGATE_HISTORY="kept", SPECGATE_COMMIT="abc123", SPECGATE_BUDGET="5min")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was run" in done.stdout
    assert "PASS" in done.stdout
    names = {path.name for path in (tmp_path / "specgate-out").iterdir()}
    assert names == {"report.html", "report.json", "report.md", "junit.xml"}
    assert [run.source.commit for run in store.read(tmp_path / "kept").runs] == ["abc123"]


def test_the_gates_exit_status_is_pytests(tmp_path: Path) -> None:
    project(tmp_path, {"metric": "speedup", "limit": ">=9x"})
    assert shell("gate.sh", "nowhere", folder=tmp_path).returncode == 4

    (tmp_path / "suites/bad.specgate.yaml").write_text("specgate: 1\n")
    done = shell("gate.sh", folder=tmp_path, GITHUB_ACTIONS="true")

    assert done.returncode == 1
    assert done.stdout.count("\n::error file=suites/demo.specgate.yaml,line=1,") == 1
    assert done.stdout.count("\n::error file=suites/bad.specgate.yaml,line=1,") == 1
    assert (tmp_path / "specgate-out/report.json").is_file()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a remote beside it."""
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(tmp_path, "init", "--quiet", "work")
    work = tmp_path / "work"
    git(work, "remote", "add", "origin", "../remote.git")
    project(work, {"metric": "speedup", "max_drop": "20%"})
    git(work, "add", "suites")
    git(work, "commit", "--quiet", "-m", "suites")
    return work


def test_a_refresh_pushes_a_branch_of_its_own_and_only_what_changed(checkout: Path) -> None:
    main = git(checkout, "rev-parse", "HEAD")
    (checkout / "notes.txt").write_text("mine")
    git(checkout, "add", "notes.txt")

    done = shell("refresh.sh", folder=checkout, SPECGATE_RUNNER="h200", SPECGATE_SESSIONS="1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("refresh: pushed to specgate/baselines-h200\n")
    pushed = git(checkout.parent / "remote.git", "rev-parse", "specgate/baselines-h200")
    assert git(checkout, "show", "--name-only", "--format=%s", pushed).splitlines() == [
        "Record the baselines of h200 anew",
        "",
        "baselines/simulated-x1-none/demo.json",
    ]
    assert git(checkout, "rev-parse", f"{pushed}^") == main


def test_a_refused_refresh_pushes_nothing(checkout: Path) -> None:
    project(checkout, {"metric": "speedup", "max_drop": "0.001%"})

    done = shell("refresh.sh", folder=checkout, SPECGATE_SESSIONS="1")

    assert done.returncode == 1
    assert git(checkout.parent / "remote.git", "branch", "--list") == ""


class _Notes(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted, as GitLab's API would."""

    seen: list[tuple[str, str, str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append((self.path, self.headers["PRIVATE-TOKEN"], body))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


def test_a_note_of_the_merge_request_holds_the_summary(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    handler = type("Handler", (_Notes,), {"seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    (tmp_path / "report.md").write_text("## Speculation gates: 1 failed\n\n50 % & more\n")
    known = {
        "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}/api/v4",
        "CI_PROJECT_ID": "7",
        "NO_PROXY": "*",
        "SPECGATE_GITLAB_TOKEN": "t0ken",
    }
    try:
        done = shell("gitlab-comment.sh", "report.md", folder=tmp_path, CI_MERGE_REQUEST_IID="3", **known)
        missing = shell("gitlab-comment.sh", "report.md", folder=tmp_path, **known)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

    assert done.returncode == 0, done.stderr
    ((path, token, body),) = handler.seen  # type: ignore[attr-defined]
    assert (path, token) == ("/api/v4/projects/7/merge_requests/3/notes", "t0ken")
    assert urllib.parse.parse_qs(body)["body"] == ["## Speculation gates: 1 failed\n\n50 % & more\n"]
    assert missing.returncode != 0
    assert "run this in a pipeline of a merge request" in missing.stderr


def test_the_trend_step_only_warns(tmp_path: Path) -> None:
    data = yaml.safe_load((CI / "github.yml").read_text(encoding="utf-8"))
    (step,) = [step for step in data["jobs"]["gate"]["steps"] if step.get("name") == "Trend"]
    project(tmp_path, SPEEDUP)
    shell("gate.sh", folder=tmp_path, SPECGATE_HISTORY="kept", SPECGATE_BRANCH="main")

    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env=environment(tmp_path, SPECGATE_HISTORY="kept"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "specgate-out/trend.html").is_file()
    assert json.loads((tmp_path / "kept/runs.jsonl").read_text())["source"]["branch"] == "main"
