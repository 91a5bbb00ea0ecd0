"""The messages of one subscription that wait for an ACK or NACK, in the order in which they were sent."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.session.received import Received

__all__ = ["Unacknowledged"]


class Unacknowledged:
    """Messages by their ``ack`` header, and by the ``message-id`` by which older versions name them.

    Of messages that cannot come again (``None``), only the names are kept, so that an ACK of them can be checked.
    """

    __slots__ = ("_acks", "_ids", "_messages", "size")

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        """The message-id, by ``ack``, in the order in which they were sent."""
        self._messages: dict[str, Received] = {}
        """Those that could come again, by ``ack``."""
        self._acks: dict[str, str] = {}
        """The ``ack``, by message-id."""
        self.size = 0
        """How many bytes those have that could come again."""

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ack: str, message_id: str, message: Received | None) -> None:
        """A message was sent."""
        self._ids[ack] = message_id
        self._acks[message_id] = ack
        if message is not None:
            self._messages[ack] = message
            self.size += len(message.body)

    def drop_oldest(self) -> None:
        """Forget the message that was sent first."""
        self.take(next(iter(self._ids)))

    def find(self, ack: str, message_id: str) -> str | None:
        """The ``ack`` of a message that is named by one or the other; None if it does not wait."""
        if ack:
            return ack if ack in self._ids else None
        return self._acks.get(message_id)

    def through(self, ack: str) -> list[str]:
        """This message and all that were sent before it."""
        found: list[str] = []
        for each in self._ids:
            found.append(each)
            if each == ack:
                break
        return found

    def take(self, ack: str) -> Received | None:
        """Remove a message, if it still waits, and return it, if it could come again."""
        message_id = self._ids.pop(ack, None)
        if message_id is not None and self._acks.get(message_id) == ack:
            del self._acks[message_id]
        message = self._messages.pop(ack, None)
        if message is not None:
            self.size -= len(message.body)
        return message

    def messages(self) -> tuple[Received, ...]:
        """All messages that wait and could come again; asked for very often."""
        return tuple(self._messages.values())

    def messages_of(self, acks: Iterable[str]) -> list[Received]:
        """The messages of these that wait and could come again."""
        return [self._messages[ack] for ack in acks if ack in self._messages]
