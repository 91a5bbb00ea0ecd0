"""Everything that a client publishes: a queue for each pubend, which pubends there are, and the choice among them.

Each pubend has a window of its own, so one that holds its publishers back keeps nobody from publishing to another. The
pubend of a message is fixed when it is published. Where the application names none, the client chooses once, and stays
with its choice for as long as that pubend exists, wherever the client goes: its messages stay in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from penstock.model.body import encode_message
from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Frame,
    HeldBack,
    PubendPlaces,
    PublishAck,
    Refused,
    Rewind,
    Welcome,
    carried_credit,
)
from penstock.session import events
from penstock.session.errors import UnknownPubendError
from penstock.session.publish_queue import Failure, PublishQueue
from penstock.session.settings import ClientSettings

__all__ = ["Identifying", "PubendPlace", "Publishing"]

_PUBEND_CHARS_MAX: Final = 100
_SHOWN_MAX: Final = 20


@dataclass(slots=True, frozen=True)
class PubendPlace:
    """A pubend of the overlay."""

    broker: str
    """The broker that hosts it."""
    is_guaranteed: bool
    """Whether it guarantees delivery, or is best effort."""


Mark = Mapping[str, int]
"""How many messages were published to each pubend at some moment."""


class Publishing:
    """The publish queues of one client, over all its connections."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._queues: dict[str, PublishQueue] = {}
        self._found: dict[str, PublishQueue] = {}
        """The queues by what applications call them: also by the empty name, once a pubend has been chosen."""
        self.identity = b""
        """The publisher's identity, by which it chooses a pubend."""
        self._broker = self._overlay = ""
        self._credit_bytes = 0
        """The window of each pubend on the present connection; 0 without one."""
        self._is_complete = False
        self._awaited: str | None = None
        """The pubend that somebody wants to publish to, and the broker does not know yet."""
        self.places: dict[str, PubendPlace] = {}
        """The pubends that the present broker knows, or the last one knew."""
        self.find = self._found.get
        """The queue for a pubend that was published to before; None if ``queue_for`` has to look for it."""
        self.events: list[events.ClientEvent] = []
        """What is to be told to the program."""
        self._refusals = events.Refusals()

    def __iter__(self) -> Iterator[PublishQueue]:
        return iter(self._queues.values())

    # What the application asks for.

    def queue_for(self, pubend: str) -> PublishQueue | None:
        """The queue for a pubend, or for the one that the client chooses if the name is empty.

        None while nobody can tell which there are. Raises ``UnknownPubendError`` if there is none of that name.
        """
        found = self._found.get(pubend)
        if found is not None:
            return found
        if len(pubend) > _PUBEND_CHARS_MAX:
            raise LimitError("the name of the pubend, in characters,", len(pubend), _PUBEND_CHARS_MAX)
        name = pubend or self._choice()
        if name not in self.places:
            if self._credit_bytes and self._is_complete:
                raise UnknownPubendError(self._problem_with(pubend))
            self._awaited = pubend
            return None
        self._awaited = None
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PublishQueue(
                name,
                linger_ms=self._settings.linger_ms,
                batch_bytes=self._settings.batch_bytes,
                numbered=self._settings.published_to(name),
                stop_at_refusal=self._settings.stop_at_refusal,
            )
            self._open(queue, now_ms=0)
        self._found[pubend] = self._found[name] = queue
        return queue

    def _choice(self) -> str:
        """Chooses a pubend: of those with the most weight for this publisher, or nobody's if there is none."""
        near = [name for name, place in self.places.items() if place.broker == self._broker]
        those = near if near and self._settings.choice == "near" else list(self.places)
        candidates = [name for name in those if self.places[name].is_guaranteed] or those
        # By the highest of hashes: if a pubend comes or goes, only those that choose it now or chose it then move.
        return max(candidates, key=lambda name: (_weight(self.identity, name), name), default="")

    def _problem_with(self, pubend: str) -> str:
        names = sorted(self.places)
        shown = ", ".join(names[:_SHOWN_MAX]) + (", ..." if len(names) > _SHOWN_MAX else "")
        if not pubend:
            return f"overlay {self._overlay} has no pubends"
        return f"overlay {self._overlay} has no pubend {pubend!r}; there are: {shown or 'none'}"

    def hurry(self, *, now_ms: int) -> None:
        """Makes all waiting messages due now, and asks the broker to acknowledge them at once."""
        for queue in self:
            queue.hurry(now_ms=now_ms)

    def rest(self, *, now_ms: int) -> bool:
        """Sends nothing more to pubends that do not recognise repetitions; returns whether nothing is on its way there.

        What is on the wire to them could not be sent again on another connection.
        """
        moving = [queue for queue in self if not queue.is_guaranteed and (queue.has_sent or queue.is_resting)]
        for queue in moving:
            if not queue.is_resting:
                queue.is_resting = True
                queue.hurry(now_ms=now_ms)
        return not any(queue.has_sent for queue in moving)

    def go_on(self) -> None:
        """Ends the rest: the client stays where it is."""
        for queue in self:
            queue.is_resting = False

    def mark(self) -> Mark:
        """How many messages were published to each pubend so far."""
        return {name: queue.published for name, queue in self._queues.items()}

    def is_settled(self, mark: Mark) -> bool:
        """Whether everything up to a mark is acknowledged, refused or lost."""
        return all(self._queues[name].settled >= count for name, count in mark.items())

    def is_stopped_at(self, mark: Mark) -> bool:
        """Whether a refusal keeps some of the messages up to a mark from ever being sent."""
        return any(queue.is_stopped and queue.settled < mark.get(name, 0) for name, queue in self._queues.items())

    # Events of the connection.

    def on_welcome(self, welcome: Welcome, *, now_ms: int) -> None:
        """There is a new connection: pubends that recognise what they have are sent everything again."""
        self._broker, self._overlay = welcome.broker, welcome.overlay
        self._credit_bytes = welcome.credit_bytes
        own = {name: PubendPlace(welcome.broker, name not in welcome.best_effort) for name in welcome.pubends}
        self.places = own | _places(welcome.others)
        self._is_complete = welcome.is_complete
        for queue in self:
            self._open(queue, now_ms=now_ms)
        self._give_up_unknown()

    def on_places(self, frame: PubendPlaces, *, now_ms: int) -> None:
        """The pubends of the overlay have changed."""
        # Not in place: applications may look at it in another thread.
        kept = {name: place for name, place in self.places.items() if name not in frame.gone}
        self.places = kept | _places(frame.added)
        self._is_complete = frame.is_complete
        for queue in self:
            place = self.places.get(queue.pubend)
            if not queue.is_open:
                self._open(queue, now_ms=now_ms)
            elif place is not None:
                # If it has changed, the broker wants everything again, and what cannot be recognised is lost then.
                queue.is_guaranteed = place.is_guaranteed
        self._give_up_unknown()

    def _open(self, queue: PublishQueue, *, now_ms: int) -> None:
        place = self.places.get(queue.pubend)
        if place is not None and self._credit_bytes:
            is_near = place.broker == self._broker
            queue.open(
                credit_bytes=self._credit_bytes if is_near else carried_credit(self._credit_bytes),
                is_guaranteed=place.is_guaranteed,
                now_ms=now_ms,
                # What was sent to another overlay may be there, and this one would not recognise it.
                recognises=queue.overlay in ("", self._overlay),
            )
            queue.overlay = self._overlay

    def _give_up_unknown(self) -> None:
        """Settles messages to pubends that do not exist any more; the next message is for another one."""
        if not self._is_complete:
            return
        for name, queue in self._queues.items():
            queue.problem = "" if name in self.places else self._problem_with(name)
            if queue.problem:
                self.fail(queue)
        for name in [name for name, queue in self._found.items() if queue.pubend not in self.places]:
            del self._found[name]

    def fail(self, queue: PublishQueue) -> None:
        """Settles everything that waits in a queue whose pubend does not exist any more."""
        refused = queue.refused
        queue.fail(queue.problem)
        if queue.refused > refused:
            self.events += self._refusals.add(queue.pubend, queue.problem, queue.refused - refused)

    def on_frame(self, frame: PublishAck | HeldBack | Refused | Rewind, *, now_ms: int) -> None:
        """The broker says something about the messages to a pubend."""
        queue = self._queues.get(frame.pubend)
        if queue is None:
            raise ProtocolError(f"{type(frame).__name__} names pubend {frame.pubend!r}, to which nothing was published")
        match frame:
            case PublishAck(sequence, credit_bytes):
                queue.on_ack(sequence, credit_bytes)
            case HeldBack(reason, window_bytes):
                self._tell_held_back(queue, reason)
                queue.hold_back(reason, window_bytes)
            case Refused():
                queue.on_refused(frame.number, frame.reason, frame.count)
                self.events += self._refusals.add(frame.pubend, frame.reason, frame.count)
            case Rewind(number, answer_to):
                queue.on_rewind(number, answer_to, frame.credit_bytes, now_ms=now_ms)

    def on_disconnected(self) -> None:
        """The connection is gone."""
        self._credit_bytes = 0
        for queue in self:
            queue.close()

    def _tell_held_back(self, queue: PublishQueue, reason: str) -> None:
        """Tells the program when messages begin to wait, and when they no longer do; not each change of the reason."""
        if reason and not queue.held_back:
            self.events.append(events.HeldBack(queue.pubend, reason))
        elif queue.held_back and not reason:
            self.events.append(events.Released(queue.pubend))

    def take_events(self) -> list[events.ClientEvent]:
        """Hands over what is to be told to the program."""
        told, self.events = self.events, []
        return told

    # What is to be sent, and when.

    def take(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""
        frames: list[Frame] = []
        for queue in self:
            frames += queue.take_answers()
            frames += queue.take(now_ms=now_ms)
        return frames

    def next_deadline(self) -> int | None:
        """When to take the next batch."""
        earliest_ms: int | None = None
        for queue in self:
            due_ms = queue.next_deadline()
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    # Outcomes.

    @property
    def held_back(self) -> str:
        """Why messages have to wait, to the first pubend where they do; empty if they do not."""
        reason = next((queue.held_back for queue in self if queue.held_back), "")
        if reason or self._awaited is None or not self._credit_bytes:
            return reason
        wanted = f"pubend {self._awaited!r}" if self._awaited else "any pubend"
        return f"broker {self._broker} does not know {wanted} yet"

    @property
    def is_stopped(self) -> bool:
        """Whether a refusal has stopped one of the queues."""
        return any(queue.is_stopped for queue in self)

    @property
    def refusal(self) -> str:
        """The reason of the last refusal at some pubend."""
        return next((queue.refusal for queue in self if queue.refusal), "")

    @property
    def published(self) -> int:
        """Messages accepted from the application."""
        return sum(queue.published for queue in self)

    @property
    def settled(self) -> int:
        """Messages before the first one to each pubend that is not acknowledged, refused or lost."""
        return sum(queue.settled for queue in self)

    @property
    def acknowledged(self) -> int:
        """Messages that a broker has acknowledged."""
        return sum(queue.acknowledged for queue in self)

    @property
    def refused(self) -> int:
        """Messages that a broker refused."""
        return sum(queue.refused for queue in self)

    @property
    def lost(self) -> int:
        """Messages that may be lost."""
        return sum(queue.lost for queue in self)

    def take_failures(self) -> list[Failure]:
        """The messages that were refused or lost since the last call."""
        return [failure for queue in self for failure in queue.take_failures()]

    def abandon(self) -> None:
        """Settles everything outstanding as lost: nobody will acknowledge it any more."""
        for queue in self:
            queue.abandon()

    def check_invariants(self) -> None:
        """Fails if a queue is not sound."""
        for queue in self:
            queue.check_invariants()


def _places(told: Iterable[tuple[str, str, bool]]) -> dict[str, PubendPlace]:
    return {name: PubendPlace(broker, is_guaranteed) for name, broker, is_guaranteed in told}


def _weight(identity: bytes, pubend: str) -> bytes:
    return blake2b(identity + b"\0" + pubend.encode(), digest_size=8).digest()


class Identifying:
    """Makes the identifiers of a client's messages; each broker gives the publisher number and the clock."""

    def __init__(self, guard: AbstractContextManager[object]) -> None:
        """Whoever calls ``stamp`` in another thread must hold the guard, a lock."""
        self._guard = guard
        self._ids: MessageIdSource | None = None
        self._last: MessageId | None = None

    def on_welcome(self, welcome: Welcome, *, skew_ms: int) -> None:
        """A broker has given the client a number; its clock is ahead by the skew."""
        with self._guard:
            after = self._last if self._last is not None and self._last.publisher == welcome.publisher else None
            self._ids = MessageIdSource(welcome.publisher, welcome.broker_number, after=after)
            self._ids.adjust(skew_ms)

    def broker_ms(self, wall_ms: int) -> int:
        """The time by the clock of the broker that gave the last number."""
        return wall_ms + (self._ids.skew_ms if self._ids is not None else 0)

    def identify(self, message: Message, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """Makes the identifier of a message to be published now; returns it and the encoded message."""
        return self.stamp(encode_message(message), wall_ms=wall_ms)

    def stamp(self, content: bytes, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """Puts a new identifier before the encoded rest of a message; returns it and the whole."""
        assert self._ids is not None, "no broker has given this client a number yet"
        message_id = self._last = self._ids.next(wall_ms)
        return message_id, message_id.to_bytes() + content
