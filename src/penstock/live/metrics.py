"""The figures of a node as Prometheus wants them; made anew at every scrape, so that nothing is counted twice.

What the shell counts comes from the node, what the broker counts from its status; names follow Prometheus' customs
(unit last, ``_total`` for what only grows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["StatusSource", "registry_of", "rendered"]

_NODE_COUNTERS: Final = {
    "accepted": "Connections that others made.",
    "dialled": "Connections to neighbours that were made.",
    "dials_failed": "Calls to neighbours that failed.",
    "closed": "Connections that ended.",
    "aborted": "Connections that were cut because their end took too long.",
    "frames_in": "Frames received.",
    "bytes_in": "Bytes received.",
    "frames_out": "Frames sent.",
    "bytes_out": "Bytes sent.",
    "writes": "Writes to sockets.",
    "malformed": "Connections ended because they broke the protocol.",
    "bugs": "Exceptions that must not be.",
}
_STORE_COUNTERS: Final = {
    "commits": "Commits that are durable.",
    "syncs": "Groups of commits that became durable by one sync.",
    "messages": "Messages in durable commits.",
    "reads": "Reads of the log.",
}
_STORE_GAUGES: Final = {
    "waiting_commits": "Commits that are not durable yet.",
    "waiting_bytes": "Bytes of messages in commits that are not durable yet.",
    "messages_per_sync": "Messages per sync since the start.",
    "full": "Whether commits wait for space.",
    "file_bytes": "Size of the store's files.",
    "damaged_records": "Records of the log that could not be read.",
}
_BROKER_GAUGES: Final = {
    "clients": "Clients that are connected.",
    "subscriptions": "Subscriptions of this broker's clients.",
    "outbox_bytes": "Data that waits to be sent.",
}


class StatusSource(Protocol):
    """What has a status to show: a node."""

    def status(self) -> dict[str, Any]:
        """How it is."""


def registry_of(source: StatusSource) -> CollectorRegistry:
    """A registry of its own, which asks the source at every scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(source))
    return registry


def rendered(registry: CollectorRegistry) -> bytes:
    """The text that Prometheus reads."""
    return generate_latest(registry)


class _Collector:
    """Asks the source, and turns its answer into metrics."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source

    def describe(self) -> list[Metric]:
        """Nothing: what there is depends on the broker, and is asked for at every scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics of this moment."""
        status = self._source.status()
        node, broker = status["node"], status["broker"]
        yield _gauge("penstock_up", "Whether the broker is serving.", int(status["serving"]))
        yield _gauge("penstock_uptime_seconds", "Time since the start.", status["uptime_ms"] / 1_000)
        yield _gauge("penstock_connections", "Connections that are open.", node["open_connections"])
        for key, text in _NODE_COUNTERS.items():
            yield _counter(f"penstock_{key}", text, node[key])
        yield from _broker_metrics(broker)
        if store := status.get("store"):
            yield from _store_metrics(store)


def _store_metrics(store: Mapping[str, Any]) -> Iterator[Metric]:
    for key, text in _STORE_COUNTERS.items():
        yield _counter(f"penstock_store_{key}", text, store[key])
    for key, text in _STORE_GAUGES.items():
        yield _gauge(f"penstock_store_{key}", text, store[key])
    yield _gauge("penstock_store_last_sync_seconds", "Duration of the last sync.", store["last_sync_ms"] / 1_000)


def _broker_metrics(broker: Mapping[str, Any]) -> Iterator[Metric]:
    for key, text in _BROKER_GAUGES.items():
        if key in broker:
            yield _gauge(f"penstock_{key}", text, broker[key])
    for key, text in (("links", "Links that are up."), ("brokers", "Brokers of the overlay that are known.")):
        if key in broker:
            yield _gauge(f"penstock_{key}", text, len(broker[key]))
    if "refused" in broker:
        yield _counter("penstock_refused", "Requests of clients that were refused.", broker["refused"])
    for key, value in broker.get("counts", {}).items():
        yield _counter(f"penstock_{key}", f"Messages {key.replace('_', ' ')}.", value)
    dropped = CounterMetricFamily("penstock_dropped", "Data frames dropped at a full outbox.", labels=["to"])
    for kind, value in broker.get("dropped", {}).items():
        dropped.add_metric([kind], value)
    yield dropped
    filters = GaugeMetricFamily("penstock_filter", "Sizes of the filters of all brokers.", labels=["of"])
    for kind, value in broker.get("filters", {}).items():
        filters.add_metric([kind], value)
    yield filters
    yield from _mechanism_metrics(broker.get("mechanisms", {}))


def _mechanism_metrics(mechanisms: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    family = GaugeMetricFamily("penstock_mechanism", "Figures of the mechanisms.", labels=["mechanism", "figure"])
    for name, figures in mechanisms.items():
        for figure, value in figures.items():
            if isinstance(value, int | float):
                family.add_metric([name, figure], value)
    yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
