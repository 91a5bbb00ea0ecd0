"""Subscribers note what they get; publishers publish no faster than they are let."""

from __future__ import annotations

import asyncio
from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story.crowd import Crowd, Member, Publisher
from penstock.cli.story.market import FILLING, MARK, SENT_AT, Feed, Market
from penstock.client.client import Client
from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.session.received import Received
from stages import seat

ID = MessageId(1, 2, 3, 4)


def received(attributes: dict[str, Any], payload: bytes) -> Received:
    return Received("p", 1, encode_body(ID, Message(attributes, payload)))


def test_a_subscriber_notes_what_it_gets_and_how_long_it_took() -> None:
    member = Member("subscriber-001", "TRUE")
    member.on_batch([received({}, SENT_AT.pack(1) + FILLING), received({}, bytes(100)), received({}, b"")])
    member.on_batch([received({MARK: "gold"}, SENT_AT.pack(1) + FILLING)])
    assert member.ids == [ID.to_bytes()] * 4
    assert len(member.latencies_ns) == 2
    assert (member.damaged, member.marks) == (2, 1)


class Broker:
    """Takes messages over when it is asked to flush, as often as it likes."""

    def __init__(self, flushes: int, stop: asyncio.Event) -> None:
        self.left, self.stop = flushes, stop
        self.taken: list[dict[str, Any]] = []
        self.counters = SimpleNamespace(acknowledged=0)

    async def publish(self, attributes: dict[str, Any], payload: bytes, *, pubend: str) -> MessageId:
        assert pubend == "pb1.a"
        assert payload[SENT_AT.size :] == FILLING
        self.taken.append(attributes)
        return MessageId(1, 1, 1, len(self.taken))

    async def flush(self) -> None:
        self.counters.acknowledged = len(self.taken)
        self.left -= 1
        if self.left <= 0:
            self.stop.set()


def test_a_publisher_ends_with_a_mark_and_remembers_all() -> None:
    async def play() -> tuple[Broker, Publisher, list[SentMessage]]:
        stop, sent = asyncio.Event(), list[SentMessage]()
        broker = Broker(4, stop)
        publisher = Publisher(Feed("gold", "pb1.a", 500.0), cast("Client", broker), repeat({"symbol": "A"}), sent)
        await publisher.run(stop)
        return broker, publisher, sent

    broker, publisher, sent = asyncio.run(play())
    assert broker.taken[-1] == {MARK: "gold"}
    assert broker.taken[:-1] == [{"symbol": "A"}] * (len(sent) - 1)
    assert len(sent) > 1
    assert publisher.published == len(sent) == len(broker.taken)


def test_a_crowd_counts() -> None:
    crowd = Crowd(Market(1, rate=10.0, subscribers=6), durable=2)
    assert [each.is_durable for each in crowd.members] == [True, True, False, False, False, False]
    assert crowd.clients_by_broker() == {}
    for member in crowd.members[:4]:
        seat(member, "sb1", moves=1)
    seat(crowd.members[4], "sb2")
    assert crowd.clients_by_broker() == {"sb1": 4, "sb2": 1}
    assert crowd.moves == 4
    for count in (3, 4):
        crowd.publishers.append(cast("Publisher", SimpleNamespace(published=count)))
    assert crowd.published == 7
    for marks in (1, 2):
        assert not crowd.is_done
        for member in crowd.members:
            member.marks = marks
    assert crowd.is_done
