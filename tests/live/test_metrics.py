"""Figures for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from penstock.live.counters import Counters
from penstock.live.metrics import registry_of, rendered
from penstock.live.node_status import NodeStatus
from penstock.live.store_worker import StoreFigures
from penstock.model.tick import tick_at
from penstock.protocol.status import CandidacyStatus, GuaranteedStatus
from statuses import broker_status, node_status

NOW_MS = 1_000_000


class Source:
    def __init__(self) -> None:
        self.counters = Counters(open_connections=2, bytes_in=10)

    def status(self) -> NodeStatus:
        broker = {
            "subscriptions": 3,
            "clients": 1,
            "outbox_bytes": 99,
            "links": ["b2", "b3"],
            "refused": 4,
            "counts": {"published": 7, "delivered": 8},
            "dropped": {"link": 1, "client": 0},
            "filters": {"hosts": 5},
            "mechanisms": {"gossip": {"walks": 6, "name": "text is no figure"}},
        }
        return node_status({"node": self.counters.as_dict()}, broker)


STORE = {
    **StoreFigures(
        commits=12, syncs=4, messages=40, reads=2, last_sync_ms=1.5, file_bytes=9, full_reason="x"
    ).as_dict(),
    "folder": "data",
    "waiting_commits": 3,
    "waiting_bytes": 450,
}


class Keeping(Source):
    def status(self) -> NodeStatus:
        status = super().status()
        status.store = STORE
        return status


def pubend(last_tick: int, hosts: Mapping[str, int]) -> dict[str, Any]:
    return {"last_tick": last_tick, "trimmed_below": 0, "size_bytes": 77, "hosts": hosts}


def stream(horizon_ms: int, heard_ms: int) -> dict[str, int]:
    ticks = {"horizon": tick_at(horizon_ms), "heard": tick_at(heard_ms)}
    return {**ticks, "pending_bytes": 5, "catch_ups": 2, "behind": 3}


class Guaranteeing(Source):
    def __init__(self, pubends: dict[str, Any], streams: dict[str, Any]) -> None:
        super().__init__()
        self.figures = {
            "pubends": pubends,
            "streams": streams,
            "cache_bytes": 11,
            "commits_waiting": 1,
            "held_back": "the disk is full",
        }

    def status(self) -> NodeStatus:
        status = super().status()
        status.broker.counts = {"nacks_sent": 4, "lost_ticks": 1, "publishes_repeated": 2, "unheard_of": 9}
        status.broker.guaranteed = msgspec.convert(self.figures, GuaranteedStatus)
        return status


def samples(source: Source) -> dict[tuple[str, tuple[str, ...]], float]:
    text = rendered(registry_of(source, now_ms=lambda: NOW_MS)).decode()
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
        ("penstock_mechanism", ("gossip", "walks")): 6,
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


def test_the_figures_of_guaranteed_pubends_are_there() -> None:
    hosts = {"sb1": tick_at(NOW_MS - 1_500) + 1, "sb2": tick_at(NOW_MS - 3_500)}
    found = samples(Guaranteeing({"q": pubend(tick_at(NOW_MS - 1_500), hosts), "r": pubend(tick_at(NOW_MS), {})}, {}))
    expected = {
        ("penstock_pubend_log_bytes", ("q",)): 77,
        ("penstock_pubend_last_tick_age_seconds", ("q",)): 1.5,
        ("penstock_pubend_hosts", ("q",)): 2,
        ("penstock_pubend_hosts", ("r",)): 0,
        ("penstock_pubend_lag_seconds", ("q",)): 2,
        ("penstock_host_lag_seconds", ("q", "sb1")): 0,
        ("penstock_host_lag_seconds", ("q", "sb2")): 2,
        ("penstock_cache_bytes", ()): 11,
        ("penstock_commits_waiting", ()): 1,
        ("penstock_held_back", ()): 1,
        ("penstock_nacks_sent_total", ()): 4,
        ("penstock_lost_ticks_total", ()): 1,
        ("penstock_publishes_repeated_total", ()): 2,
        ("penstock_unheard_of_total", ()): 9,
    }
    assert expected.items() <= found.items()
    assert ("penstock_pubend_lag_seconds", ("r",)) not in found


def test_the_figures_of_streams_are_there() -> None:
    expected = {
        ("penstock_stream_lag_seconds", ("q",)): 0.25,
        ("penstock_stream_horizon_age_seconds", ("q",)): 1,
        ("penstock_stream_pending_bytes", ("q",)): 5,
        ("penstock_stream_catch_ups", ("q",)): 2,
        ("penstock_stream_subscriptions_behind", ("q",)): 3,
    }
    assert expected.items() <= samples(Guaranteeing({}, {"q": stream(NOW_MS - 1_000, NOW_MS - 750)})).items()


def test_the_number_of_series_is_bounded_and_those_furthest_behind_are_shown() -> None:
    hosts = {f"sb{number}": tick_at(NOW_MS - number) for number in range(600)}
    pubends = {name: pubend(tick_at(NOW_MS), hosts) for name in ("q", "r", "s")}
    streams = {f"s{number}": stream(NOW_MS - number, NOW_MS) for number in range(3_000)}
    found = samples(Guaranteeing(pubends, streams))
    names = [name for name, _ in found]
    assert names.count("penstock_host_lag_seconds") == names.count("penstock_stream_lag_seconds") == 1_000
    assert found["penstock_host_lag_seconds", ("q", "sb599")] == 0.599
    assert ("penstock_host_lag_seconds", ("q", "sb0")) not in found
    assert ("penstock_stream_lag_seconds", ("s2999",)) in found


def test_durable_subscriptions_have_a_lag_each() -> None:
    durables = {"audit": {"tick": tick_at(NOW_MS - 1_500), "host": "sb1"}}
    figures = {**pubend(tick_at(NOW_MS), {}), "durables": durables, "durable_count": 7}
    found = samples(Guaranteeing({"q": figures}, {}))
    assert found["penstock_durable_lag_seconds", ("audit", "q")] == 1.5
    assert found["penstock_pubend_durables", ("q",)] == 7


def test_every_scrape_asks_again() -> None:
    source = Source()
    registry = registry_of(source)
    assert b"penstock_bytes_in_total 10.0" in rendered(registry)
    source.counters.bytes_in = 11
    assert b"penstock_bytes_in_total 11.0" in rendered(registry)


def test_a_broker_that_says_little_is_no_problem() -> None:
    class Silent(Source):
        def status(self) -> NodeStatus:
            return node_status({"node": self.counters.as_dict()})

    assert ("penstock_up", ()) in samples(Silent())


def test_pubends_that_keep_last_values_say_how_many() -> None:
    kept = {"key": "symbol", "keys": 5, "size_bytes": 700, "dropped": 2, "damaged": 1}
    figures = {**pubend(tick_at(NOW_MS), {}), "last_values": kept}
    found = samples(Guaranteeing({"q": figures, "r": pubend(tick_at(NOW_MS), {})}, {}))
    names = ["", "_bytes", "_dropped", "_damaged"]
    assert [found[f"penstock_pubend_last_values{name}", ("q",)] for name in names] == [5, 700, 2, 1]
    assert ("penstock_pubend_last_values", ("r",)) not in found


class Candidate(Source):
    """A broker that runs the home of one pubend and might run that of another."""

    def status(self) -> NodeStatus:
        status = super().status()
        guaranteed = {"pubends": {"q": pubend(tick_at(NOW_MS), {})}, "durables": {"billing": {"q": 3}}}
        home = {"broker": "q.home", "counts": {"published": 5, "log_reads": 2}, "guaranteed": guaranteed}
        status.broker.homes = {"q.home": broker_status(home)}
        status.broker.candidacies = [
            CandidacyStatus("q", ["b1", "b2"], holder="b1", epoch=7, replicas=1),
            CandidacyStatus("r", ["b2", "b1"], holder="b2"),
        ]
        status.stores = {"q.home": {**STORE, "replicas": 1}}
        return status


def test_the_figures_of_homes_have_their_names_as_a_label() -> None:
    expected = {
        ("penstock_published_total", ()): 7,
        ("penstock_published_total", ("q.home",)): 5,
        ("penstock_log_reads_total", ("q.home",)): 2,
        ("penstock_pubend_log_bytes", ("q", "q.home")): 77,
        ("penstock_durable_pending", ("billing", "q", "q.home")): 3,
        ("penstock_store_commits_total", ("q.home",)): 12,
        ("penstock_store_replicas", ("q.home",)): 1,
        ("penstock_home_holder", ("q",)): 1,
        ("penstock_home_holder", ("r",)): 0,
        ("penstock_home_epoch", ("q", "q.home")): 7,
    }
    found = samples(Candidate())
    assert expected.items() <= found.items()
    assert [name for name, labels in found if labels == ()] == [
        name for name, labels in samples(Source()) if not labels
    ]


def test_all_samples_of_one_name_stand_together_and_only_some_may_have_names() -> None:
    text = rendered(registry_of(Candidate(), names=False, now_ms=lambda: NOW_MS)).decode()
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert "billing" not in text


def test_the_replicas_of_a_brokers_own_database_are_shown() -> None:
    class Replicated(Source):
        def status(self) -> NodeStatus:
            status = super().status()
            status.store = {**STORE, "replicas": 2}
            return status

    assert samples(Replicated())["penstock_store_replicas", ()] == 2
