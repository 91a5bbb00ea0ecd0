"""The judge of ``stomp-kill9``: knows what was sent and what receipts promised, and nothing of brokers.

Each SEND frame is an *item* of its own: a producer that sends a message again, because its receipt did not come, makes
a further copy with another name. So a message may arrive twice only as two items, and at most the last of them has a
receipt. An item that arrives twice where it must not is always wrong.

Items go to *readers*: the queue is one, whoever of its workers gets an item, and every durable subscription is another.

- What has a receipt for its SEND must come to each reader, and be acknowledged there.
- The queue hands an item out several times if need be, as attempts that count up. Once the ACK of an attempt has its
  receipt, no later attempt may exist. An earlier one may be read even then: it lay in a socket while its broker was
  killed, and the item went to somebody else.
- To a durable subscription an item must not come after the receipt for its ACK was read.
- An ACK without a receipt leaves a doubt: the item may come again or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Item", "Ledger", "Reading", "StompVerdict"]


@dataclass(slots=True, eq=False)
class Reading:
    """What came of an item to one reader, and what became of it."""

    attempts: list[int] = field(default_factory=list)
    """All attempts that came, in the order in which they were read; those of a durable subscription are all 1."""
    is_tried: bool = False
    """Whether some ACK was sent."""
    acked: int = 0
    """The attempt whose ACK has its receipt; 0 if none has."""


@dataclass(slots=True, eq=False)
class Item:
    """One SEND frame."""

    name: str
    message: str
    """The message that it is a copy of."""
    readings: dict[str, Reading]
    """By reader, for all to whom it must come."""
    has_receipt: bool = False
    ids: list[str] = field(default_factory=list)
    """The different message-ids under which it came."""


@dataclass(slots=True)
class StompVerdict:
    """What was lost, and what came although it must not: each wrong item by its name."""

    lost: list[str]
    """Items with a receipt that some reader never acknowledged."""
    again: list[str]
    """Items that came again, or were acknowledged again, although the ACK had its receipt."""
    shared: list[str]
    """Items of the queue of which the same attempt came twice."""
    renamed: list[str]
    """Items that came under several message-ids: a broker has published them twice."""
    in_doubt: int
    """How often an item is done although no ACK of it has a receipt."""
    doubled: int
    """Messages of which several copies came: allowed, as at most one of them has a receipt."""


class Ledger:
    """All items of a run."""

    def __init__(self, queue: str, durables: Iterable[str]) -> None:
        """The readers: the queue, and the durable subscriptions to the topic."""
        self.items: Final[dict[str, Item]] = {}
        self.receipts = 0
        """SEND frames that have their receipts."""
        self.acks = 0
        """ACKs that have theirs."""
        self.delivered = 0
        self.reordered = 0
        """Messages of the topic that came, on one connection, after one with a higher position."""
        self.strange: Final[list[str]] = []
        """What came and was never sent like this, and receipts that nobody asked for."""
        self._queue = queue
        self._durables = tuple(durables)
        self._again: list[str] = []
        self._open: dict[tuple[str, str], None] = {}
        """Items with receipts that a reader has not tried to acknowledge, with that reader."""

    def on_sent(self, name: str, message: str, *, is_work: bool) -> None:
        """A producer sends an item, to the queue or to the topic."""
        assert name not in self.items, f"item {name} was sent before"
        readers = (self._queue,) if is_work else self._durables
        self.items[name] = Item(name, message, {reader: Reading() for reader in readers})

    def on_receipt(self, name: str) -> None:
        """A producer has the receipt for an item."""
        item = self.items[name]
        assert not item.has_receipt, f"item {name} has its receipt already"
        item.has_receipt = True
        self.receipts += 1
        self._open |= {(name, reader): None for reader, reading in item.readings.items() if not reading.is_tried}

    def on_message(self, reader: str, name: str, message_id: str, attempt: int) -> bool:
        """An item came to a reader; false if it was never sent to it."""
        item = self.items.get(name)
        if item is None or reader not in item.readings:
            self.strange.append(name)
            return False
        self.delivered += 1
        if message_id not in item.ids:
            item.ids.append(message_id)
        reading = item.readings[reader]
        reading.attempts.append(attempt)
        if reading.acked and reader != self._queue:
            self._again.append(name)
        return True

    def on_try(self, reader: str, name: str) -> None:
        """A reader sends an ACK."""
        self.items[name].readings[reader].is_tried = True
        self._open.pop((name, reader), None)

    def on_acked(self, reader: str, name: str, attempt: int) -> None:
        """A reader has the receipt for an ACK."""
        self.acks += 1
        reading = self.items[name].readings[reader]
        if reading.acked:
            self._again.append(name)
        reading.acked = attempt

    @property
    def open(self) -> int:
        """How often an item must still come to a reader."""
        return len(self._open)

    def verdict(self) -> StompVerdict:
        """Judge everything that has happened."""
        items = self.items.values()
        work = [(item.name, item.readings[self._queue]) for item in items if self._queue in item.readings]
        late = [name for name, reading in work if reading.acked and max(reading.attempts) > reading.acked]
        readings = [reading for item in items for reading in item.readings.values()]
        copies = Counter(item.message for item in items if item.ids)
        return StompVerdict(
            lost=list(dict.fromkeys(name for name, _ in self._open)),
            again=list(dict.fromkeys([*self._again, *late])),
            shared=[name for name, reading in work if len(set(reading.attempts)) < len(reading.attempts)],
            renamed=[item.name for item in items if len(item.ids) > 1],
            in_doubt=sum(reading.is_tried and not reading.acked for reading in readings),
            doubled=sum(count > 1 for count in copies.values()),
        )
