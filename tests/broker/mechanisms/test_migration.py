from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain, star
from penstock.model.errors import MisuseError
from penstock.protocol import frames as f


class Notes:
    """Writes down what becomes of moves."""

    def __init__(self, *overlays_brokers: tuple[Overlay, str]) -> None:
        self.told: list[tuple[object, ...]] = []
        for overlay, broker in overlays_brokers:
            overlay.brokers[broker].migrations.listeners.append(self)

    def arrived(self, session: int, client: str) -> None:
        self.told.append(("arrived", session, client))

    def left(self, session: int, client: str) -> None:
        self.told.append(("left", session, client))

    def failed(self, session: int, client: str, reason: str) -> None:
        self.told.append(("failed", session, client, reason))


def move(overlay: Overlay, client: TestClient, to: str = "sb2", session: int = 5) -> str:
    migrations = overlay.brokers[client.broker].migrations
    why = migrations.move(
        client.connection, broker=to, address=f"at-{to}", session=session, total=3, now_ms=overlay.now_ms
    )
    # Effects are taken with the next stimulus.
    client.say(f.Heartbeat())
    return why


def arriving(overlay: Overlay, broker: str, name: str, session: int = 5) -> TestClient:
    client = overlay.stranger(broker)
    client.say(f.Hello(f.PROTOCOL_VERSION, "client", name, "", migration=session, origin="sb1"))
    return client


def two_hosts(**settings: object) -> Overlay:
    return star("pb", "sb1", "sb2", pubends=("pb",), **settings)


def test_a_client_is_told_where_to_go_leaves_when_it_is_there_and_both_brokers_know() -> None:
    overlay = two_hosts()
    notes = Notes((overlay, "sb1"), (overlay, "sb2"))
    client = overlay.client("sb1", "reader")
    client.subscribe(1, "TRUE")
    assert move(overlay, client) == ""
    assert client.all(f.Migrate) == [f.Migrate(5, 3, "sb2", "at-sb2")]
    there = arriving(overlay, "sb2", "reader")
    there.subscribe(1, "TRUE", ("pb.a", client.start_of("pb.a")), resumes=True)
    assert notes.told == []
    there.say(f.Moved(5))
    client.say(f.Moved(5))
    assert notes.told == [("arrived", 5, "reader"), ("left", 5, "reader")]
    assert not client.all(f.Goodbye)
    overlay.wait(100)
    assert client.closed is not None
    assert client.all(f.Goodbye) == [f.Goodbye("moved", "client moved to broker sb2")]
    assert [overlay.brokers[name].status().subscriptions for name in ("sb1", "sb2")] == [0, 1]
    overlay.client("pb").publish({"number": 1})
    assert there.numbers() == [1]
    overlay.check_invariants()


def test_a_client_is_told_how_far_it_is_before_it_goes() -> None:
    overlay = two_hosts(report_ms=60_000)
    client = overlay.client("sb1", "reader")
    client.subscribe(1, "number < 0")
    overlay.client("pb").publish({"number": 1})
    overlay.wait(3_000)
    before = len(client.all(f.Horizons))
    move(overlay, client)
    (told,) = client.all(f.Horizons)[before:]
    assert isinstance(told, f.Horizons)
    assert told.tick == overlay.brokers["sb1"].status().guaranteed.streams["pb.a"].horizon
    assert told.tick > client.start_of("pb.a"), "what nobody wants is known, too"
    assert not told.is_only


def test_a_client_that_stays_says_why_and_can_be_asked_again() -> None:
    overlay = two_hosts()
    notes = Notes((overlay, "sb1"))
    client = overlay.client("sb1", "reader")
    move(overlay, client)
    assert move(overlay, client) == "client reader is already moving"
    client.say(f.MoveFailed(5, "nobody there"))
    assert notes.told == [("failed", 5, "reader", "nobody there")]
    assert move(overlay, client, session=6) == ""
    assert overlay.brokers["sb1"].status().migration.moves_failed == 1


def test_a_client_that_does_not_answer_counts_as_one_that_stays_but_may_still_go() -> None:
    overlay = two_hosts(migration_ms=2_000, silent_ms=100_000)
    notes = Notes((overlay, "sb1"))
    client = overlay.client("sb1", "reader")
    move(overlay, client)
    overlay.wait(1_999)
    assert notes.told == []
    overlay.wait(1)
    assert notes.told == [("failed", 5, "reader", "did not answer within 2000 ms")]
    client.say(f.Moved(5))
    assert notes.told[1:] == [("left", 5, "reader")]
    overlay.wait(100)
    assert client.closed is not None


def test_a_client_that_vanishes_on_the_way_has_failed_once() -> None:
    overlay = two_hosts(migration_ms=1_000)
    notes = Notes((overlay, "sb1"))
    first, second = overlay.client("sb1", "first"), overlay.client("sb1", "second")
    move(overlay, first)
    move(overlay, second)
    overlay.leave(first)
    overlay.wait(1_000)
    overlay.leave(second)
    assert [each[:3] for each in notes.told] == [("failed", 5, "first"), ("failed", 5, "second")]


def test_who_is_pinned_by_itself_or_by_the_operator_or_has_its_pubend_chosen_here_is_not_asked() -> None:
    overlay = chain("pb", "sb")
    migrations = overlay.brokers["pb"].migrations
    pinned = overlay.stranger("pb")
    pinned.say(f.Hello(f.PROTOCOL_VERSION, "client", "statue", "", pinned=True))
    held, publisher = overlay.client("pb", "held"), overlay.client("pb", "feed")
    publisher.publish({"number": 1})
    migrations.pin("held")
    assert move(overlay, pinned, "sb") == "client statue is pinned"
    assert move(overlay, held, "sb") == "client held is pinned"
    assert move(overlay, publisher, "sb") == "client feed publishes to a pubend that this broker chose"
    free = overlay.client("pb", "free")
    free.publish({"number": 1}, pubend="pb.a")
    assert move(overlay, free, "sb") == ""
    assert migrations.unpin("held")
    assert not migrations.unpin("held")
    assert move(overlay, held, "sb") == ""
    assert not pinned.all(f.Migrate)


def test_what_is_no_client_or_no_other_broker_cannot_be_moved() -> None:
    overlay = chain("pb", "sb")
    migrations = overlay.brokers["pb"].migrations
    assert "no client on connection 99" in migrations.obstacle(99)
    assert "no client" in migrations.obstacle(1)
    for broker, session in (("pb", 1), ("sb", 0)):
        with pytest.raises(MisuseError, match="the target another broker"):
            migrations.move(1, broker=broker, address="", session=session, total=1, now_ms=0)


def test_answers_to_what_nobody_asked_are_counted_and_change_nothing() -> None:
    overlay = two_hosts()
    notes = Notes((overlay, "sb1"))
    client, asked = overlay.client("sb1", "liar"), overlay.client("sb1", "asked")
    client.subscribe(1, "TRUE")
    client.say(f.Moved(5), f.Moved(0), f.MoveFailed(5, "x"), f.MoveFailed(0, ""))
    move(overlay, asked, session=7)
    asked.say(f.Moved(6), f.MoveFailed(8, "x"))
    assert notes.told == []
    assert overlay.brokers["sb1"].status().migration.moves_unknown == 6
    assert overlay.brokers["sb1"].status().subscriptions == 1
    arrived = arriving(overlay, "sb1", "new", session=9)
    arrived.say(f.Moved(9), f.Moved(9))
    assert notes.told == [("arrived", 9, "new")]


def test_links_and_strangers_may_not_speak_of_moves() -> None:
    overlay = two_hosts()
    stranger = overlay.stranger("sb1")
    stranger.say(f.Moved(1))
    assert stranger.heard == [f.Goodbye("protocol", "Moved frames are not accepted from a stranger")]


def test_of_what_waits_for_a_client_that_has_moved_only_best_effort_is_still_sent() -> None:
    overlay = star("pb", "sb1", "sb2", pubends=("pb",))
    loose = chain("pb", "sb1")
    for world, expected in ((overlay, []), (loose, [1, 2])):
        client = world.client("sb1", "reader")
        client.subscribe(1, "TRUE")
        client.reads = False
        world.client("pb").publish({"number": 1}, {"number": 2})
        move(world, client)
        client.say(f.Moved(5))
        world.wait(60)
        assert (client.closed is None) == bool(expected), "waits until it is sent"
        client.reads = True
        client.say(f.Heartbeat())
        world._carry("sb1", client.connection)
        world.wait(60)
        assert client.closed is not None
        assert client.numbers() == expected
        world.check_invariants()


def test_who_has_moved_gets_what_is_left_and_nothing_new() -> None:
    overlay = chain("pb", "sb1")
    client, publisher = overlay.client("sb1", "reader"), overlay.client("pb")
    client.subscribe(1, "TRUE")
    client.reads = False
    publisher.publish({"number": 1})
    move(overlay, client)
    client.say(f.Moved(5))
    assert overlay.brokers["sb1"].status().subscriptions == 0
    publisher.publish({"number": 2})
    client.reads = True
    client.say(f.Heartbeat())
    overlay._carry("sb1", client.connection)
    overlay.wait(60)
    assert client.closed is not None
    assert client.numbers() == [1]


def test_what_a_client_has_not_had_is_held_for_it_from_the_moment_it_arrives() -> None:
    overlay = two_hosts()
    resident, client = overlay.client("sb2", "resident"), overlay.client("sb1", "reader")
    resident.subscribe(1, "number < 0")
    client.subscribe(1, "TRUE")
    position = client.start_of("pb.a")
    overlay.client("pb").publish({"number": 1}, {"number": 2})
    overlay.wait(3_000)
    positions = overlay.brokers["sb2"]._guaranteed.positions
    resident.say(f.Acknowledge(((0, resident.horizon()),)))
    (before,) = dict(positions.of_host(now_ms=overlay.now_ms)).values()
    assert before > position
    overlay.clog("pb", "sb2")
    arriving(overlay, "sb2", "reader").subscribe(1, "TRUE", ("pb.a", position), resumes=True)
    (held,) = dict(positions.of_host(now_ms=overlay.now_ms)).values()
    assert held == position, "the log must not be cut above that, also before its stream has begun here"


def test_a_client_that_does_not_read_what_is_left_is_cut_off_after_a_while() -> None:
    overlay = chain("pb", "sb1", silent_ms=100_000)
    client = overlay.client("sb1", "reader")
    client.subscribe(1, "TRUE")
    client.reads = False
    overlay.client("pb").publish({"number": 1})
    move(overlay, client)
    client.say(f.Moved(5))
    overlay.wait(9_000)
    assert client.closed is None
    overlay.wait(1_100)
    assert client.closed is not None


def test_the_number_of_pins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.mechanisms.migration._PINS_MAX", 2)
    migrations = two_hosts().brokers["sb1"].migrations
    for name in ("a", "b", "a"):
        migrations.pin(name)
    with pytest.raises(MisuseError, match="2 clients are pinned"):
        migrations.pin("c")
    assert migrations.status().pinned == ["a", "b"]


def test_a_broker_whose_client_is_leaving_does_not_take_its_name_back_from_where_it_goes() -> None:
    """Its question was on its way for longer than the move took, and seems to have come later than the move."""
    overlay = two_hosts(silent_ms=10**9)
    client = overlay.client("sb1", "reader")
    client.subscribe(1, "")
    overlay.wait(2_000)
    overlay.delay("sb1", "hub")
    client.durable(2, "D")
    assert move(overlay, client) == ""
    there = arriving(overlay, "sb2", "reader")
    there.durable(2, "D")
    overlay.wait(2_000)
    assert overlay.durables("pb.a")["D"].host == "sb2"
    overlay.undelay("sb1", "hub")
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].host == "sb2"
    assert there.refusals() == []
    # It does not go after all: then it has the name here.
    client.say(f.MoveFailed(5, "stays"))
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].host == "sb1"
    assert client.refusals() == []
