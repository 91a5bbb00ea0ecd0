"""Requests answered by a blocking program: the same calls, in the client's thread."""

from __future__ import annotations

from client.scripted import ScriptedBroker, broker_in_a_thread
from penstock.client.sync import connect_sync
from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.frames import Deliver, Frame, Publish, Subscribe, Subscribed


def test_a_blocking_program_serves_requests() -> None:
    def on_subscribe(frame: Subscribe) -> list[Frame]:
        asked = [Message.system({"n": number, "$reply_to": "A", "$request": f"A-{number}"}, b"?") for number in (1, 2)]
        bodies = [encode_body(MessageId(9, 1, 1_000, number), each) for number, each in enumerate(asked)]
        numbers = [frame.number.to_bytes(4)] * 2
        return [Subscribed(frame.number, frame.selector), Deliver(0, [1, 2], numbers, bodies)]

    broker = ScriptedBroker({Subscribe: on_subscribe})
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        with client.serve("n > 0").ready() as serving:
            first, second = next(serving), next(iter(serving))
            assert (first.attributes, first.payload, first.content_type) == ({"n": 1}, b"?", "")
            assert repr(first) == "<SyncRequest {'n': 1}>"
            first.reply({"m": 1}, b"!")
            second.fail("never")
        client.flush()
        assert client.late_replies == 0
    sent = [decode_attributes(each) for frame in broker.peer.of(Publish) for each in frame.bodies]
    assert sent == [
        {"m": 1, "$reply": "A", "$request": "A-1"},
        {"$failed": "never", "$reply": "A", "$request": "A-2"},
    ]
