"""What gates are known by: a metric's name, or that of another statistic of a latency, ``ttft.p95``."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_specgate.metrics import METRICS, Metric

_PLACES = {name: place for place, name in enumerate(METRICS)}


def split(label: str) -> tuple[str, str]:
    """The metric's name, and the statistic, empty where it is the metric's own."""
    name, _, statistic = label.partition(".")
    return name, statistic


def metric_of(label: str) -> Metric:
    """The metric's definition. Raises KeyError for an unknown one."""
    return METRICS[split(label)[0]]


def in_order(labels: Iterable[str]) -> list[str]:
    """Each label once, in the order of the table of metrics; those of unknown metrics are left out."""
    known = [label for label in set(labels) if split(label)[0] in _PLACES]
    return sorted(known, key=lambda label: (_PLACES[split(label)[0]], label))
