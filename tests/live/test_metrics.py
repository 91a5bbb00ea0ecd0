"""Figures for Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from penstock.live.counters import Counters
from penstock.live.metrics import registry_of, rendered
from penstock.live.store_figures import StoreFigures


class Source:
    def __init__(self) -> None:
        self.counters = Counters(open_connections=2, bytes_in=10)

    def status(self) -> dict[str, Any]:
        broker = {
            "subscriptions": 3,
            "clients": 1,
            "outbox_bytes": 99,
            "links": ["b2", "b3"],
            "refused": 4,
            "counts": {"published": 7, "delivered": 8},
            "dropped": {"link": 1, "client": 0},
            "filters": {"hosts": 5},
            "mechanisms": {"token": {"walks": 6, "name": "text is no figure"}},
        }
        return {"serving": True, "uptime_ms": 1_500, "node": self.counters.as_dict(), "broker": broker}


STORE = {
    **StoreFigures(
        commits=12, syncs=4, messages=40, reads=2, last_sync_ms=1.5, file_bytes=9, full_reason="x"
    ).as_dict(),
    "folder": "data",
    "waiting_commits": 3,
    "waiting_bytes": 450,
}


class Keeping(Source):
    def status(self) -> dict[str, Any]:
        return super().status() | {"store": STORE}


def samples(source: Source) -> dict[tuple[str, tuple[str, ...]], float]:
    text = rendered(registry_of(source)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_figures_are_there() -> None:
    found = samples(Source())
    expected = {
        ("penstock_up", ()): 1,
        ("penstock_uptime_seconds", ()): 1.5,
        ("penstock_connections", ()): 2,
        ("penstock_bytes_in_total", ()): 10,
        ("penstock_malformed_total", ()): 0,
        ("penstock_subscriptions", ()): 3,
        ("penstock_outbox_bytes", ()): 99,
        ("penstock_links", ()): 2,
        ("penstock_published_total", ()): 7,
        ("penstock_delivered_total", ()): 8,
        ("penstock_refused_total", ()): 4,
        ("penstock_dropped_total", ("link",)): 1,
        ("penstock_filter", ("hosts",)): 5,
        ("penstock_mechanism", ("token", "walks")): 6,
    }
    assert expected.items() <= found.items()


def test_the_figures_of_the_store_are_there_if_there_is_one() -> None:
    expected = {
        ("penstock_store_commits_total", ()): 12,
        ("penstock_store_syncs_total", ()): 4,
        ("penstock_store_messages_per_sync", ()): 10,
        ("penstock_store_waiting_commits", ()): 3,
        ("penstock_store_waiting_bytes", ()): 450,
        ("penstock_store_last_sync_seconds", ()): 0.0015,
        ("penstock_store_full", ()): 1,
        ("penstock_store_file_bytes", ()): 9,
        ("penstock_store_damaged_records", ()): 0,
    }
    assert expected.items() <= samples(Keeping()).items()
    assert not [name for name, _ in samples(Source()) if name.startswith("penstock_store")]


def test_every_scrape_asks_again() -> None:
    source = Source()
    registry = registry_of(source)
    assert b"penstock_bytes_in_total 10.0" in rendered(registry)
    source.counters.bytes_in = 11
    assert b"penstock_bytes_in_total 11.0" in rendered(registry)


def test_a_broker_that_says_little_is_no_problem() -> None:
    class Silent(Source):
        def status(self) -> dict[str, Any]:
            return super().status() | {"broker": {}}

    assert ("penstock_up", ()) in samples(Silent())
