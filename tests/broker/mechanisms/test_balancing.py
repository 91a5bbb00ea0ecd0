"""Balancing in brokers: load information through the head, sessions, and clients that are told to move."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from overlay import Overlay, TestClient
from penstock.balancing.balancer import Balancer
from penstock.balancing.clusters import ClusterHead
from penstock.balancing.messages import End, Letter, Request, Watch
from penstock.balancing.metrics import HostFigures, Load
from penstock.balancing.pie import Pie
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.broker import BrokerSettings
from penstock.broker.mechanisms.balancing import Balancing
from penstock.broker.mechanisms.interface import PublishSystem
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
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


def balancer_of(overlay: Overlay, name: str) -> Balancer:
    found = balancing_of(overlay, name).balancer
    assert found is not None
    return found


def head_of(overlay: Overlay, name: str) -> ClusterHead:
    found = balancing_of(overlay, name).head
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


def counts_of(overlay: Overlay, name: str) -> dict[str, int]:
    return balancer_of(overlay, name).status().counts


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
    balancer = balancer_of(overlay, "e1")
    assert balancer.load.cpu == pytest.approx(0.5), "half of what it handles has waited"


def test_edges_hear_of_each_other_through_the_head() -> None:
    overlay = cluster()
    run(overlay, 5)
    now_ms = overlay.now_ms
    assert list(balancer_of(overlay, "e1").peers(now_ms=now_ms)) == ["e2"]
    assert list(balancer_of(overlay, "e2").peers(now_ms=now_ms)) == ["e1"]
    assert list(head_of(overlay, "h").edges(now_ms=now_ms)) == ["e1", "e2"]
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
    assert balancer_of(overlay, "e2").standing.state is State.BUSY
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
        assert balancer_of(overlay, name).session is None
        assert balancer_of(overlay, name).standing.state is State.STABILIZING
    assert balancer_of(overlay, "e1").counts["migrations"] == len(moving)
    assert balancer_of(overlay, "e2").counts["arrivals"] == len(moving)


def test_publishers_and_pinned_clients_stay() -> None:
    overlay = cluster()
    clients = [newcomer_to(overlay, "e1", pinned=True) for _ in range(10)]
    for client in clients:
        client.subscribe(1, "x >= 0")
    publisher = overlay.client("h")
    run(overlay, 40, publisher, 3)
    assert not any(client.all(f.Migrate) for client in clients)
    counts = counts_of(overlay, "e1")
    assert (counts["requests"], counts["sessions"]) == (0, 0), "who has nobody to give away asks nobody"


def test_watching_another_cluster_changes_what_is_selected() -> None:
    overlay = cluster()
    run(overlay, 3)
    balancing = balancing_of(overlay, "e1")
    balancing.watch(("far",))
    overlay.wait(2_000)
    version = overlay.brokers["e1"].rooms.filters.version
    assert version >= 2
    wanted = {"$class": "PIE", "$scope": "local", "$cluster": "far"}
    assert overlay.brokers["h"].rooms.filters.hosts_wanting(wanted, "p")
    balancing.watch(())
    overlay.wait(3_000)
    assert not overlay.brokers["h"].rooms.filters.hosts_wanting(wanted, "p")


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


# --- heads, and their own clients


def heads(**changes: Any) -> Overlay:
    """Two heads with an edge each, and a pubend each."""
    values = {"is_on": True, "detection_ms": 1_000, "pie_ms": 2_000, "peer_ms": 10_000, "smoothing_ms": 3_000}
    balancing = BalancingSettings(**{**values, "samples_max": 4, "sample_ms": 2_000, **changes})
    near = {"h1": ("h2", "e1"), "h2": ("h1", "e2"), "e1": ("h1",), "e2": ("h2",)}
    overlay = Overlay(
        *(
            BrokerSettings(
                name,
                number=number,
                pubends=(f"{name}.p",) if name in ("h1", "h2") else (),
                best_effort=(f"{name}.p",) if name in ("h1", "h2") else (),
                members=tuple(near),
                neighbours=neighbours,
                balancing=balancing,
                silent_ms=10**6,
            )
            for number, (name, neighbours) in enumerate(near.items(), start=1)
        )
    )
    for far, name in (("h2", "h1"), ("e1", "h1"), ("e2", "h2")):
        overlay.link(far, name)
    return overlay


def measure_heads(
    overlay: Overlay, seconds: int, busy: str, publisher: TestClient | None = None, *, busy_ms: int = 50
) -> None:
    """Let time pass, with ten messages a second; each takes 50 ms at the busy head, and 1 ms elsewhere."""
    for _ in range(seconds):
        overlay.wait(1_000)
        if publisher is not None:
            publisher.publish(*({"x": number} for number in range(10)), pubend="h2.p")
        second = overlay.now_ms // 1_000
        for name in overlay.brokers:
            cost_ns = (busy_ms if name == busy else 1) * 1_000_000
            overlay.measure(name, HostFigures(0.1, 0.1, 0.0, 10 * second, 10 * second, 10 * second * cost_ns))


def pie_of(overlay: Overlay, broker: str, cluster: str) -> None:
    """Lets h1 hear a local PIE message."""
    body = encode_body(MessageIdSource(9, 1).next(overlay.now_ms), Message.system({"$class": "PIE"}))
    pie = Pie(broker, cluster, State.OK, Load(0.1, 0.1, 0.01))
    balancing_of(overlay, "h1").on_publication(pie.attributes(), body, now_ms=overlay.now_ms)


def letter_to(overlay: Overlay, letter: Letter) -> list[str]:
    """Gives h1 a letter; returns the kinds of the letters with which it answers."""
    message = Message.system(letter.attributes(), letter.payload())
    body = encode_body(MessageIdSource(9, 1).next(overlay.now_ms), message)
    answers = balancing_of(overlay, "h1").on_publication(letter.attributes(), body, now_ms=overlay.now_ms)
    published = [each.message.attributes for each in answers if isinstance(each, PublishSystem)]
    return [str(each["$kind"]) for each in published if "$kind" in each]


def test_a_head_has_a_balancer_for_its_own_clients_if_it_is_in_a_group() -> None:
    overlay = heads()
    assert [balancing_of(overlay, name).head is not None for name in ("h1", "h2", "e1", "e2")] == [True, True] + [
        False
    ] * 2
    assert all(balancing_of(overlay, name).balancer is not None for name in overlay.brokers)
    alone = heads(heads="")
    assert balancing_of(alone, "h1").balancer is None
    assert balancing_of(alone, "e1").balancer is not None, "the setting is for heads"
    run(alone, 3)
    assert alone.brokers["h1"].status().balancing.own is UNSET  # type: ignore[union-attr]


def test_a_head_wakes_for_whichever_part_is_due_first() -> None:
    overlay = heads()
    run(overlay, 5)
    balancing = balancing_of(overlay, "h1")
    firsts = set()
    for _ in range(40):
        overlay.wait(70)
        due = [part.next_deadline() for part in balancing.parts]
        assert balancing.next_deadline() == min(each for each in due if each is not None)
        firsts.add(due[0] == balancing.next_deadline())
    assert firsts == {True, False}, "now the one, now the other"


def test_loads_of_heads_and_of_edges_are_kept_apart() -> None:
    overlay = heads()
    run(overlay, 5)
    now_ms = overlay.now_ms
    assert list(balancer_of(overlay, "h1").peers(now_ms=now_ms)) == ["h2"]
    assert list(head_of(overlay, "h1").edges(now_ms=now_ms)) == ["e1"]
    assert list(balancer_of(overlay, "e1").peers(now_ms=now_ms)) == []
    pie_of(overlay, "e9", "h1")
    pie_of(overlay, "h9", "$heads")
    pie_of(overlay, "x9", "$others")
    assert list(balancer_of(overlay, "h1").peers(now_ms=now_ms)) == ["h2", "h9"]
    assert list(head_of(overlay, "h1").edges(now_ms=now_ms)) == ["e1", "e9"]
    assert balancer_of(overlay, "h1").status().peers == 2
    assert head_of(overlay, "h1").status().edges == 3


def test_a_head_hears_its_edges_its_group_and_other_heads() -> None:
    selector = balancing_of(heads(), "h1").selector
    assert selector is not None
    local = {"$class": "PIE", "$scope": "local"}
    assert selector.matches({**local, "$cluster": "h1"})
    assert selector.matches({**local, "$cluster": "$heads"})
    assert not selector.matches({**local, "$cluster": "h2"})
    assert selector.matches({"$class": "PIE", "$scope": "global", "$to": "h1"})
    assert not balancing_of(heads(), "e1").selector.matches({**local, "$cluster": "$heads"})  # type: ignore[union-attr]
    assert not balancing_of(heads(heads=""), "h1").selector.matches({**local, "$cluster": "$heads"})  # type: ignore[union-attr]


def test_while_a_head_watches_another_cluster_it_still_hears_its_group() -> None:
    overlay = heads()
    run(overlay, 3)
    balancing_of(overlay, "h1").watch(("far",))
    overlay.wait(3_000)
    wanting = overlay.brokers["h2"].rooms.filters.hosts_wanting
    local = {"$class": "PIE", "$scope": "local"}
    watcher = wanting({**local, "$cluster": "far"}, "$h1")
    assert watcher
    for name in ("h1", "$heads"):
        assert wanting({**local, "$cluster": name}, "$h1") & watcher == watcher, name


def test_letters_about_clusters_and_about_clients_begin_sessions_of_their_own() -> None:
    """The two sessions may even have the same number and the same partner."""
    overlay = heads()
    run(overlay, 5)
    assert letter_to(overlay, Letter("h2", "h1", 7, Request("input"), is_global=True)) == ["reply", "watch"]
    session = head_of(overlay, "h1").session
    assert session is not None
    assert (session.number, balancer_of(overlay, "h1").session) == (7, None)
    assert letter_to(overlay, Letter("h2", "h1", 7, Request("input"))) == ["reply"]
    assert balancer_of(overlay, "h1").session is not None
    letter_to(overlay, Letter("h2", "h1", 7, End("enough")))
    assert balancer_of(overlay, "h1").session is None
    assert head_of(overlay, "h1").session is session


def test_a_head_watches_nothing_on_the_word_of_others() -> None:
    overlay = heads()
    run(overlay, 5)
    version = overlay.brokers["h1"].rooms.filters.version
    for is_global in (False, True):
        letter_to(overlay, Letter("h2", "h1", 0, Watch(("far",)), is_global=is_global))
    run(overlay, 3)
    assert overlay.brokers["h1"].rooms.filters.version == version


@pytest.mark.parametrize("busy_ms", [pytest.param(50, id="out of balance"), pytest.param(98, id="overloaded")])
def test_a_busy_head_tells_its_publishers_to_move_to_another_head(busy_ms: int) -> None:
    overlay = heads()
    publisher = overlay.client("h1")
    measure_heads(overlay, 30, "h1", publisher, busy_ms=busy_ms)
    (migrate,) = publisher.all(f.Migrate)
    assert isinstance(migrate, f.Migrate)
    assert migrate.broker == "h2"
    status = overlay.brokers["h1"].status().balancing
    assert status is not None
    assert (status.role, status.cluster) == ("head", "h1")
    assert status.own is not UNSET
    assert (status.own.role, status.own.cluster) == ("head", "$heads")
    assert status.own.counts["sessions"] == 1
    assert status.own.input > 0.2
    newcomer = newcomer_to(overlay, "h2", migration=migrate.session)
    newcomer.say(f.Moved(migrate.session))
    publisher.say(f.Moved(migrate.session))
    measure_heads(overlay, 1, "h1")
    assert balancer_of(overlay, "h1").counts["migrations"] == 1
    assert balancer_of(overlay, "h2").counts["arrivals"] == 1
    assert [balancer_of(overlay, name).session for name in ("h1", "h2")] == [None, None]


@pytest.mark.parametrize("changes", [{}, {"heads": ""}])
def test_a_head_with_nobody_to_give_away_asks_nobody(changes: dict[str, Any]) -> None:
    overlay = heads(**changes)
    publisher = overlay.client("h1") if changes else newcomer_to(overlay, "h1", pinned=True)
    measure_heads(overlay, 30, "h1", publisher)
    assert not publisher.all(f.Migrate)
    for name in ("h1", "h2"):
        for part in balancing_of(overlay, name).parts:
            assert part.status().counts["requests"] == 0
            assert part.status().counts["sessions"] == 0


def test_homes_beside_a_broker_do_not_make_it_the_head_of_a_cluster() -> None:
    settings = BalancingSettings(is_on=True)
    overlay = Overlay(
        BrokerSettings("e1", neighbours=("h", "q.home", "r.home"), homes=("q.home", "r.home"), balancing=settings)
    )
    found = balancing_of(overlay, "e1")
    assert (found.role, found.cluster) == ("edge", "h")
