"""``--specgate-export``: real clients where they are installed, and one line where they are not, or fail."""

from __future__ import annotations

import http.server
import importlib.util
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_specgate import interop
from pytest_specgate.errors import SpecgateError
from pytest_specgate.history.record import SCHEMA, CaseLine, RunLine, Source
from pytest_specgate.plugin.options import TRACKERS
from pytest_specgate.records import Outcome, Place

from .conftest import FAIL, PASS, Project

RUN = RunLine(
    SCHEMA,
    "0.1.0",
    "2026-01-01T00:00:00+00:00",
    Source("abc1234", "main"),
    1,
    9.0,
    (
        CaseLine(
            "s.yaml",
            "tiny::qa-t0-c1",
            Place("H200", 1, "bfloat16"),
            {},
            {},
            {"speedup": 1.5, "ttft.p95": 0.25, "vram": 2.0**30},
            {"speedup": Outcome.PASS, "ttft.p95": Outcome.FAIL},
            (),
            1.0,
            8,
        ),
    ),
)


def test_the_options_trackers_are_those_that_there_are() -> None:
    assert sorted(interop.TRACKERS) == list(TRACKERS)


def test_what_every_tracker_gets() -> None:
    assert [(one.metric, one.value) for one in interop.figures(RUN)] == [
        ("speedup", 1.5),
        ("ttft.p95", 0.25),
        ("vram", 2.0**30),
    ]
    assert interop.outcomes(RUN) == {"PASS": 1, "FAIL": 1}
    assert interop.tags(RUN) == {
        "specgate.version": "0.1.0",
        "specgate.commit": "abc1234",
        "specgate.branch": "main",
        "specgate.exit_status": "1",
    }


def test_a_client_that_is_not_installed_is_a_usage_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop, "TRACKERS", {"mlflow": ("pytest_specgate.interop.mlflow", "no_such_package")})
    project.suite(PASS)

    result = project.run("--specgate-export=mlflow")

    assert result.ret == 4
    hint = "python -m pip install 'pytest-specgate[[]mlflow]'"
    result.stderr.fnmatch_lines([f"ERROR: --specgate-export mlflow: no_such_package is not installed — {hint}"])


def test_an_unknown_tracker_is_a_usage_error(project: Project) -> None:
    project.suite(PASS)

    result = project.run("--specgate-export=mlflaw")

    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: --specgate-export: unknown tracker 'mlflaw' — choose one of: mlflow, otel, wandb"]
    )


def test_a_tracker_that_fails_is_a_warning_and_changes_no_verdict(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("broken.py", "def export(run, files):\n    raise ConnectionError('no route to correct-horse')\n")
    monkeypatch.syspath_prepend(str(project.path))
    monkeypatch.setattr(interop, "TRACKERS", {"mlflow": ("broken", "json")})
    monkeypatch.setenv("MY_TOKEN", "correct-horse")
    project.suite(PASS)

    result = project.run("--specgate-export=mlflow")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["warning: mlflow: the run was not exported (ConnectionError: no route to ????????) — look at the tracker's *"]
    )


def test_what_is_sent_is_what_was_measured(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(
        "kept.py",
        "import pathlib\n"
        "def export(run, files):\n"
        "    gates = {name: outcome.value for name, outcome in run.cases[0].outcomes.items()}\n"
        "    pathlib.Path('seen.txt').write_text(repr((gates, [path.name for path in files])))\n",
    )
    monkeypatch.syspath_prepend(str(project.path))
    monkeypatch.setattr(interop, "TRACKERS", {"otel": ("kept", "json")})
    project.suite(PASS, FAIL)

    result = project.run("--specgate-export=otel", "--specgate-report=out.md")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["exported to otel"])
    seen = (project.path / "seen.txt").read_text()
    assert seen == "({'speedup': 'PASS', 'conditional_acceptance': 'FAIL'}, ['out.md'])"


def needs(package: str) -> None:
    """Skip without importing it: what a client leaves behind would count against the other tests of this process."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


# --- real clients, in a process of their own: pytester takes modules out of this one ---


def test_mlflow_keeps_the_run_in_its_store(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (project.path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "gates")
    monkeypatch.setenv("SPECGATE_COMMIT", "abc1234")
    project.suite(PASS, FAIL)

    result = project.python("--specgate-export=mlflow", "--specgate-report=out.md")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["exported to mlflow"])
    metrics = {path.name: path.read_text().split() for path in project.path.glob("store/*/*/metrics/*/*")}
    assert 1.4 < float(metrics["speedup"][1]) < 1.6
    assert [metrics[name][1] for name in ("PASS", "FAIL")] == ["1.0", "1.0"]
    (tag,) = project.path.glob("store/*/*/tags/specgate.commit")
    assert tag.read_text() == "abc1234"
    assert len(list(project.path.glob("store/*/*/artifacts/out.md"))) == 1


def test_wandb_keeps_the_run_offline(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(project.path))
    monkeypatch.setenv("SPECGATE_COMMIT", "abc1234")
    project.suite(PASS)

    result = project.python("--specgate-export=wandb")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["exported to wandb"])
    (kept,) = project.path.glob("wandb/offline-run-*/run-*.wandb")
    content = kept.read_bytes()
    assert b"tiny::qa-t0-c1/speedup" in content
    assert b"abc1234" in content


def points(reader: Any) -> dict[str, list[tuple[float, dict[str, Any]]]]:
    """Every point by instrument."""
    found: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found[metric.name] = [(point.value, dict(point.attributes)) for point in metric.data.data_points]
    return found


def test_opentelemetry_gets_gauges_and_a_counter() -> None:
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    from opentelemetry.sdk.metrics import MeterProvider

    from pytest_specgate.interop import otel

    reader = export.InMemoryMetricReader()
    otel.record(RUN, MeterProvider(metric_readers=[reader]))

    found = points(reader)
    ((value, attributes),) = found["specgate.speedup"]
    assert value == 1.5
    assert attributes["specgate.case"] == "tiny::qa-t0-c1"
    assert attributes["specgate.place"] == "h200-x1-bfloat16"
    assert attributes["specgate.commit"] == "abc1234"
    assert {attributes["specgate.outcome"]: value for value, attributes in found["specgate.gates"]} == {
        "PASS": 1,
        "FAIL": 1,
    }


@pytest.fixture
def collector() -> Iterator[tuple[str, list[str]]]:
    """An endpoint for OTLP over HTTP on a port of its own, and the paths that were posted to."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()
    thread.join()


def test_opentelemetry_sends_to_its_endpoint(collector: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    endpoint, seen = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("NO_PROXY", "*")

    interop.export("otel", RUN, [])

    assert seen == ["/v1/metrics"]


def test_an_endpoint_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("pytest_specgate.interop.otel._SECONDS", 1.0)
    monkeypatch.setenv("NO_PROXY", "*")

    with pytest.raises(SpecgateError, match="otel: "):
        interop.export("otel", RUN, [])
