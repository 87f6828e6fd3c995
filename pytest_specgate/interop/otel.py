"""OpenTelemetry: a gauge ``specgate.METRIC`` for each metric, and ``specgate.gates`` counted by outcome.

Where to: a meter provider that the process has already set, else OTLP over HTTP to OTEL_EXPORTER_OTLP_ENDPOINT. What
identifies the run (commit, branch) is in the attributes of every point.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_specgate.errors import SpecgateError
from pytest_specgate.history.record import RunLine
from pytest_specgate.interop import figures, outcomes, tags
from pytest_specgate.labels import split
from pytest_specgate.metrics import METRICS, Unit

#: Units as UCUM, which OpenTelemetry uses, writes them.
_UNITS = {
    Unit.SECONDS: "s",
    Unit.BYTES: "By",
    Unit.RATE: "{token}/s",
    Unit.TOKENS: "{token}",
    Unit.REQUESTS: "{request}",
    Unit.WATTS: "W",
    Unit.JOULES: "J",
}
_SECONDS = 10.0


def export(run: RunLine, files: Sequence[Path]) -> None:  # noqa: ARG001 - every tracker is asked alike
    """Record the run, and wait until it was sent. Raises SpecgateError where it was not."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    provider = metrics.get_meter_provider()
    if isinstance(provider, MeterProvider):
        record(run, provider)
        sent = provider.force_flush(timeout_millis=_SECONDS * 1000)
    else:
        sent = _over_http(run)
    if not sent:
        raise SpecgateError("otel: the endpoint took no metrics — look at OTEL_EXPORTER_OTLP_ENDPOINT")


def _over_http(run: RunLine) -> bool:
    """Send every point once; a periodic reader would send counts again when it is shut down."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    exporter = OTLPMetricExporter(timeout=_SECONDS)
    try:
        record(run, provider)
        result = exporter.export(reader.get_metrics_data(), timeout_millis=_SECONDS * 1000)
    finally:
        exporter.shutdown()
        provider.shutdown()
    return bool(result is MetricExportResult.SUCCESS)


def record(run: RunLine, provider: Any) -> None:
    """Put every number into instruments of this meter provider."""
    meter, common = provider.get_meter("pytest_specgate", run.version), tags(run)
    gauges: dict[str, Any] = {}
    for one in figures(run):
        metric = METRICS.get(split(one.metric)[0])
        if one.metric not in gauges:
            unit = _UNITS.get(metric.unit, "1") if metric else "1"
            told = metric.definition if metric else ""
            gauges[one.metric] = meter.create_gauge(f"specgate.{one.metric}", unit=unit, description=told)
        where = {"specgate.suite": one.suite, "specgate.case": one.case, "specgate.place": one.place}
        gauges[one.metric].set(one.value, {**common, **where})
    counter = meter.create_counter("specgate.gates", unit="{gate}", description="gates of a run by outcome")
    for outcome, count in outcomes(run).items():
        counter.add(count, {**common, "specgate.outcome": outcome})
