"""Encodes the messages of the live benchmark before the clock starts: a driver only stamps and slices them.

All bodies of a load have the same length (payloads of 100 bytes and a little padding), so that a batch is a slice of an
array, and the time stamp is the last eight bytes of every body, and so of every delivery.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from penstock.matching import MatchIndex
from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.model.values import AttributeValue
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Publish
from penstock.selectors import Selector

__all__ = ["PAYLOAD_BYTES", "STAMP", "Expected", "Load", "Ring", "expected_of"]

PAYLOAD_BYTES: Final = 100
STAMP: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">IBQHI")
_LENGTH: Final = struct.Struct(">I")
_IDENTITY: Final = slice(_LENGTH.size, _LENGTH.size + 8)


class Ring(Protocol):
    """Messages that are sent over and over, encoded for some protocol."""

    @property
    def body_bytes(self) -> int:
        """What a message costs of a publisher's credit."""
        ...

    def __len__(self) -> int: ...

    def frame(self, first: int, place: int, count: int, stamp_ns: int, identity: bytes = b"") -> bytes:
        """A batch of messages from a place in the ring, numbered from ``first``, all with this time stamp."""
        ...


class Load:
    """A ring of messages, ready to be sent to a broker of Penstock."""

    def __init__(self, messages: Iterable[Mapping[str, AttributeValue]]) -> None:
        self.messages: Final = [dict(each) for each in messages]
        bare = [len(_body(each, 0)) for each in self.messages]
        self.body_bytes: Final = max(bare) + PAYLOAD_BYTES
        rows = [_body(each, self.body_bytes - size) for each, size in zip(self.messages, bare, strict=True)]
        framed = b"".join(_LENGTH.pack(self.body_bytes) + row for row in rows)
        self._rows: npt.NDArray[np.uint8] = np.frombuffer(framed, np.uint8).reshape(len(rows), -1).copy()
        assert self.frame(1, 0, 1, 0) == encode_frame(Publish(1, [self.body(0)])), "the layout of frames has changed"

    def __len__(self) -> int:
        return len(self.messages)

    def body(self, place: int) -> bytes:
        """One message as encoded bytes."""
        return self._rows[place, 4:].tobytes()

    def frame(
        self, first: int, place: int, count: int, stamp_ns: int, identity: bytes = b"", pubend: bytes = b""
    ) -> bytes:
        """A batch of messages from a place in the ring, numbered from ``first``, all with this time stamp.

        The identity of a publisher is the prefix of the identifiers of its messages.
        """
        rows = self._rows[place : place + count]
        if identity:
            rows[:, _IDENTITY] = np.frombuffer(identity, np.uint8)
        rows[:, -STAMP.size :] = np.frombuffer(STAMP.pack(stamp_ns), np.uint8)
        content = rows.tobytes()
        head = _HEAD.pack(15 + len(pubend) + len(content), 1, first, len(pubend), len(rows))
        return b"".join((head, pubend, content))


@dataclass(slots=True, frozen=True)
class Expected:
    """What each message of a load should cause."""

    frames: npt.NDArray[np.int64]
    """Connections that receive it."""
    matches: npt.NDArray[np.int64]
    """Subscriptions that match it."""


def expected_of(load: Load, selectors: Sequence[Sequence[str]]) -> Expected:
    """What should be delivered if each connection has these selectors."""
    index, connection_of = MatchIndex(), list[int]()
    for connection, texts in enumerate(selectors):
        for text in texts:
            index.add(len(connection_of), Selector.parse(text))
            connection_of.append(connection)
    places = np.array(connection_of, dtype=np.int64)
    found = [index.find(each).ids() for each in load.messages]
    return Expected(
        np.array([len(np.unique(places[ids])) for ids in found], dtype=np.int64),
        np.array([len(ids) for ids in found], dtype=np.int64),
    )


def _body(attributes: Mapping[str, AttributeValue], payload_bytes: int) -> bytes:
    return encode_body(MessageId(1, 1, 1_700_000_000_000, 1), Message(attributes, bytes(payload_bytes)))
