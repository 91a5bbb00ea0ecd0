"""All subscriptions of a client: which of them get a message, where they resume, and what can be acknowledged."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import lt
from typing import Final

from penstock.protocol.control import NAMES_MAX
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Acknowledge,
    Handed,
    Horizons,
    Join,
    Outcomes,
    Settle,
    Settled,
    Subscribe,
    Subscribed,
    Verdicts,
    is_guaranteed_number,
)
from penstock.session.events import Unanswered
from penstock.session.inbox import MESSAGE_BYTES, Inbox, Wanted
from penstock.session.positions import LostTicks
from penstock.session.received import Received
from penstock.session.settings import ClientSettings

__all__ = ["MESSAGES_MAX", "Inboxes", "Reporting", "learn_names", "subscribe_frame"]

MESSAGES_MAX: Final = 1_000
"""After this many messages of a durable subscription, acknowledge at once."""
_LATE_MS: Final = 2**62
"""A time by which everything is due."""
_NONE: Final[frozenset[int]] = frozenset()
_NUMBER: Final = struct.Struct(">I")
_NUMBERS_MAX: Final = 10 * NAMES_MAX
"""Pubends that one connection may name: they may come and go, and their numbers are not used again."""


class Reporting:
    """Acknowledges the durable subscriptions of a client that have moved since the last time.

    Only subscriptions in force are acknowledged; one that was requested again must wait until the broker knows it.
    Positions are reported, and single messages named, after a pause; at once if somebody waits until they are kept.
    """

    def __init__(self, *, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._moved: dict[int, Inbox] = {}
        self._settling: dict[int, Inbox] = {}
        """Subscriptions whose pubends are to keep single messages, or something that somebody waits for."""
        self._numbers: dict[str, int] = {}

    def on_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Learns the numbers of pubends on this connection."""
        self._numbers.update((name, number) for number, name in names if is_guaranteed_number(number))

    def on_moved(self, inbox: Inbox) -> bool:
        """A durable subscription has moved; returns whether the deadline may have changed."""
        assert inbox.receipts is not None, "not durable"
        if inbox.state not in ("asked", "ready"):
            return False
        is_new = inbox.number not in self._moved
        self._moved[inbox.number] = inbox
        settle_ms = inbox.receipts.next_settling()
        if settle_ms is not None:
            is_new = is_new or inbox.number not in self._settling or not settle_ms
            self._settling[inbox.number] = inbox
        return is_new or inbox.receipts.taken >= MESSAGES_MAX

    def drop(self, inbox: Inbox) -> None:
        """Forgets a subscription that is over."""
        self._moved.pop(inbox.number, None)
        self._settling.pop(inbox.number, None)

    def on_disconnected(self) -> None:
        """The connection is gone; what was acknowledged on it will be acknowledged again."""
        self._moved, self._settling, self._numbers = {}, {}, {}

    def next_deadline(self) -> int | None:
        """When to acknowledge next."""
        if not self._moved and not self._settling:
            return None
        wishes = [_due_ms(inbox) for inbox in self._moved.values() if inbox.state == "ready"]
        wishes += [_settle_ms(inbox) for inbox in self._settling.values() if inbox.state == "ready"]
        return min(wishes, default=None)

    def take(self, *, now_ms: int) -> list[Acknowledge | Settle]:
        """The acknowledgements to send now."""
        frames: list[Acknowledge | Settle] = []
        if self._settling:
            due = [each for each in self._settling.values() if each.state == "ready" and _settle_ms(each) <= now_ms]
            for inbox in due:
                assert inbox.receipts is not None, "not durable"
                if said := self._settle(inbox, now_ms=now_ms):
                    frames += said
                    inbox.receipts.not_before_ms = now_ms + self._pause_ms
                if inbox.receipts.next_settling() is None:
                    del self._settling[inbox.number]
        if self._moved:
            due = [each for each in self._moved.values() if each.state == "ready" and _due_ms(each) <= now_ms]
            for inbox in due:
                assert inbox.receipts is not None, "not durable"
                del self._moved[inbox.number]
                if reported := self._report(inbox):
                    frames += reported
                    inbox.receipts.not_before_ms = now_ms + self._pause_ms
        return frames

    def last(self, inbox: Inbox) -> list[Acknowledge | Settle]:
        """The last acknowledgements before a subscription is withdrawn, however recent the previous ones."""
        self.drop(inbox)
        if inbox.receipts is None or inbox.state != "ready":
            return []
        return [*self._settle(inbox, now_ms=_LATE_MS), *self._report(inbox)]

    def _settle(self, inbox: Inbox, *, now_ms: int) -> list[Settle]:
        assert inbox.receipts is not None, "not durable"
        settlings = inbox.receipts.settlings(self._numbers, now_ms=now_ms)
        return [Settle(inbox.number, self._numbers[each.pubend], each.below, each.ticks) for each in settlings]

    def _report(self, inbox: Inbox) -> list[Acknowledge]:
        assert inbox.receipts is not None, "not durable"
        risen = inbox.receipts.say(inbox.acknowledgeable(), self._numbers)
        return [Acknowledge(risen, inbox.number)] if risen else []


def _due_ms(inbox: Inbox) -> int:
    assert inbox.receipts is not None, "not durable"
    return 0 if inbox.receipts.taken >= MESSAGES_MAX else inbox.receipts.not_before_ms


def _settle_ms(inbox: Inbox) -> int:
    assert inbox.receipts is not None, "not durable"
    if inbox.receipts.taken >= MESSAGES_MAX:
        return 0
    due_ms = inbox.receipts.next_settling()
    return _LATE_MS if due_ms is None else due_ms


class Inboxes:
    """The subscriptions that are not over, by number."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self.member = b""
        """Tells this client from all other members of groups."""
        self._last_number = 0
        self._by_number: dict[int, Inbox] = {}
        # Subscriptions that accept messages, by number as encoded in deliveries, so that it need not be unpacked.
        self._by_bytes: dict[bytes, Inbox] = {}
        self._blocking: dict[int, Inbox] = {}
        self._paused: dict[int, Inbox] = {}
        """Subscriptions that the application has paused, by their last number; no broker knows of them."""
        # Pubends whose horizon has moved since the last acknowledgement, by their number on this connection.
        self._moved: dict[int, str] = {}
        self._acknowledged: dict[str, int] = {}
        self.presents: Final[dict[str, int]] = {}
        """How far each pubend is, as far as this client has heard."""
        self.reporting: Final = Reporting(pause_ms=settings.acknowledge_ms)
        """The acknowledgements of durable subscriptions."""
        self.repeated = 0
        """Deliveries dropped because they had arrived before."""
        self.taken_away = 0
        """Messages of groups that this client lost before the application had said what becomes of them."""

    def __iter__(self) -> Iterator[Inbox]:
        return iter(self._by_number.values())

    @property
    def are_blocking(self) -> bool:
        """Whether a subscription is too full to go on reading from the socket."""
        return bool(self._blocking)

    def add(self, wanted: Wanted) -> Inbox:
        """Adds a subscription."""
        bytes_max, messages_max = self._settings.queue_bytes, self._settings.queue_messages
        inbox = Inbox(0, wanted, bytes_max=bytes_max, messages_max=messages_max, member=self.member)
        self._number(inbox)
        return inbox

    def pause(self, inbox: Inbox) -> None:
        """Accepts no more messages for a subscription, but keeps its positions and what waits in its queue.

        To everything else it is gone: a full queue does not block, and no connection asks for it.
        """
        self._void(inbox)
        self.reporting.drop(inbox)
        inbox.state = "paused"
        inbox.blocking = False
        del self._by_number[inbox.number]
        del self._by_bytes[_NUMBER.pack(inbox.number)]
        self._blocking.pop(inbox.number, None)
        self._paused[inbox.number] = inbox

    def resume_paused(self, inbox: Inbox) -> None:
        """Accepts messages again for a paused subscription, under a new number.

        What was sent to the old number is still under way, or was dropped. If it counted, whatever was dropped before
        it would be missing.
        """
        del self._paused[inbox.number]
        inbox.state = "asked"
        inbox.settled.clear()
        self._number(inbox)
        self.block_if_full({inbox.number: inbox})

    @property
    def paused(self) -> list[Inbox]:
        """The paused subscriptions."""
        return list(self._paused.values())

    def _number(self, inbox: Inbox) -> None:
        self._last_number += 1
        inbox.number = self._last_number
        self._by_number[inbox.number] = self._by_bytes[_NUMBER.pack(inbox.number)] = inbox

    def get(self, number: int) -> Inbox | None:
        """The subscription with a number, if it is not over."""
        return self._by_number.get(number)

    def close(self, inbox: Inbox) -> None:
        """Accepts no more messages for a subscription; the broker has yet to confirm its end."""
        inbox.state = "closing"
        del self._by_bytes[_NUMBER.pack(inbox.number)]

    def forget(self, inbox: Inbox) -> None:
        """Forgets a subscription that is over."""
        inbox.state = "closed"
        self.reporting.drop(inbox)
        if self._paused.pop(inbox.number, None) is None:
            del self._by_number[inbox.number]
        self._by_bytes.pop(_NUMBER.pack(inbox.number), None)
        self._blocking.pop(inbox.number, None)

    def subscribes(self) -> list[Subscribe | Join]:
        """The requests for all subscriptions, to send on a new connection."""
        for inbox in self:
            # It is told again, unless the name was forgotten meanwhile.
            inbox.settled.clear()
        return [subscribe_frame(inbox) for inbox in self if inbox.last_values is None]

    def on_disconnected(self) -> dict[int, Inbox]:
        """The connection is gone; returns all subscriptions, since they have to be requested again."""
        inboxes = dict(self._by_number)
        self._moved, self._acknowledged = {}, {}
        self.reporting.on_disconnected()
        for inbox in inboxes.values():
            if inbox.state == "closing":
                self.forget(inbox)
            else:
                self._void(inbox)
        return inboxes

    def resume(
        self, names: Mapping[int, str], confirmed: Mapping[int, Subscribed], begun: Iterable[tuple[int, str]]
    ) -> None:
        """Another connection takes over; applies its pubend names, confirmed subscriptions and begun streams."""
        for each in self:
            each.change_connection()
        self.on_names(names.items())
        for number, pubend in begun:
            if (inbox := self._by_number.get(number)) is not None:
                inbox.positions.begin(pubend)
        for number, said in confirmed.items():
            if (inbox := self._by_number.get(number)) is not None:
                inbox.on_subscribed(said.selector, said.pending, said.starts)

    def named(self, numbers: bytes) -> list[Inbox]:
        """The subscriptions named in a frame that accept messages."""
        each = (self._by_bytes.get(numbers[start : start + 4]) for start in range(0, len(numbers), 4))
        return [inbox for inbox in each if inbox is not None]

    def on_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Learns the numbers of pubends on this connection."""
        self.reporting.on_names(names)
        for inbox in self:
            if inbox.receipts is not None:
                inbox.receipts.wake()
                self.reporting.on_moved(inbox)

    def deliver(  # noqa: C901  # inlined, as a call for each message would cost as much as all of it
        self, numbers: bytes, received: Received, woken: dict[int, Inbox]
    ) -> None:
        """Delivers a message to the subscriptions with these numbers; ignores any withdrawn meanwhile."""
        # Inbox.push, inlined for one and for many: this is where a busy client spends its time.
        pubend = received.pubend
        tick = received.tick
        by_bytes = self._by_bytes
        size = len(received.body) + MESSAGE_BYTES
        is_guaranteed = received.is_guaranteed
        if len(numbers) == 4:
            inbox = by_bytes.get(numbers)
            if inbox is not None:
                if is_guaranteed:
                    next_ticks = inbox.next_ticks
                    if tick < next_ticks.get(pubend, 0):
                        self.repeated += 1
                        return
                    next_ticks[pubend] = tick + 1
                    if pubend in inbox.settled and inbox.was_settled(received):
                        return
                else:
                    if inbox.former and tick in inbox.former.get(pubend, ()):
                        self.repeated += 1
                        return
                    inbox.recent[pubend].append(tick)
                inbox.queue.append(received)
                inbox.size += size
                woken[inbox.number] = inbox
            return
        for start in range(0, len(numbers), 4):
            inbox = by_bytes.get(numbers[start : start + 4])
            if inbox is not None:
                if is_guaranteed:
                    next_ticks = inbox.next_ticks
                    if tick < next_ticks.get(pubend, 0):
                        self.repeated += 1
                        continue
                    next_ticks[pubend] = tick + 1
                    if pubend in inbox.settled and inbox.was_settled(received):
                        continue
                else:
                    if inbox.former and tick in inbox.former.get(pubend, ()):
                        self.repeated += 1
                        continue
                    inbox.recent[pubend].append(tick)
                inbox.queue.append(received)
                inbox.size += size
                woken[inbox.number] = inbox

    def deliver_all(self, numbers: bytes, received: Sequence[Received], woken: dict[int, Inbox]) -> None:
        """Delivers messages of one pubend to the subscriptions with these numbers; at least one message."""
        first, last = received[0], received[-1]
        pubend = first.pubend
        ticks = [each.tick for each in received]
        size = sum([len(each.body) for each in received]) + MESSAGE_BYTES * len(received)
        if first.is_guaranteed and not _ascend(ticks):
            # The broker has broken its word: look at each message for whether it is a repetition.
            for message in received:
                self.deliver(numbers, message, woken)
            return
        for inbox in self.named(numbers):
            if first.is_guaranteed:
                may_repeat = first.tick < inbox.next_ticks.get(pubend, 0)
            else:
                may_repeat = bool(inbox.former) and not inbox.former.get(pubend, _NONE).isdisjoint(ticks)
            if may_repeat or pubend in inbox.settled:
                for message in received:
                    self.deliver(_NUMBER.pack(inbox.number), message, woken)
                continue
            if first.is_guaranteed:
                inbox.next_ticks[pubend] = last.tick + 1
            else:
                inbox.recent[pubend].extend(ticks)
            inbox.queue.extend(received)
            inbox.size += size
            woken[inbox.number] = inbox

    def on_settled(self, frame: Settled, pubend: str, woken: dict[int, Inbox]) -> None:
        """A pubend keeps what was acknowledged for a durable subscription, now or before it began."""
        inbox = self._by_number.get(frame.number)
        if inbox is not None and inbox.receipts is not None:
            inbox.receipts.on_settled(pubend, frame.below, frame.ticks)
            inbox.on_settled(pubend, frame.ticks)
            woken[inbox.number] = inbox

    def take_in(self, frame: Handed, woken: dict[int, Inbox]) -> int:
        """Messages of a group were handed to this client; returns how many."""
        inbox = self._by_bytes.get(frame.member[-4:])
        if inbox is None or inbox.work is None:
            # It has left meanwhile, and what it had comes to others.
            return 0
        if inbox.take_in(frame):
            woken[inbox.number] = inbox
        return len(frame.bodies)

    def on_outcomes(self, frame: Outcomes, woken: dict[int, Inbox]) -> None:
        """A pubend has answered what this client has said of messages."""
        inbox = self._by_number.get(frame.number)
        if inbox is not None and inbox.work is not None:
            before = inbox.work.taken_away
            inbox.on_outcomes(frame)
            self.taken_away += inbox.work.taken_away - before
            self.on_taken(inbox)
            woken[inbox.number] = inbox

    def verdicts(self, *, now_ms: int) -> list[Verdicts]:
        """What is to be said now of messages of groups."""
        return [
            frame
            for inbox in self._by_number.values()
            if inbox.work is not None
            for frame in inbox.work.take(inbox.number, inbox.unread(), now_ms=now_ms)
        ]

    def unanswered(self) -> list[Unanswered]:
        """The groups in which messages were acknowledged or refused, with no answer so far."""
        found: list[Unanswered] = []
        for inbox in self._by_number.values():
            if inbox.work is not None and inbox.unanswered:
                found.append(Unanswered(inbox.work.shared.group, inbox.unanswered))
        return found

    def next_verdict(self) -> int | None:
        """When something is to be said of messages of groups."""
        wishes = [
            inbox.work.next_deadline(has_unread=bool(inbox.queue or inbox.fetched()))
            for inbox in self._by_number.values()
            if inbox.work is not None
        ]
        return min([each for each in wishes if each is not None], default=None)

    def block_if_full(self, inboxes: Mapping[int, Inbox]) -> None:
        """Notes which of these subscriptions are full, after messages came in."""
        for inbox in inboxes.values():
            if inbox.update_blocking() and not inbox.is_over:
                self._blocking[inbox.number] = inbox

    def on_taken(self, inbox: Inbox) -> None:
        """The application took messages out."""
        if not inbox.update_blocking():
            self._blocking.pop(inbox.number, None)

    def on_horizons(self, horizons: Horizons, pubend: str) -> None:
        """Everything below a tick has been sent to some subscriptions, or to all but some."""
        self.presents[pubend] = max(horizons.present, self.presents.get(pubend, 0))
        numbers = horizons.numbers
        named = {numbers[start : start + 4] for start in range(0, len(numbers), 4)}
        if horizons.is_only:
            for number in named:
                if (inbox := self._by_bytes.get(number)) is not None:
                    # If the pubend was out of reach before, this is the first we hear of where it begins.
                    inbox.starts.setdefault(pubend, horizons.tick)
                    inbox.positions.begin(pubend)
                    self._on_horizon(inbox, pubend, horizons.tick)
        else:
            for number, inbox in self._by_bytes.items():
                if number not in named and inbox.positions.has_begun(pubend):
                    self._on_horizon(inbox, pubend, horizons.tick)
        self._moved[horizons.pubend] = pubend

    def on_lost(self, lost: LostTicks, numbers: Iterable[int]) -> bool:
        """Reports lost ticks to these subscriptions; returns whether any of them wanted the ticks."""
        missing = False
        for number in numbers:
            inbox = self._by_number.get(number)
            if inbox is not None and inbox.state != "closing":
                missing = inbox.on_lost(lost) or missing
        return missing

    def acknowledge(self) -> Acknowledge | None:
        """Acknowledges how far all non-durable subscriptions are, for pubends that moved; None if nothing is new."""
        moved, self._moved = self._moved, {}
        if not moved:
            return None
        # Members of groups have no positions: the pubend keeps what they are done with.
        plain = [inbox for inbox in self._by_bytes.values() if inbox.receipts is None and inbox.work is None]
        risen: list[tuple[int, int]] = []
        for number, pubend in moved.items():
            wanting = [inbox for inbox in plain if inbox.wanted.wants(pubend)]
            position = min((inbox.positions.get(pubend) or 0 for inbox in wanting), default=0)
            if position > self._acknowledged.get(pubend, 0):
                self._acknowledged[pubend] = position
                risen.append((number, position))
        return Acknowledge(tuple(risen)) if risen else None

    def _on_horizon(self, inbox: Inbox, pubend: str, tick: int) -> None:
        inbox.positions.on_horizon(pubend, tick)
        if inbox.receipts is not None:
            self.reporting.on_moved(inbox)

    @staticmethod
    def _void(inbox: Inbox) -> None:
        """Discards what the broker said about a subscription."""
        inbox.state = "asked"
        inbox.change_connection()
        inbox.positions.on_disconnected()
        if inbox.receipts is not None:
            inbox.receipts.on_disconnected()

    def check_invariants(self) -> None:
        """Fails if the parts do not agree."""
        taking = [inbox for inbox in self if inbox.state != "closing"]
        assert taking == [*self._by_bytes.values()]
        assert not any(inbox.is_over or inbox.state == "paused" for inbox in self)
        assert all(inbox.state == "paused" and not inbox.blocking for inbox in self._paused.values())
        assert {*self._blocking} == {inbox.number for inbox in self if inbox.blocking}
        for inbox in self:
            inbox.check_invariants()


def _ascend(ticks: list[int]) -> bool:
    return all(map(lt, ticks, ticks[1:]))


def learn_names(known: dict[int, str], names: Iterable[tuple[int, str]]) -> None:
    """Takes a broker's numbers for pubends; raises ``ProtocolError`` for far more than an overlay can have had."""
    known.update(names)
    if len(known) > _NUMBERS_MAX:
        raise ProtocolError(f"the broker numbers more than {_NUMBERS_MAX:,} pubends")


def subscribe_frame(inbox: Inbox) -> Subscribe | Join:
    """The request for a subscription, or for its continuation from where it was."""
    wanted = inbox.wanted
    if inbox.work is not None:
        return inbox.work.join(inbox.number, wanted.selector, wanted.otherwise, wanted.pubends)
    return Subscribe(
        inbox.number,
        wanted.selector,
        tuple(inbox.positions.known().items()),
        inbox.resumes,
        wanted.otherwise,
        wanted.missing,
        wanted.durable,
        wanted.pubends,
    )
