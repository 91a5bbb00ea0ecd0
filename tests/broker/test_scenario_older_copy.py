"""A pubend's broker comes back with an older copy of its disk: what is missing is told as lost, never as silence."""

from __future__ import annotations

from overlay import Overlay, TestClient, chain
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000_000


def line(*names: str, **settings: object) -> Overlay:
    overlay = chain(*(names or ("pb", "ib", "sb")), guaranteed=True, silent_ms=PATIENT_MS, **settings)
    overlay.wait(2_000)
    return overlay


def subscriber(overlay: Overlay, broker: str = "sb") -> TestClient:
    client = overlay.client(broker)
    client.subscribe(1, "")
    overlay.wait(1_000)
    return client


def publish(overlay: Overlay, client: TestClient, *numbers: int) -> None:
    for number in numbers:
        client.publish({"number": number})
        overlay.wait(20)


def come_back(overlay: Overlay, *links: tuple[str, str], wait_ms: int = 2_000) -> None:
    overlay.start("pb")
    for pair in links:
        overlay.link(*pair)
    overlay.wait(wait_ms)


def lose(overlay: Overlay, *numbers: int) -> None:
    """Publishes messages, and goes back to a disk that lacks them."""
    backup = overlay.disks["pb"].copy()
    publish(overlay, overlay.client("pb"), *numbers)
    overlay.crash("pb")
    overlay.wait(500)
    overlay.disks["pb"].restore(backup)


def told_lost(client: TestClient) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in client.heard if isinstance(each, f.Lost)]


def events(overlay: Overlay, name: str) -> list[dict[str, object]]:
    return [dict(each.fields) for each in overlay.records if each.event == name]


def test_who_had_everything_is_told_once_that_what_follows_may_be_lost_and_the_stream_goes_on() -> None:
    overlay = line()
    client = subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1, 2)
    lose(overlay, 3, 4)
    come_back(overlay, ("pb", "ib"))
    publish(overlay, overlay.client("pb"), 5)
    overlay.wait(2_000)
    assert client.numbers() == [1, 2, 3, 4, 5]
    (lost,) = told_lost(client)
    came = [tick for each in client.heard if isinstance(each, f.Deliver) for tick in each.ticks]
    assert came[3] < lost[0] <= lost[1] < came[4]
    (event,) = events(overlay, "history-lost")
    assert (event["pubend"], event["remembered_by"]) in {("pb.a", "ib"), ("pb.a", "sb")}
    status = overlay.brokers["pb"].status()
    assert status.guaranteed.pubends["pb.a"].lost == (event["first"], event["last"])
    assert status.counts["history_lost"] == 1


def test_who_was_cut_off_is_told_what_is_lost_because_others_remember_it() -> None:
    overlay = line("pb", "ib", "sb", cache_bytes=1)
    away, present = subscriber(overlay, "sb"), subscriber(overlay, "ib")
    publish(overlay, overlay.client("pb"), 1)
    overlay.cut("ib", "sb")
    backup = overlay.disks["pb"].copy()
    publish(overlay, overlay.client("pb"), 2, 3)
    overlay.crash("pb")
    overlay.disks["pb"].restore(backup)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.link("ib", "sb")
    overlay.wait(3_000)
    publish(overlay, overlay.client("pb"), 4)
    overlay.wait(2_000)
    assert present.numbers() == [1, 2, 3, 4]
    assert away.numbers() == [1, 4]
    ticks = [tick for each in present.heard if isinstance(each, f.Deliver) for tick in each.ticks]
    assert all(any(first <= tick <= last for first, last in told_lost(away)) for tick in ticks[1:3])


def test_a_store_that_is_whole_is_believed() -> None:
    overlay = line()
    client = subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1, 2)
    overlay.crash("pb")
    overlay.wait(100)
    come_back(overlay, ("pb", "ib"))
    publish(overlay, overlay.client("pb"), 3)
    assert client.numbers() == [1, 2, 3]
    assert told_lost(client) == []
    assert events(overlay, "history-lost") == []


def test_nothing_is_said_and_taken_before_everybody_has_answered() -> None:
    overlay = line()
    client = subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1)
    lose(overlay, 2)
    overlay.delay("sb", "ib")
    come_back(overlay, ("pb", "ib"), wait_ms=0)
    feed = overlay.client("pb", publisher=b"me")
    feed.publish({"number": 3})
    overlay.wait(2_500)
    assert overlay.logged("pb.a") == [1]
    assert overlay.brokers["pb"].status().guaranteed.held_back == (
        "pubend pb.a asks other brokers what they remember of it"
    )
    overlay.undelay("sb", "ib")
    overlay.wait(100)
    assert overlay.brokers["pb"].status().guaranteed.held_back == ""
    overlay.wait(2_000)
    assert client.numbers() == [1, 2, 3]


def test_who_does_not_answer_is_waited_for_no_longer_than_allowed() -> None:
    overlay = line(inquiry_ms=700)
    publish(overlay, overlay.client("pb"), 1)
    overlay.crash("pb")
    overlay.start("pb")
    overlay.client("pb", publisher=b"me").publish({"number": 2})
    overlay.wait(690)
    assert overlay.brokers["pb"].status().guaranteed.held_back
    overlay.wait(20)
    assert overlay.brokers["pb"].status().guaranteed.held_back == ""
    assert events(overlay, "history-lost") == []


def test_who_comes_too_late_is_reported_and_changes_nothing_that_was_told() -> None:
    overlay = line(inquiry_ms=500)
    client = subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1)
    lose(overlay, 2)
    come_back(overlay, wait_ms=1_000)
    publish(overlay, overlay.client("pb"), 3)
    overlay.link("pb", "ib")
    overlay.wait(3_000)
    assert client.numbers() == [1, 2, 3]
    assert told_lost(client) == []
    late = events(overlay, "history-lost-late")
    assert [each["pubend"] for each in late] == ["pb.a"]
    assert overlay.brokers["pb"].status().counts["history_lost_late"] == 1


def test_a_crash_before_the_loss_is_marked_forgets_nothing() -> None:
    overlay = line("pb", "ib", "sb", cache_bytes=1)
    subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1)
    lose(overlay, 2)
    overlay.syncs = False
    come_back(overlay, ("pb", "ib"), wait_ms=100)
    assert overlay.brokers["pb"].status().guaranteed.held_back
    overlay.crash("pb")
    overlay.syncs = True
    come_back(overlay, ("pb", "ib"))
    assert len(events(overlay, "history-lost")) == 2
    assert overlay.brokers["pb"].status().guaranteed.held_back == ""


def test_after_another_restart_the_lost_ticks_are_still_told_and_not_reported_again() -> None:
    overlay = line("pb", "ib", "sb", cache_bytes=1)
    subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1)
    lose(overlay, 2)
    come_back(overlay, ("pb", "ib"))
    publish(overlay, overlay.client("pb"), 3)
    overlay.crash("pb")
    come_back(overlay, ("pb", "ib"))
    assert len(events(overlay, "history-lost")) == 1
    client = overlay.client("sb")
    client.subscribe(1, "", ("pb.a", overlay.disks["pb"].ticks("pb.a")[0]), resumes=True)
    overlay.wait(3_000)
    assert client.numbers() == [1, 3]
    assert len(told_lost(client)) == 1


def test_an_empty_store_begins_above_all_that_was_heard_of() -> None:
    overlay = line()
    client = subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1, 2)
    heard = overlay.disks["pb"].last_tick("pb.a")
    overlay.crash("pb")
    del overlay.disks["pb"]
    # Its clock is wrong, too.
    overlay.now_ms -= 100_000
    come_back(overlay, ("pb", "ib"))
    publish(overlay, overlay.client("pb"), 3)
    overlay.wait(2_000)
    assert overlay.disks["pb"].ticks("pb.a")[0] > heard
    assert client.numbers() == [1, 2, 3]
    assert len(events(overlay, "history-lost")) == 1


def test_a_publisher_that_was_acknowledged_goes_on_where_it_was() -> None:
    overlay = line()
    client = subscriber(overlay)
    feed = overlay.client("pb", publisher=b"me")
    publish(overlay, feed, 1)
    backup = overlay.disks["pb"].copy()
    publish(overlay, feed, 2, 3)
    overlay.crash("pb")
    overlay.wait(500)
    overlay.disks["pb"].restore(backup)
    come_back(overlay, ("pb", "ib"))
    again = overlay.client("pb", publisher=b"me")
    again.published.update({"": 3})
    again.publish({"number": 4})
    overlay.wait(2_000)
    assert client.numbers() == [1, 2, 3, 4]
    assert len(overlay.disks["pb"].ticks("pb.a")) == 2


def test_a_durable_name_that_the_copy_does_not_know_stays_with_its_subscriber() -> None:
    overlay = line()
    backup = overlay.disks["pb"].copy()
    client = overlay.client("sb")
    client.durable(1, "D")
    overlay.wait(2_000)
    publish(overlay, overlay.client("pb"), 1)
    overlay.crash("pb")
    overlay.wait(500)
    overlay.disks["pb"].restore(backup)
    come_back(overlay, ("pb", "ib"), wait_ms=20_000)
    publish(overlay, overlay.client("pb"), 2)
    overlay.wait(2_000)
    assert client.numbers() == [1, 2]
    assert client.refusals() == []
    assert list(overlay.durables("pb.a")) == ["D"]


def test_a_broker_that_remembers_what_cannot_be_is_not_believed() -> None:
    overlay = line()
    overlay.crash("pb")
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.lie(
        "pb", "ib", f.Remembered("pb", "sb", overlay.brokers["pb"].rooms.topology.life, (("pb.a", 2**61, 2**61),))
    )
    overlay.wait(5_000)
    assert events(overlay, "history-lost") == events(overlay, "history-lost-late") == []
    assert overlay.brokers["pb"].status().counts["memory_implausible"] == 1


def test_ticks_that_are_lost_are_marked_in_the_store() -> None:
    overlay = line()
    subscriber(overlay)
    publish(overlay, overlay.client("pb"), 1)
    last = overlay.disks["pb"].last_tick("pb.a")
    lose(overlay, 2)
    come_back(overlay, ("pb", "ib"))
    (event,) = events(overlay, "history-lost")
    _, known, damaged = overlay.disks["pb"].read("pb.a", last + 1, 2**62, 1_000)
    assert damaged is not None
    assert damaged == (event["first"], event["last"])
    assert damaged.first == last + 1
    assert known == last


def test_a_broker_that_only_carried_messages_remembers_that_they_were_acknowledged() -> None:
    overlay = line("pb", "ib")
    backup = overlay.disks["pb"].copy()
    feed = overlay.client("ib", publisher=b"me")
    feed.say(f.Publish(1, [encode_body(feed.source().next(overlay.now_ms), Message({"number": 1}, b""))], "pb.a"))
    feed.say(f.Publish(2, [], "pb.a"))
    overlay.wait(1_500)
    assert [each.sequence for each in feed.heard if isinstance(each, f.PublishAck)][-1:] == [1]
    overlay.crash("pb")
    overlay.disks["pb"].restore(backup)
    come_back(overlay, ("pb", "ib"))
    assert [each["remembered_by"] for each in events(overlay, "history-lost")] == ["ib"]
