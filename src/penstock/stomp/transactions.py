"""The open transactions of one connection: what is to be done at COMMIT, and not before.

All of it must concern one pubend, which then takes it at once or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.protocol.stomp import StompError
from penstock.session.received import Received
from penstock.stomp.messages import Outgoing
from penstock.stomp.settings import StompSettings
from penstock.stomp.subscriptions import Held, Topic

__all__ = ["Transaction", "Transactions", "Verdicted"]

_ITEM_BYTES: Final = 200
"""What a frame of a transaction takes besides its message."""
_NAME_CHARS_MAX: Final = 255


@dataclass(slots=True, frozen=True)
class Verdicted:
    """An ACK or a NACK."""

    subscription: Topic | Held
    acks: Sequence[str]
    """The messages, in the order in which they were sent."""
    is_done: bool
    """False if they were refused."""

    def pubends(self) -> set[str]:
        """Where the messages are kept that could come again; the empty name if none could."""
        return {message.pubend for message in self.subscription.waiting.messages_of(self.acks)} or {""}

    def is_waiting(self) -> bool:
        """Whether all of the messages still wait for it, if they could come again."""
        waiting = self.subscription.waiting
        return isinstance(self.subscription, Topic) or all(waiting.find(ack, "") is not None for ack in self.acks)


@dataclass(slots=True)
class Transaction:
    """What one transaction has so far."""

    sends: list[Outgoing] = field(default_factory=list)
    verdicts: list[Verdicted] = field(default_factory=list)
    size: int = 0

    def guaranteed(self) -> list[Received]:
        """The messages of guaranteed pubends that it is about."""
        return [
            message
            for each in self.verdicts
            for message in each.subscription.waiting.messages_of(each.acks)
            if message.is_guaranteed
        ]


class Transactions:
    """The open transactions, by the names that the client gave them."""

    def __init__(self, settings: StompSettings) -> None:
        self._count_max, self._bytes_max = settings.transactions_max, settings.transaction_bytes
        self._open: dict[str, Transaction] = {}
        self._size = 0

    def begin(self, name: str) -> None:
        """Open a transaction; raises ``StompError``."""
        if name in self._open:
            raise StompError(f"transaction {name[:100]!r} has begun already", "transaction")
        if len(name) > _NAME_CHARS_MAX:
            raise StompError(f"the name of a transaction has {len(name):,} characters", "transaction")
        if len(self._open) >= self._count_max:
            raise StompError(f"a connection may have {self._count_max} open transactions", "transaction")
        self._open[name] = Transaction()

    def find(self, name: str) -> Transaction:
        """An open transaction; raises ``StompError``."""
        found = self._open.get(name)
        if found is None:
            raise StompError(f"transaction {name[:100]!r} has not begun", "transaction")
        return found

    def end(self, name: str) -> Transaction:
        """Close a transaction, and return what it has."""
        found = self.find(name)
        del self._open[name]
        self._size -= found.size
        return found

    def send(self, name: str, message: Outgoing) -> None:
        """Add a message to a transaction."""
        found = self.find(name)
        self._grow(found, len(message.content))
        found.sends.append(message)

    def judge(self, name: str, verdict: Verdicted) -> None:
        """Add an ACK or a NACK to a transaction."""
        found = self.find(name)
        self._grow(found, 0)
        found.verdicts.append(verdict)

    def check_invariants(self) -> None:
        """Fails if they do not add up, or are over their limits."""
        assert self._size == sum(each.size for each in self._open.values()), "transactions do not add up"
        assert self._size <= self._bytes_max, f"{self._size:,} bytes are in open transactions"
        assert len(self._open) <= self._count_max, f"{len(self._open)} transactions are open"

    def _grow(self, transaction: Transaction, size: int) -> None:
        size += _ITEM_BYTES
        if self._size + size > self._bytes_max:
            raise StompError(f"the open transactions of a connection may have {self._bytes_max:,} bytes", "transaction")
        self._size += size
        transaction.size += size
