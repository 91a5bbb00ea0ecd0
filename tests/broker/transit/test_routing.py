from __future__ import annotations

from overlay import chain, ring
from penstock.broker.effects import Close
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f


def body(number: int) -> bytes:
    return encode_body(MessageId(1, 1, 1, number), Message({"number": number}))


def test_children_that_want_the_same_messages_share_one_frame() -> None:
    overlay = ring("a", "b", "c", "d")
    for name in ("b", "d"):
        overlay.client(name).subscribe(1, "")
    broker = overlay.brokers["a"]
    broker._router.publish("a.a", [body(1)], [{"number": 1}], now_ms=overlay.now_ms)
    (first,), (second,) = (peer.outbox.take(10_000) for peer in broker._connections.links.values())
    assert isinstance(first, f.Forward)
    assert first is second


def test_messages_that_come_the_wrong_way_or_again_are_not_passed_on() -> None:
    overlay = chain("pb", "ib", "sb")
    client = overlay.client("sb")
    client.subscribe(1, "")
    overlay.client("pb").publish({"number": 0})
    broker = overlay.brokers["sb"]
    (link,) = broker._connections.links.values()
    tick = broker._router._pubends.last_tick("pb.a")
    again = f.Forward("pb.a", [tick, tick + 1], [body(1), body(2)])
    overlay._act("sb", broker.receive(link.connection, [again], now_ms=overlay.now_ms))
    assert [each["number"] for each in client.messages()] == [0, 2]
    counts = broker.status().counts
    assert counts["repeated"] == 1
    unknown = f.Forward("nowhere", [tick + 9], [body(3)])
    overlay._act("sb", broker.receive(link.connection, [unknown], now_ms=overlay.now_ms))
    assert broker.status().counts["off_tree"] == 1
    assert len(client.messages()) == 2


def test_a_neighbour_that_forwards_too_few_bytes_for_an_identifier_loses_its_link() -> None:
    overlay = chain("pb", "sb")
    broker = overlay.brokers["sb"]
    (link,) = broker._connections.links.values()
    tick = broker._router._pubends.last_tick("pb.a") + 1
    effects = broker.receive(link.connection, [f.Forward("pb.a", [tick], [b"short"])], now_ms=overlay.now_ms)
    (closed,) = [each for each in effects if isinstance(each, Close)]
    assert closed.code == "protocol"
    # Nothing of it waits to be recorded.
    broker.on_deadline(now_ms=overlay.now_ms + 10_000)
    assert not broker._tracker.notes.take_routed()


def test_only_what_somebody_behind_a_link_wants_is_carried_over_it() -> None:
    overlay = chain("pb", "ib", "sb")
    overlay.client("ib").subscribe(1, "number < 5")
    far = overlay.client("sb")
    far.subscribe(1, "number > 7")
    messages: list[dict[str, AttributeValue]] = [{"number": number} for number in range(10)]
    overlay.client("pb").publish(*messages)
    assert overlay.brokers["pb"].status().counts["forwarded"] == 7
    assert overlay.brokers["ib"].status().counts["forwarded"] == 2
    assert [each["number"] for each in far.messages()] == [8, 9]


def test_a_new_pubend_is_introduced_to_clients_before_its_messages() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("sb")
    client.subscribe(1, "")
    overlay.client("pb").publish({"number": 1})
    kinds = [type(frame) for frame in client.heard]
    assert kinds.index(f.PubendNames) < kinds.index(f.Deliver)
    late = overlay.client("sb")
    assert late.all(f.PubendNames) == [f.PubendNames(((1, "pb.a"),))]
