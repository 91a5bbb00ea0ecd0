"""Gives messages their identifiers: by the number that the broker has given the client, and by the broker's clock."""

from __future__ import annotations

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource
from penstock.protocol.frames import Welcome

__all__ = ["Identifying"]


class Identifying:
    """The identifiers of one client's messages, over all its connections."""

    def __init__(self) -> None:
        self._ids: MessageIdSource | None = None
        self._last: MessageId | None = None

    def on_welcome(self, welcome: Welcome, *, skew_ms: int) -> None:
        """A broker has given the client a number; by so much is its clock ahead."""
        after = self._last if self._last is not None and self._last.publisher == welcome.publisher else None
        self._ids = MessageIdSource(welcome.publisher, welcome.broker_number, after=after)
        self._ids.adjust(skew_ms)

    def identify(self, message: Message, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """An identifier for a message that is to be published now, and the bytes of both."""
        assert self._ids is not None, "no broker has given this client a number yet"
        message_id = self._last = self._ids.next(wall_ms)
        return message_id, encode_body(message_id, message)
