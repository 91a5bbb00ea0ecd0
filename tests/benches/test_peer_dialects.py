"""Frames of each protocol are laid out as its specification says, and deliveries are counted however they arrive."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from bench.live_driver import DriverError
from bench.live_load import PAYLOAD_BYTES, STAMP
from bench.peers import activemq, amqp, mosquitto, nats_server, redis_server, stomp
from bench.peers.endpoints import PeerReceiver
from bench.peers.message import BARE_PAYLOAD, PeerMessage, PeerRing, peer_messages
from bench.peers.peer import Interest, Peer, Service
from bench.peers.rabbitmq import RabbitMq

MESSAGE = PeerMessage("t", {"a": "x", "n": 1, "f": 1.5, "b": True}, b"packed")
NS = 0x0102030405060708
STAMPED = STAMP.pack(NS)
STOMP_DELIVERY = b"MESSAGE\nsubscription:1\ncontent-length:100\na:x\n\n" + BARE_PAYLOAD + STAMPED + b"\0\n"
AMQP_DELIVERY = (
    amqp.method(60, 60, amqp.short("tag") + bytes(9) + amqp.short("e") + amqp.short("t"))
    + b"\x02\0\1\0\0\0\x0e"
    + bytes(14)
    + b"\xce"
    + b"\x03\0\1\0\0\0\x64"
    + BARE_PAYLOAD
    + STAMPED
    + b"\xce"
)

Receivers = Callable[[socket.socket], PeerReceiver]
DELIVERIES: dict[str, tuple[Receivers, bytes]] = {
    "mqtt": (mosquitto.MqttReceiver, mosquitto.publish_head(MESSAGE) + STAMPED),
    "resp": (redis_server.RespReceiver, redis_server.message_head(MESSAGE) + STAMPED + b"\r\n"),
    "nats": (nats_server.NatsReceiver, nats_server.message_head(MESSAGE) + STAMPED + b"\r\n"),
    "stomp": (stomp.StompReceiver, STOMP_DELIVERY),
    "stomp without line feeds": (stomp.StompReceiver, STOMP_DELIVERY.rstrip(b"\n")),
    "amqp": (amqp.AmqpReceiver, AMQP_DELIVERY),
}


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def received(receiver: PeerReceiver, theirs: socket.socket, parts: Sequence[bytes]) -> tuple[int, list[int]]:
    buffer = bytearray(65_536)
    stamps: list[int] = []
    count = 0
    for part in parts:
        theirs.sendall(part)
        count += receiver.scan(buffer, memoryview(buffer), stamps)
    return count, stamps


@pytest.mark.parametrize("name", DELIVERIES)
def test_deliveries_are_counted_when_many_arrive_at_once(name: str, ends: tuple[socket.socket, socket.socket]) -> None:
    make, delivery = DELIVERIES[name]
    count, latencies_ns = received(make(ends[0]), ends[1], [delivery * 5])
    assert count == len(latencies_ns) == 5


@pytest.mark.parametrize("name", DELIVERIES)
def test_deliveries_are_counted_when_they_arrive_byte_by_byte(
    name: str, ends: tuple[socket.socket, socket.socket]
) -> None:
    make, delivery = DELIVERIES[name]
    count, latencies_ns = received(make(ends[0]), ends[1], [bytes([each]) for each in delivery * 2])
    assert count == len(latencies_ns) == 2


@pytest.mark.parametrize("name", DELIVERIES)
def test_the_time_stamp_is_found_at_the_end_of_the_payload(
    name: str, ends: tuple[socket.socket, socket.socket]
) -> None:
    make, delivery = DELIVERIES[name]
    buffer = bytearray(delivery)
    place, payload_ends = make(ends[0]).deliveries(buffer, len(buffer))
    assert place == len(buffer)
    assert [bytes(buffer[each - 8 : each]) for each in payload_ends] == [STAMPED]


@pytest.mark.parametrize("peer", [mosquitto.Mosquitto(), redis_server.RedisServer(), nats_server.NatsServer()])
def test_the_size_of_a_delivery_is_known_where_bytes_are_counted(peer: Peer) -> None:
    sizes = {name: len(delivery) for name, (_, delivery) in DELIVERIES.items()}
    assert peer.delivery_bytes(MESSAGE) in (sizes["mqtt"], sizes["resp"], sizes["nats"])


def test_a_subscriber_says_when_its_connection_was_closed(ends: tuple[socket.socket, socket.socket]) -> None:
    receiver = mosquitto.MqttReceiver(ends[0])
    ends[1].close()
    with pytest.raises(DriverError, match="closed the connection of a subscriber"):
        receiver.count(memoryview(bytearray(10)))


def test_a_ping_of_nats_is_answered_and_not_counted(ends: tuple[socket.socket, socket.socket]) -> None:
    count, _ = received(nats_server.NatsReceiver(ends[0]), ends[1], [b"PING\r\n" + DELIVERIES["nats"][1]])
    assert count == 1
    assert ends[1].recv(100) == b"PONG\r\n"


def test_a_batch_is_the_frames_of_the_ring_each_with_the_stamp() -> None:
    ring = PeerRing([b"one", b"two", b"three"], b"!")
    assert ring.frame(1, 1, 2, NS) == b"two" + STAMPED + b"!three" + STAMPED + b"!"
    assert ring.body_bytes == len(b"three") + 8 + 1


def test_all_packed_messages_have_one_size_and_their_own_topic() -> None:
    messages = peer_messages([{"topic": "t1", "a": "x"}, {"topic": "t2", "a": "xyz"}, {"a": "y"}], topic="other")
    assert [each.topic for each in messages] == ["t1", "t2", "other"]
    assert len({len(each.packed) for each in messages}) == 1


# --- one protocol after the other


def test_mqtt_connects_subscribes_and_publishes() -> None:
    assert mosquitto.connect_packet("me") == b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02me"
    assert mosquitto.subscribe_packet(7, "t") == b"\x82\x06\x00\x07\x00\x01t\x00"
    assert mosquitto.publish_head(MESSAGE) == b"\x30\x11\x00\x01tpacked"


@pytest.mark.parametrize(("length", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (16_384, "808001")])
def test_mqtt_lengths_are_in_groups_of_seven_bits(length: int, encoded: str) -> None:
    assert mosquitto.remaining_length(length).hex() == encoded


def test_resp_publishes_and_delivers_arrays_of_strings() -> None:
    assert redis_server.publish_head(MESSAGE) == b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$14\r\npacked"
    assert redis_server.message_head(MESSAGE) == b"*3\r\n$7\r\nmessage\r\n$1\r\nt\r\n$14\r\npacked"


def test_nats_publishes_with_the_size_of_the_payload() -> None:
    assert nats_server.publish_head(MESSAGE) == b"PUB t 14\r\npacked"


def test_stomp_sends_attributes_as_headers_and_the_payload_with_its_length() -> None:
    headers = b"destination:/topic/t\npersistent:false\ncontent-length:100\na:x\nn:1\nf:1.5\nb:TRUE\n\n"
    assert stomp.send_head(MESSAGE) == b"SEND\n" + headers
    ring = activemq.ActiveMq().ring([MESSAGE], Service.BEST_EFFORT)
    assert ring.frame(1, 0, 1, NS) == b"SEND\n" + headers + BARE_PAYLOAD + STAMPED + b"\0"


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_stomp_deliveries_of_text_are_counted_however_they_arrive(
    size: int, ends: tuple[socket.socket, socket.socket]
) -> None:
    receiver, buffer = stomp.CountingReceiver(ends[0]), bytearray(65_536)
    data = b"MESSAGE\nsubscription:1\ncontent-length:3\n\nxxx\0\n" * 30
    count = 0
    for start in range(0, len(data), size):
        ends[1].sendall(data[start : start + size])
        count += receiver.scan(buffer, memoryview(buffer), None)
    assert count == 30


def test_stomp_subscribes_with_a_selector_whose_colons_are_escaped() -> None:
    frame = stomp.subscribe_frame(3, "quotes", "a = 'x:y'")
    assert frame == (b"SUBSCRIBE\nid:3\ndestination:/topic/quotes\nack:auto\nreceipt:3\nselector:a = 'x\\cy'\n\n\0")


def test_stomp_asks_for_a_receipt_with_the_last_message_of_a_batch() -> None:
    ring = stomp.StompRing([b"SEND\na:1\n\n", b"SEND\na:2\n\n"])
    text = b"x" * PAYLOAD_BYTES + b"\0"
    assert ring.frame(5, 0, 2, NS) == b"SEND\na:1\n\n" + text + b"SEND\nreceipt:6\na:2\n\n" + text


@pytest.mark.parametrize(
    ("selector", "decimal"),
    [
        ("class = 'STOCK' AND volume > 100", "class = 'STOCK' AND volume > 100.0"),
        ("low < 2.5", "low < 2.5"),
        ("symbol = 'A 1'", "symbol = 'A 1'"),
        ("symbol = 'it''s 5' AND x5 = 5", "symbol = 'it''s 5' AND x5 = 5.0"),
    ],
)
def test_numbers_in_selectors_of_activemq_are_decimals(selector: str, decimal: str) -> None:
    assert stomp.decimal_selector(selector) == decimal
    assert activemq.ActiveMq().wanted(Interest("t", selector), Service.SELECTORS) == decimal
    assert activemq.ActiveMq().wanted(Interest("t", selector), Service.BEST_EFFORT) == "t"


def test_amqp_publishes_a_method_a_header_with_a_table_and_a_body() -> None:
    head = amqp.publish_head(MESSAGE, exchange_name="e", is_durable=True)
    method = b"\x01\0\1\0\0\0\x0b\0\x3c\0\x28\0\0\1e\1t\0\xce"
    entries = b"\1aS\0\0\0\1x" + b"\1nl" + (1).to_bytes(8) + b"\1fd\x3f\xf8" + bytes(6) + b"\1bt\1"
    content = b"\0\x3c\0\0" + (100).to_bytes(8) + b"\x30\0" + len(entries).to_bytes(4) + entries + b"\x02"
    header = b"\x02\0\1" + len(content).to_bytes(4) + content + b"\xce"
    assert head == method + header + b"\x03\0\1\0\0\0\x64" + BARE_PAYLOAD


def test_amqp_marks_only_durable_messages_as_persistent() -> None:
    durable, passing = (RabbitMq().ring([MESSAGE], each) for each in (Service.DURABLE, Service.BEST_EFFORT))
    differing = [
        pair for pair in zip(durable.frame(1, 0, 1, NS), passing.frame(1, 0, 1, NS), strict=True) if pair[0] != pair[1]
    ]
    assert differing == [(2, 1)]


def test_a_closed_channel_of_amqp_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(DriverError, match="closed channel 1"):
        received(amqp.AmqpReceiver(ends[0]), ends[1], [amqp.method(20, 40, b"\0\0")])


def test_confirmations_are_counted_once_in_whatever_order_they_come() -> None:
    confirms = amqp.Confirms()
    for tag, is_multiple, count in (
        (3, False, 1),
        (1, False, 2),
        (2, False, 3),
        (5, True, 5),
        (7, False, 6),
        (8, True, 8),
    ):
        confirms.add(tag, is_multiple=is_multiple)
        assert confirms.count == count


def test_a_confirming_publisher_gets_its_credit_back(ends: tuple[socket.socket, socket.socket]) -> None:
    publisher = amqp.ConfirmedPublisher(ends[0], window_bytes=1_000)
    ring = PeerRing([b"x" * 91], b"!")
    for _ in range(2):
        publisher.send(ring, 0, 1)
    assert publisher.credit == 800
    ends[1].sendall(amqp.method(60, 80, (1).to_bytes(8) + b"\0")[:10])
    publisher.on_readable()
    ends[1].sendall(amqp.method(60, 80, (1).to_bytes(8) + b"\0")[10:])
    publisher.on_readable()
    assert (publisher.acknowledged, publisher.credit) == (1, 900)
