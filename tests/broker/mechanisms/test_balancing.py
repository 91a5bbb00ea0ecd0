"""Balancing in brokers: load information through the head, sessions, and clients that are told to move."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from overlay import Overlay, TestClient
from penstock.balancing.metrics import HostFigures
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.broker import BrokerSettings
from penstock.broker.mechanisms.balancing import Balancing
from penstock.protocol import frames as f
from penstock.selectors import Selector

EDGES = ("e1", "e2")


def cluster(addresses: tuple[tuple[str, str], ...] = (), **changes: Any) -> Overlay:
    """A head and two edges; what is published goes to the head."""
    values = {
        "is_on": True,
        "detection_ms": 1_000,
        "pie_ms": 2_000,
        "peer_ms": 10_000,
        "smoothing_ms": 3_000,
        "samples_max": 4,
        "output_bandwidth": 100_000,
    }
    balancing = BalancingSettings(**{**values, **changes})
    overlay = Overlay(
        BrokerSettings(
            "h", number=1, pubends=("p",), best_effort=("p",), neighbours=EDGES, balancing=balancing, silent_ms=10**6
        ),
        *(
            BrokerSettings(
                name, number=2 + place, neighbours=("h",), balancing=balancing, silent_ms=10**6, addresses=addresses
            )
            for place, name in enumerate(EDGES)
        ),
    )
    for name in EDGES:
        overlay.link(name, "h")
    return overlay


def balancing_of(overlay: Overlay, name: str) -> Balancing:
    found = overlay.brokers[name].balancing
    assert found is not None
    return found


def run(overlay: Overlay, seconds: int, publisher: TestClient | None = None, per_second: int = 0) -> None:
    """Let time pass, with measurements; matching takes ten milliseconds for each subscription."""
    for _ in range(seconds):
        overlay.wait(1_000)
        if publisher is not None:
            publisher.publish(*({"x": number} for number in range(per_second)))
        for name, broker in overlay.brokers.items():
            matched = broker.rooms.subscribers.matched
            spent_ns = matched * broker.rooms.subscribers.ordinary * 10_000_000
            overlay.measure(name, HostFigures(0.1, 0.1, 0.0, None, matched, spent_ns))


def run_until_told(overlay: Overlay, clients: list[TestClient]) -> None:
    """Publish until clients are told to move."""
    publisher = overlay.client("h")
    for _ in range(60):
        run(overlay, 1, publisher, 3)
        if any(client.all(f.Migrate) for client in clients):
            return
    raise AssertionError("nobody was told to move")


def newcomer_to(overlay: Overlay, broker: str, **said: Any) -> TestClient:
    """A client that says something of itself."""
    client = overlay.stranger(broker)
    client.say(f.Hello(f.PROTOCOL_VERSION, "client", "somebody", "", **said))
    return client


def test_roles_and_clusters_follow_the_configuration() -> None:
    overlay = cluster()
    assert [(balancing_of(overlay, name).role, balancing_of(overlay, name).cluster) for name in ("h", *EDGES)] == [
        ("head", "h"),
        ("edge", "h"),
        ("edge", "h"),
    ]


def test_without_balancing_there_is_none() -> None:
    overlay = Overlay(BrokerSettings("a"))
    assert overlay.brokers["a"].balancing is None
    overlay.brokers["a"].measured(HostFigures(), now_ms=overlay.now_ms)


def test_what_a_shell_works_off_is_no_load() -> None:
    overlay = cluster()
    for second in range(5):
        overlay.wait(1_000)
        overlay.measure("e1", HostFigures(1.0, 0.1, 0.0, 500 + 10 * second, 20 * second, 0))
    balancer = balancing_of(overlay, "e1").balancer
    assert balancer.load.cpu == pytest.approx(0.5), "half of what it handles has waited"


def test_edges_hear_of_each_other_through_the_head() -> None:
    overlay = cluster()
    run(overlay, 5)
    now_ms = overlay.now_ms
    first, second, head = (balancing_of(overlay, name).balancer for name in ("e1", "e2", "h"))
    assert list(first.peers(now_ms=now_ms)) == ["e2"]  # type: ignore[union-attr]
    assert list(second.peers(now_ms=now_ms)) == ["e1"]  # type: ignore[union-attr]
    assert list(head.edges(now_ms=now_ms)) == ["e1", "e2"]  # type: ignore[union-attr]
    assert overlay.brokers["h"].rooms.router.counts["system_forwarded"] > 0


def test_covering_sets_leave_the_reserved_space_out() -> None:
    overlay = cluster()
    client = overlay.client("e1")
    client.subscribe(1, "x > 0")
    client.subscribe(2, "x > 5")
    client.subscribe(3, "$class = 'PIE'")
    assert balancing_of(overlay, "e1").covering_set(10) == ("x > 0",)
    assert balancing_of(overlay, "e1").covering_set(0) == ()


def test_an_edge_that_is_busier_tells_clients_to_move() -> None:
    overlay = cluster()
    clients = [overlay.client("e1") for _ in range(10)]
    for number, client in enumerate(clients):
        client.subscribe(1, f"x >= {number % 3}")
    run_until_told(overlay, clients)
    told = [client.all(f.Migrate) for client in clients]
    assert any(told)
    migrate = next(each[0] for each in told if each)
    assert isinstance(migrate, f.Migrate)
    assert (migrate.broker, migrate.address) == ("e2", "e2")
    status = overlay.brokers["e1"].status().balancing
    assert status is not None
    assert status.last is not UNSET
    assert status.last.partner == "e2"
    assert status.session is not None
    assert status.session.phase == "moving"
    assert balancing_of(overlay, "e2").balancer.standing.state is State.BUSY
    events = [record.event for record in overlay.records]
    assert "balancing-offloads" in events
    assert "balancing-card" in events


@pytest.mark.parametrize(
    ("known", "sent_to"), [((("e1", "one:1"), ("e2", "two:2")), {"two:2"}), ((("e1", "one:1"),), set())]
)
def test_clients_are_sent_where_the_overlay_says_that_the_broker_is(
    known: tuple[tuple[str, str], ...], sent_to: set[str]
) -> None:
    overlay = cluster(known)
    clients = [overlay.client("e1") for _ in range(10)]
    for number, client in enumerate(clients):
        client.subscribe(1, f"x >= {number % 3}")
    publisher = overlay.client("h")
    run(overlay, 40, publisher, 40)
    told = [each for client in clients for each in client.all(f.Migrate)]
    assert {each.address for each in told if isinstance(each, f.Migrate)} == sent_to


def test_arrivals_end_the_session_at_both_ends() -> None:
    overlay = cluster()
    clients = [overlay.client("e1") for _ in range(10)]
    for client in clients:
        client.subscribe(1, "x >= 0")
    run_until_told(overlay, clients)
    moving = [client for client in clients if client.all(f.Migrate)]
    assert moving
    for client in moving:
        migrate = client.all(f.Migrate)[0]
        assert isinstance(migrate, f.Migrate)
        newcomer = newcomer_to(overlay, "e2", migration=migrate.session)
        newcomer.subscribe(1, "x >= 0")
        newcomer.say(f.Moved(migrate.session))
        client.say(f.Moved(migrate.session))
    run(overlay, 1)
    for name in EDGES:
        assert balancing_of(overlay, name).balancer.session is None
        assert balancing_of(overlay, name).balancer.standing.state is State.STABILIZING
    assert balancing_of(overlay, "e1").balancer.counts["migrations"] == len(moving)
    assert balancing_of(overlay, "e2").balancer.counts["arrivals"] == len(moving)


def test_publishers_and_pinned_clients_stay() -> None:
    overlay = cluster()
    clients = [newcomer_to(overlay, "e1", pinned=True) for _ in range(10)]
    for client in clients:
        client.subscribe(1, "x >= 0")
    publisher = overlay.client("h")
    run(overlay, 40, publisher, 3)
    assert not any(client.all(f.Migrate) for client in clients)
    assert balancing_of(overlay, "e1").balancer.counts["fruitless"] >= 1


def test_watching_another_cluster_changes_what_is_selected() -> None:
    overlay = cluster()
    run(overlay, 3)
    balancing = balancing_of(overlay, "e1")
    balancing.watch(("far",))
    overlay.wait(2_000)
    version = overlay.brokers["e1"].rooms.filters.version
    assert version >= 2
    wanted = {"$class": "PIE", "$scope": "local", "$cluster": "far"}
    assert overlay.brokers["h"].rooms.filters.hosts_wanting(wanted)
    balancing.watch(())
    overlay.wait(3_000)
    assert not overlay.brokers["h"].rooms.filters.hosts_wanting(wanted)


def test_a_body_that_cannot_be_read_is_noted() -> None:
    overlay = cluster()
    answers = balancing_of(overlay, "e1").on_publication({"$class": "PIE"}, b"short", now_ms=overlay.now_ms)
    assert [getattr(each, "event", "") for each in answers] == ["balancing-malformed"]


def test_selectors_are_of_the_reserved_space_only() -> None:
    selector = balancing_of(cluster(), "h").selector
    assert isinstance(selector, Selector)
    assert selector.matches({"$class": "PIE", "$scope": "global", "$to": "h"})
    assert not selector.matches({"$class": "PIE", "$scope": "global", "$to": "e1"})
    assert not selector.matches({"class": "PIE"})
