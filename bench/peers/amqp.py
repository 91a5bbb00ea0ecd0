"""The part of AMQP 0-9-1 that the comparison needs, written by hand: a client library would cost more than the broker.

A message is three frames: a method, a header with the attributes as a table, and a body. All messages are small enough
for a single body frame, so a subscriber counts body frames.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from struct import Struct
from typing import Final

from bench.live_driver import DriverError
from bench.live_load import PAYLOAD_BYTES
from bench.peers.endpoints import PeerPublisher, PeerReceiver, connected, exchange
from bench.peers.message import BARE_PAYLOAD, PeerMessage
from penstock.model.values import AttributeValue

__all__ = [
    "FRAME_END",
    "AmqpReceiver",
    "AmqpWorker",
    "ConfirmedPublisher",
    "Confirms",
    "call",
    "logged_in",
    "method",
    "publish_head",
    "short",
    "table",
]

FRAME_END: Final = b"\xce"
_METHOD, _HEADER, _BODY = 1, 2, 3
_CHANNEL: Final = 1
_FRAME: Final = Struct(">BHI")
_METHOD_ID: Final = Struct(">HH")
_ACK: Final = (60, 80)
_NACK: Final = (60, 120)
_ACKED: Final = Struct(">QB")
_DELIVER: Final = (60, 60)
_TAG: Final = Struct(">Q")
_ACKNOWLEDGE: Final = Struct(">BHIHHQBc")
"""A whole frame that acknowledges one message."""
_NO_WAIT: Final = 0b1000
_PASSIVE: Final = 0b0001
_BUFFER_BYTES: Final = 1024 * 1024
_PERSISTENT, _TRANSIENT = 2, 1
_HAS_HEADERS_AND_MODE: Final = 0x3000


def logged_in(port: int) -> socket.socket:
    """A connection with one open channel, as the user of RabbitMQ who may come from this machine only."""
    connection = connected(port)
    call(connection, b"AMQP\0\0\x09\x01", (10, 10))
    proof = b"\0guest\0guest"
    start_ok = table({}) + short("PLAIN") + len(proof).to_bytes(4) + proof + short("en_US")
    call(connection, method(10, 11, start_ok, channel=0), (10, 30))
    # No heartbeats, which would mix with the deliveries.
    tune_ok = Struct(">HIH").pack(_CHANNEL, 131_072, 0)
    opening = method(10, 40, short("/") + short("") + b"\0", channel=0)
    call(connection, method(10, 31, tune_ok, channel=0) + opening, (10, 41))
    call(connection, method(20, 10, short("")), (20, 11))
    return connection


def call(connection: socket.socket, request: bytes, answer: tuple[int, int]) -> None:
    """Send a request during the setup, and wait for the method that answers it."""
    exchange(connection, request, lambda data: _is_method(data, answer))


def method(class_id: int, method_id: int, arguments: bytes, *, channel: int = _CHANNEL) -> bytes:
    """A method frame."""
    return _framed(_METHOD, _METHOD_ID.pack(class_id, method_id) + arguments, channel)


def publish_head(message: PeerMessage, *, exchange_name: str, is_durable: bool) -> bytes:
    """A publish up to the time stamp, with the attributes as headers."""
    publish = method(60, 40, b"\0\0" + short(exchange_name) + short(message.topic) + b"\0")
    mode = _PERSISTENT if is_durable else _TRANSIENT
    properties = _HAS_HEADERS_AND_MODE.to_bytes(2) + table(message.attributes) + bytes([mode])
    header = _framed(_HEADER, Struct(">HHQ").pack(60, 0, PAYLOAD_BYTES) + properties)
    return publish + header + _FRAME.pack(_BODY, _CHANNEL, PAYLOAD_BYTES) + BARE_PAYLOAD


def short(text: str) -> bytes:
    """A string of at most 255 bytes."""
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def table(values: Mapping[str, AttributeValue]) -> bytes:
    """A table of named values."""
    content = b"".join(short(name) + _value(value) for name, value in values.items())
    return len(content).to_bytes(4) + content


class AmqpReceiver(PeerReceiver):
    """A subscriber that counts body frames."""

    def deliveries(self, buffer: bytearray, end: int) -> tuple[int, list[int]]:
        """Where the last whole frame ends, and where the payload of each delivery ends."""
        place, ends = 0, list[int]()
        while place + _FRAME.size <= end:
            kind, channel, length = _FRAME.unpack_from(buffer, place)
            following = place + _FRAME.size + length + 1
            if following > end:
                break
            if kind == _BODY:
                ends.append(following - 1)
            elif kind == _METHOD:
                _check_open(bytes(buffer[place + _FRAME.size : following]), channel)
            place = following
        return place, ends


class AmqpWorker:
    """A consumer that acknowledges each message by itself, those that arrive together in one write.

    A quorum queue hands out about thirty jobs of the warm-up again, although they were acknowledged. They count
    as if they were others: less than one in a thousand.
    """

    def __init__(self, connection: socket.socket, queue: str, name: str) -> None:
        self.socket = connection
        self.done = 0
        self._rest = b""
        self._tag = 0
        self._queue = queue
        # Nobody waits for an answer: deliveries may come at once.
        self.socket.sendall(method(60, 20, b"\0\0" + short(queue) + short(name) + bytes([_NO_WAIT]) + table({})))

    def on_readable(self) -> None:
        """Read what is there, and acknowledge each job when its body has come."""
        data = self.socket.recv(_BUFFER_BYTES)
        if not data:
            raise DriverError("RabbitMQ closed the connection of a worker")
        data, place = self._rest + data, 0
        acknowledgements: list[bytes] = []
        while place + _FRAME.size <= len(data):
            kind, channel, length = _FRAME.unpack_from(data, place)
            start = place + _FRAME.size
            if start + length + 1 > len(data):
                break
            if kind == _METHOD:
                self._on_method(data[start : start + length], channel)
            elif kind == _BODY:
                self.done += 1
                acknowledgements.append(_ACKNOWLEDGE.pack(_METHOD, _CHANNEL, 13, *_ACK, self._tag, 0, FRAME_END))
            place = start + length + 1
        self._rest = data[place:]
        self.socket.sendall(b"".join(acknowledgements))

    def finish(self) -> None:
        """Ask about the queue, and wait for the answer, which comes after everything that was sent before."""
        call(self.socket, method(50, 10, b"\0\0" + short(self._queue) + bytes([_PASSIVE]) + table({})), (50, 11))

    def _on_method(self, content: bytes, channel: int) -> None:
        if _METHOD_ID.unpack_from(content) == _DELIVER:
            (self._tag,) = _TAG.unpack_from(content, _METHOD_ID.size + 1 + content[_METHOD_ID.size])
        else:
            _check_open(content, channel)


class Confirms:
    """Counts confirmed messages: single ones come in any order, a multiple one confirms all before it."""

    def __init__(self) -> None:
        self._all_up_to = 0
        self._beyond: set[int] = set()

    @property
    def count(self) -> int:
        """Messages confirmed so far."""
        return self._all_up_to + len(self._beyond)

    def add(self, tag: int, *, is_multiple: bool) -> None:
        """Take one confirmation."""
        if is_multiple and tag > self._all_up_to:
            self._all_up_to = tag
            self._beyond = {each for each in self._beyond if each > tag}
        elif not is_multiple:
            self._beyond.add(tag)
        while self._all_up_to + 1 in self._beyond:
            self._all_up_to += 1
            self._beyond.remove(self._all_up_to)


class ConfirmedPublisher(PeerPublisher):
    """A publisher whose messages the broker confirms, and who waits when its window is full."""

    def __init__(self, connection: socket.socket, *, window_bytes: int) -> None:
        super().__init__(connection, credit=window_bytes)
        self._window_bytes = window_bytes
        self._confirms = Confirms()
        self._rest = b""

    @property
    def acknowledged(self) -> int:
        """Messages confirmed."""
        return self._confirms.count

    def on_data(self, data: bytes) -> None:
        """Take confirmations; the credit of a message is its share of what was sent."""
        data, place = self._rest + data, 0
        waiting = self.sent - self.acknowledged
        while place + _FRAME.size <= len(data):
            _, channel, length = _FRAME.unpack_from(data, place)
            start = place + _FRAME.size
            if start + length + 1 > len(data):
                break
            self._on_method(data[start : start + length], channel)
            place = start + length + 1
        self._rest = data[place:]
        if waiting:
            confirmed = waiting - (self.sent - self.acknowledged)
            self.credit += (self._window_bytes - self.credit) * confirmed // waiting

    def _on_method(self, content: bytes, channel: int) -> None:
        kind = _METHOD_ID.unpack_from(content)
        if kind == _NACK:
            raise DriverError("RabbitMQ refused to confirm a message")
        if kind == _ACK:
            tag, flags = _ACKED.unpack_from(content, _METHOD_ID.size)
            self._confirms.add(tag, is_multiple=bool(flags & 1))
        else:
            _check_open(content, channel)


def _framed(kind: int, content: bytes, channel: int = _CHANNEL) -> bytes:
    return _FRAME.pack(kind, channel, len(content)) + content + FRAME_END


def _value(value: AttributeValue) -> bytes:
    if isinstance(value, bool):
        return b"t" + bytes([value])
    if isinstance(value, int):
        return b"l" + value.to_bytes(8, signed=True)
    if isinstance(value, float):
        return b"d" + Struct(">d").pack(value)
    assert isinstance(value, str), f"no header can carry {value!r}"
    encoded = value.encode()
    return b"S" + len(encoded).to_bytes(4) + encoded


def _is_method(data: bytes, wanted: tuple[int, int]) -> bool:
    """Whether the wanted method is the last whole frame; raises if it is another one that ends the conversation."""
    place, last = 0, (0, 0)
    while place + _FRAME.size <= len(data):
        kind, channel, length = _FRAME.unpack_from(data, place)
        content = data[place + _FRAME.size : place + _FRAME.size + length]
        if len(content) < length:
            return False
        if kind == _METHOD:
            last = _METHOD_ID.unpack_from(content)
            if last != wanted:
                _check_open(content, channel)
        place += _FRAME.size + length + 1
    return last == wanted


def _check_open(content: bytes, channel: int) -> None:
    class_id, method_id = _METHOD_ID.unpack_from(content)
    if (class_id, method_id) in ((10, 50), (20, 40)):
        raise DriverError(f"RabbitMQ closed channel {channel}: {content[4:]!r}")
