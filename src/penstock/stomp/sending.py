"""What a STOMP client publishes: where it goes, when there is room for it, and when its receipt is due."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from penstock.model.errors import MisuseError
from penstock.model.message_id import MESSAGE_ID_BYTES
from penstock.protocol.stomp import StompError
from penstock.session.errors import UnknownPubendError
from penstock.session.inbox import Inbox, Wanted
from penstock.session.publish_queue import PublishQueue
from penstock.session.resident import Resident
from penstock.session.work import Shared
from penstock.stomp.destinations import Destination
from penstock.stomp.messages import PUBEND, Outgoing
from penstock.stomp.promises import Promises
from penstock.stomp.settings import StompSettings

__all__ = ["Sending"]

_AGAIN_MS: Final = 1_000
_QUEUES_MAX: Final = 10_000
_QUEUE_KNOWN_MS: Final = 60_000
"""How long a queue that exists is taken to exist: an operator may have it forgotten, and then SEND makes it anew."""


class Sending:
    """The SEND side of one connection."""

    def __init__(
        self, settings: StompSettings, resident: Resident, promises: Promises, *, client: str, dead_letters: str
    ) -> None:
        self._settings = settings
        self._resident = resident
        self._promises = promises
        self._client = client
        self._dead_letters = dead_letters
        self._chosen: dict[bool, str] = {}
        """The pubend of messages whose client names none: of those to be kept, and of the others."""
        self._queues: dict[tuple[str, str], int] = {}
        """Queues that exist at a pubend, with the time until which that is believed."""
        self._making: dict[str, Inbox] = {}
        """Queues that are being made, by joining them for a moment."""
        self._again_ms: dict[str, int] = {}
        """When to look again for queues whose pubend was out of reach."""

    def publish(self, message: Outgoing, receipt: str, *, now_ms: int, wall_ms: int) -> bool:
        """Publish a message; False if it has to wait. Raises ``StompError``."""
        found = self._place([message], now_ms=now_ms)
        if found is None:
            return False
        self._put(found, [message], receipt, now_ms=now_ms, wall_ms=wall_ms)
        return True

    def pubends_of(self, messages: Sequence[Outgoing]) -> set[str]:
        """The pubends to which these messages would go."""
        return {self._pubend(message) for message in messages}

    def publish_all(self, messages: Sequence[Outgoing], *, now_ms: int, wall_ms: int) -> tuple[str, int] | None:
        """Publish messages to the same pubend together; None if they have to wait.

        Returns what ``is_durable`` needs to tell when all of them are.
        """
        queue = self._place(messages, now_ms=now_ms)
        if queue is None:
            return None
        self._put(queue, messages, "", now_ms=now_ms, wall_ms=wall_ms)
        queue.hurry(now_ms=now_ms)
        return queue.pubend, queue.published

    def is_durable(self, pubend: str, place: int) -> bool:
        """Whether a pubend has acknowledged all messages up to a place."""
        queue = self._resident.publishing.find(pubend)
        return queue is None or queue.settled >= place

    @staticmethod
    def key_of(pubend: str) -> str:
        """On whom the promises depend that are about messages to a pubend."""
        return f"send {pubend}"

    def _place(self, messages: Sequence[Outgoing], *, now_ms: int) -> PublishQueue | None:
        """The queue for messages to one pubend; None if they have to wait for room, for a queue or for a pubend."""
        pubend = self._pubend(messages[0])
        try:
            queue = self._resident.publishing.queue_for(pubend)
        except UnknownPubendError as error:
            raise StompError(str(error), PUBEND if messages[0].pubend else "") from None
        except MisuseError as error:
            raise StompError(str(error), PUBEND) from None
        if queue is None:
            return None
        for message in messages:
            is_queued = message.destination.kind == "queue"
            if is_queued and not self._has_queue(message.destination, queue.pubend, now_ms=now_ms):
                return None
        size = sum(len(message.content) + MESSAGE_ID_BYTES for message in messages)
        return queue if queue.has_room(size) else None

    def _put(
        self, queue: PublishQueue, messages: Sequence[Outgoing], receipt: str, *, now_ms: int, wall_ms: int
    ) -> None:
        for message in messages:
            _, body = self._resident.stamp(message.content, wall_ms=wall_ms)
            queue.put(body, now_ms=now_ms, had_room=True)
        if receipt:
            place = queue.published
            self._promises.add(self.key_of(queue.pubend), receipt, lambda: queue.settled >= place, place=place)
            # Somebody waits: the broker should not gather acknowledgements first.
            queue.hurry(now_ms=now_ms)

    def _pubend(self, message: Outgoing) -> str:
        """The pubend of a message: the one that its client names, or one that is chosen for good."""
        if message.pubend:
            return message.pubend
        # What is sent to a queue must be kept: the queue is made of what pubends keep.
        is_kept = message.is_persistent or message.destination.kind == "queue"
        chosen = self._chosen.get(is_kept, "")
        if chosen not in self._resident.publishing.places:
            chosen = self._chosen[is_kept] = self._choice(is_kept=is_kept)
        return chosen

    def _choice(self, *, is_kept: bool) -> str:
        """A pubend of the wanted class, or of the other one if there is none; near if possible.

        By the client's name, so that its messages stay in order when it comes back. Not the one for dead letters, whose
        messages no queue gets.
        """
        places = {name: place for name, place in self._resident.publishing.places.items() if name != self._dead_letters}
        welcome = self._resident.welcome
        broker = welcome.broker if welcome is not None else ""
        candidates = [name for name, place in places.items() if place.is_guaranteed == is_kept] or list(places)
        candidates = [name for name in candidates if places[name].broker == broker] or candidates
        return max(candidates, key=lambda name: (_weight(self._client, name), name), default="")

    def _has_queue(self, destination: Destination, pubend: str, *, now_ms: int) -> bool:
        """Whether a queue exists at a pubend; makes it if it does not.

        What is sent to nobody's queue would be kept for nobody.
        """
        name = destination.name
        if self._queues.get((name, pubend), 0) > now_ms:
            return True
        place = self._resident.publishing.places.get(pubend)
        if pubend == self._dead_letters or (place is not None and not place.is_guaranteed):
            what = "is for dead letters" if pubend == self._dead_letters else "keeps nothing"
            raise StompError(f"pubend {pubend} {what}: no queue gets what is sent there", PUBEND)
        inbox = self._making.get(name)
        if inbox is None:
            if now_ms >= self._again_ms.get(name, 0):
                wanted = Wanted(destination.selector(""), shared=shared(self._settings, name, 0))
                self._making[name] = self._resident.subscribe(wanted)
            return False
        if inbox.state == "refused":
            del self._making[name]
            raise StompError(f"queue {name} cannot be made: {inbox.reason}", "destination")
        if inbox.state == "asked":
            return False
        del self._making[name]
        self._resident.unsubscribe(inbox)
        if pubend in inbox.pending:
            # It was out of reach. Once it is not, the message could be there before the queue.
            self._again_ms[name] = now_ms + _AGAIN_MS
            return False
        self._again_ms.pop(name, None)
        if len(self._queues) >= _QUEUES_MAX:
            self._queues.clear()
        self._queues[name, pubend] = now_ms + _QUEUE_KNOWN_MS
        return True


def shared(settings: StompSettings, queue: str, prefetch: int) -> Shared:
    """The terms of a queue: the same for all its members, whoever makes it."""
    return Shared(queue, work_ms=settings.work_ms, deliveries_max=settings.deliveries_max, prefetch=prefetch)


def _weight(client: str, pubend: str) -> bytes:
    return blake2b(f"{client}\0{pubend}".encode(), digest_size=8).digest()
