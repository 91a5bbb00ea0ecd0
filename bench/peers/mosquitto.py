"""mosquitto, by MQTT 3.1.1 with quality of service 0.

MQTT 3.1.1 has no headers and no selectors: attributes are part of the payload, which the broker does not look at. The
limit on queued messages is lifted, since mosquitto would drop messages silently. Nagle's algorithm is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from bench.live_driver import Dialect, DriverError
from bench.live_load import STAMP
from bench.peers.endpoints import PeerPublisher, PeerReceiver, connected, exchange
from bench.peers.message import PeerMessage, PeerRing
from bench.peers.peer import Peer, Service
from bench.peers.server import Server, running
from penstock.lab.demo_overlay import free_ports

__all__ = ["Mosquitto", "connect_packet", "publish_head", "remaining_length", "subscribe_packet"]

_CONNECT: Final = 0x10
_CONNACK: Final = 0x20
_PUBLISH: Final = 0x30
_SUBSCRIBE: Final = 0x82
_SUBACK: Final = 0x90
_SHORT: Final = Struct(">H")
_CLEAN_SESSION: Final = 0x02


class Mosquitto(Peer):
    """Eclipse mosquitto."""

    name = "mosquitto"
    package = "mosquitto"
    program = "/usr/sbin/mosquitto"

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run mosquitto without persistence."""
        (port,) = free_ports(1)
        settings = folder / "mosquitto.conf"
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            "persistence false",
            "max_queued_messages 0",
            "set_tcp_nodelay true",
            "log_type error",
            "log_dest stderr",
        ]
        settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with running([self.program, "-c", str(settings)], port=port, folder=folder) as server:
            yield server

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """MQTT 3.1.1."""
        return _Mqtt()

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> PeerRing:
        """Encode messages."""
        return PeerRing((publish_head(each) for each in messages), b"")

    def delivery_bytes(self, message: PeerMessage) -> int:
        """A delivery has the layout of a publish."""
        return len(publish_head(message)) + STAMP.size


class _Mqtt:
    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> PeerReceiver:
        connection = connected(port)
        exchange(connection, connect_packet(name), _is_welcome)
        for number, topic in enumerate(wanted, start=1):
            exchange(connection, subscribe_packet(number, topic), lambda answer: answer[:1] == bytes([_SUBACK]))
        return MqttReceiver(connection)

    def publisher(self, port: int, name: str) -> PeerPublisher:
        connection = connected(port)
        exchange(connection, connect_packet(name), _is_welcome)
        return PeerPublisher(connection)


class MqttReceiver(PeerReceiver):
    """A subscriber that takes packets apart by their lengths."""

    def deliveries(self, buffer: bytearray, end: int) -> tuple[int, list[int]]:
        """Where the last whole packet ends, and where the payload of each publish ends."""
        place, ends = 0, list[int]()
        while place + 2 <= end:
            length, shift, start = 0, 0, place + 1
            while start < end:
                byte = buffer[start]
                length |= (byte & 0x7F) << shift
                shift += 7
                start += 1
                if byte < 0x80:
                    break
            else:
                break
            if start + length > end:
                break
            if buffer[place] & 0xF0 == _PUBLISH:
                ends.append(start + length)
            place = start + length
        return place, ends


def connect_packet(name: str) -> bytes:
    """The first packet of a client; a keep-alive of 0 switches pings off."""
    content = _text("MQTT") + bytes([4, _CLEAN_SESSION, 0, 0]) + _text(name)
    return bytes([_CONNECT]) + remaining_length(len(content)) + content


def subscribe_packet(number: int, topic: str) -> bytes:
    """Ask for a topic, with quality of service 0."""
    content = _SHORT.pack(number) + _text(topic) + b"\0"
    return bytes([_SUBSCRIBE]) + remaining_length(len(content)) + content


def publish_head(message: PeerMessage) -> bytes:
    """A publish packet up to the time stamp."""
    content = _text(message.topic) + message.packed
    return bytes([_PUBLISH]) + remaining_length(len(content) + STAMP.size) + content


def remaining_length(length: int) -> bytes:
    """A length in seven-bit groups, the lowest first.

    >>> remaining_length(321).hex()
    'c102'
    """
    encoded = bytearray()
    while length >= 0x80:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _is_welcome(answer: bytes) -> bool:
    if len(answer) < 4:
        return False
    if answer[0] != _CONNACK or answer[3] != 0:
        raise DriverError(f"the broker answered a connect packet with {answer!r}")
    return True
