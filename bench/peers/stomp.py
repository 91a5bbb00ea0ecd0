"""Speaks STOMP 1.2 for the driver, with the same bytes to every broker that understands it.

Attributes are headers of STOMP. ActiveMQ turns them into string properties; its selectors compare such a property with
a number by reading it as a number of the literal's type, and an integer literal would never match a property ``12.5``.
So all numbers in selectors are written as decimals. A connection gets a message once per subscription that matches.

In the workloads with selectors, the publisher asks for a receipt per batch: if nothing matches, the driver could not
know otherwise when the broker is done. In the others it publishes without receipts. With selectors a subscriber gets
hundreds of thousands of frames in a second; so there payloads are text without a time, and the only zero byte of each
frame is its last. Counting these is all that the driver does, so as not to be the limit.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from bench.live_driver import Dialect, DriverError
from bench.live_load import PAYLOAD_BYTES, Ring
from bench.peers.endpoints import PeerPublisher, PeerReceiver, connected, exchange
from bench.peers.message import BARE_PAYLOAD, PeerMessage, PeerRing
from bench.peers.peer import Interest, Peer, Service
from penstock.model.values import AttributeValue

__all__ = [
    "CountingReceiver",
    "StompPeer",
    "StompReceiver",
    "StompRing",
    "decimal_selector",
    "send_head",
    "subscribe_frame",
]

_CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n\n\0"
_TAIL: Final = b"\0"
_TEXT: Final = b"x" * PAYLOAD_BYTES
_LF: Final = 10
_SELECTED_TOPIC: Final = "quotes"
_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""The same as the credit that a broker of Penstock grants."""
_SUBSCRIPTIONS_AT_ONCE: Final = 100
_MESSAGE: Final = b"MESSAGE\n"
_LENGTH: Final = b"content-length:"
_LITERALS: Final = re.compile(r"'(?:[^']|'')*'|(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")


class StompPeer(Peer):
    """A broker to which the driver speaks STOMP."""

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """STOMP 1.2."""
        return _Stomp(service)

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> Ring:
        """Encode messages."""
        heads = [send_head(each) for each in messages]
        if service is Service.SELECTORS:
            return StompRing(heads)
        return PeerRing([head + BARE_PAYLOAD for head in heads], _TAIL)

    def wanted(self, interest: Interest, service: Service) -> str:
        """The selector, where there are some, else the topic."""
        return decimal_selector(interest.selector) if service is Service.SELECTORS else interest.topic


class StompRing:
    """Frames with payloads of text, of which the last one in each batch asks for a receipt."""

    def __init__(self, heads: Sequence[bytes]) -> None:
        self._frames = [head + _TEXT + _TAIL for head in heads]
        self.body_bytes: Final = max(map(len, self._frames))

    def __len__(self) -> int:
        return len(self._frames)

    def frame(self, first: int, place: int, count: int, stamp_ns: int, identity: bytes = b"") -> bytes:
        """A batch; the number of its last message is the name of the receipt."""
        *others, last = self._frames[place : place + count]
        receipt = b"SEND\nreceipt:%d\n" % (first + count - 1)
        return b"".join([*others, receipt, last.removeprefix(b"SEND\n")])


class _Stomp:
    def __init__(self, service: Service) -> None:
        self._service = service

    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> PeerReceiver:
        connection = connected(port)
        exchange(connection, _CONNECT, _is_connected)
        for start in range(0, len(wanted), _SUBSCRIPTIONS_AT_ONCE):
            texts = list(enumerate(wanted))[start : start + _SUBSCRIPTIONS_AT_ONCE]
            frames = b"".join(self._subscribe(number, text) for number, text in texts)
            exchange(connection, frames, partial(_has_receipts, len(texts)))
        return CountingReceiver(connection) if self._service is Service.SELECTORS else StompReceiver(connection)

    def publisher(self, port: int, name: str) -> PeerPublisher:
        connection = connected(port)
        exchange(connection, _CONNECT, _is_connected)
        return _ReceiptPublisher(connection) if self._service is Service.SELECTORS else PeerPublisher(connection)

    def _subscribe(self, number: int, text: str) -> bytes:
        if self._service is Service.SELECTORS:
            return subscribe_frame(number, _SELECTED_TOPIC, text)
        return subscribe_frame(number, text)


class StompReceiver(PeerReceiver):
    """A subscriber that takes frames apart by their content-length."""

    def deliveries(self, buffer: bytearray, end: int) -> tuple[int, list[int]]:
        """Where the last whole frame ends, and where the payload of each message ends."""
        place, ends = 0, list[int]()
        while (body := buffer.find(b"\n\n", place, end)) >= 0:
            if buffer.find(_MESSAGE, place, body) < 0:
                raise DriverError(f"the broker sent something else than a message: {bytes(buffer[place:end])[:300]!r}")
            length = buffer.find(_LENGTH, place, body) + len(_LENGTH)
            payload_end = body + 2 + int(buffer[length : buffer.find(b"\n", length, body + 1)])
            # A zero byte ends the frame, and some brokers add a line feed.
            if payload_end + 1 > end:
                break
            ends.append(payload_end)
            place = payload_end + 1
            if place < end and buffer[place] == _LF:
                place += 1
        return place, ends


class CountingReceiver(StompReceiver):
    """A subscriber that only counts where frames end; their payloads are text."""

    def scan(self, buffer: bytearray, view: memoryview, latencies_ns: list[int] | None) -> int:
        """Read what is there."""
        assert latencies_ns is None, "these messages do not say when they were sent"
        count = self.count(view)
        return count - int(np.count_nonzero(np.frombuffer(view, np.uint8, count)))


class _ReceiptPublisher(PeerPublisher):
    """A publisher that waits for the receipts of its batches when its window is full."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, credit=_WINDOW_BYTES)
        self._receipted = 0
        self._rest = b""

    @property
    def acknowledged(self) -> int:
        """Messages up to the last receipt."""
        return self._receipted

    def on_data(self, data: bytes) -> None:
        """Take receipts; the credit of a message is its share of what was sent."""
        *frames, self._rest = (self._rest + data).split(b"\0")
        for frame in frames:
            self._on_frame(frame.strip())

    def _on_frame(self, frame: bytes) -> None:
        if not frame.startswith(b"RECEIPT"):
            raise DriverError(f"the broker said {frame[:300]!r}")
        number = int(frame.rpartition(b":")[2])
        self.credit += (_WINDOW_BYTES - self.credit) * (number - self._receipted) // (self.sent - self._receipted)
        self._receipted = number


def subscribe_frame(number: int, topic: str, selector: str = "") -> bytes:
    """Ask for a topic, maybe with a selector, and for a receipt."""
    lines = ["SUBSCRIBE", f"id:{number}", f"destination:/topic/{topic}", "ack:auto", f"receipt:{number}"]
    if selector:
        lines.append(f"selector:{_escaped(selector)}")
    return "\n".join(lines).encode() + b"\n\n\0"


def send_head(message: PeerMessage) -> bytes:
    """A SEND of a message that need not be kept, up to the payload, with the attributes as headers."""
    lines = ["SEND", f"destination:/topic/{message.topic}", "persistent:false", f"content-length:{PAYLOAD_BYTES}"]
    lines += [f"{name}:{_escaped(_text(value))}" for name, value in message.attributes.items()]
    return "\n".join(lines).encode() + b"\n\n"


def decimal_selector(selector: str) -> str:
    """The same selector with all numbers as decimals.

    >>> decimal_selector("class = 'S 5' AND volume > 100 AND low < 2.5")
    "class = 'S 5' AND volume > 100.0 AND low < 2.5"
    """
    return _LITERALS.sub(lambda found: _decimal(found[0]), selector)


def _decimal(literal: str) -> str:
    return literal if literal.startswith("'") else repr(float(literal))


def _text(value: AttributeValue) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")


def _is_connected(answer: bytes) -> bool:
    return b"CONNECTED\n" in _without_error(answer) and answer.rstrip(b"\n").endswith(b"\0")


def _has_receipts(count: int, answer: bytes) -> bool:
    return _without_error(answer).count(b"RECEIPT\n") == count and answer.rstrip(b"\n").endswith(b"\0")


def _without_error(answer: bytes) -> bytes:
    if answer.lstrip(b"\n").startswith(b"ERROR"):
        raise DriverError(f"the broker said {answer[:300]!r}")
    return answer
