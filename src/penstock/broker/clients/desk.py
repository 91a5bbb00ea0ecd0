"""Serves clients: admits them, handles their subscriptions, and notifies them.

A client's selector is narrowed to what its rule allows. System publications name other clients and groups, as the
status does, so the same clients may see them: those whose rule says ``status``, or everybody where clients need not
authenticate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

from penstock.broker.access import Claimant
from penstock.broker.due import Due
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.readiness import Readiness, Waiting
from penstock.broker.host.wishes import Refusal, Settled
from penstock.broker.narrowing import PUBEND, is_reserved, is_wanted, names_pubends, narrowed
from penstock.broker.neighbours.filters import HostChange
from penstock.broker.peers import Guest, Peer, PeerKind, Subscription, first_number, guest_of
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings
from penstock.matching.plan import effort_in_index
from penstock.model.body import take_in
from penstock.model.bounded_cache import BoundedCache
from penstock.model.names import is_client_name, is_durable_name, is_plain_name
from penstock.model.values import RESERVED_PREFIX, Attributes
from penstock.protocol.control import shortened
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    DurablesRequest,
    Forget,
    Forgotten,
    Hello,
    InterestReply,
    InterestRequest,
    PubendNames,
    PubendPlaces,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.selectors.errors import SelectorError
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["Desk", "Selecting"]

_NUMBER_MAX: Final = 2**32
_NAMES_PER_FRAME: Final = 1_000
"""Pubends whose numbers are sent to a client in one frame."""
_LISTING_MAX: Final = 1 << 30
_FORGETTING_MAX: Final = 256
_LET_GO_AT_ONCE: Final = 4
"""Conjunctions removed from the filter in one turn; the most expensive take some milliseconds together."""
_END_AT_ONCE: Final = 128
"""Conjunctions of departed clients removed from the index in one turn; but at least one subscription."""
_RECOGNISED_MAX: Final = 100_000
"""Most publishers whose numbers are reserved for them."""
_NARROWED_CHARS_MAX: Final = 1024 * 1024
"""The size of the cache of narrowed selectors, in characters."""


class Desk:
    """Serves the clients of one broker."""

    def __init__(
        self,
        rooms: Rooms,
        readiness: Readiness,
        guaranteed: Guaranteed,
        *,
        incarnation: int,
    ) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._filters, self._tracker = rooms.filters, rooms.tracker
        self._topology = rooms.topology
        self._places: dict[str, tuple[str, str, bool]] = {}
        """The pubends of other brokers, as clients were last told."""
        self._are_complete = False
        self._subscribers = rooms.subscribers
        self._pubends = rooms.pubends
        self._readiness = readiness
        self._guaranteed = guaranteed
        self._hosted, self._positions = guaranteed.edges.subscriptions, guaranteed.positions
        self._accounts = rooms.accounts
        self._selecting = Selecting(rooms.settings)
        self._unwanted: deque[Conjunction] = deque()
        """Conjunctions of departed clients that are still in the filter."""
        self._ending: deque[tuple[int, int, Subscription]] = deque()
        """Subscriptions of departed clients, silent but still in the index; by connection and number."""
        self._let_go_ms: int | None = None
        self.due = Due(self.next_deadline)
        # Not from 1 at every start: the identifiers of a new life should not look like those of the last one.
        self._publishers = crc32(incarnation.to_bytes(8))
        self.refused = 0
        self._recognised: dict[bytes, Peer] = {}
        """Connections of recognisable publishers, by identity."""
        self._taken: dict[int, bytes] = {}
        """The numbers of recognised publishers; kept so that nobody else gets the number of an absent one."""

    def admit(self, peer: Peer, hello: Hello, *, now_ms: int) -> str | None:
        """Admits a client, or returns why not."""
        settings = self._settings
        if hello.overlay not in {"", settings.overlay}:
            return f"this is overlay {settings.overlay}, not {hello.overlay}"
        client = settings.access.identify(hello.name, hello.credential, peer.certificate)
        if client is None:
            return settings.access.refusal(hello.name)
        if not is_client_name(client):
            return "the name of a client has at most 200 characters, and only those that can be printed"
        account = self._accounts.open(client)
        if isinstance(account, str):
            return account
        # Bound to the authenticated name: no client can pose as another's publisher.
        publisher = _bound(client, hello.publisher)
        number = self._publisher_number(publisher)
        peer.kind, peer.name = PeerKind.CLIENT, client
        peer.guest = Guest(
            account,
            number,
            settings.access.rule_for(client),
            number.to_bytes(4) + settings.number.to_bytes(4),
            publisher_id=publisher,
        )
        peer.guest.is_pinned, peer.guest.migration = hello.pinned, hello.migration
        self._tracker.connect(peer.connection, client)
        self._connections.say(
            peer,
            Welcome(
                PROTOCOL_VERSION,
                settings.name,
                settings.overlay,
                number,
                settings.number,
                now_ms,
                settings.heartbeat_ms,
                settings.credit_bytes,
                settings.pubends,
                settings.best_effort,
                self._places_elsewhere(),
                self._guaranteed.knows_all_pubends(),
            ),
        )
        numbered = self._pubends.numbered()
        for start in range(0, len(numbered), _NAMES_PER_FRAME):
            self._connections.say(peer, PubendNames(numbered[start : start + _NAMES_PER_FRAME]))
        return None

    def note_refused(self, peer: Peer, hello: Hello, problem: str) -> None:
        """Tells the operator which client was refused, where it came from, and what it lacks; never its token."""
        missing = self._settings.access.missing_proof(hello.name, hello.credential, peer.certificate)
        self._connections.record(
            "client-refused",
            peer=peer.connection,
            client=hello.name,
            address=peer.source or "unknown",
            reason=missing or problem,
        )

    def subscribe(self, peer: Peer, frame: Subscribe, *, now_ms: int) -> HostChange | None:
        """Adds a client's subscription; returns the change of this broker's filter."""
        guest = guest_of(peer)
        problem, asked = self._selector(guest, frame)
        if asked is None:
            self.refuse(peer, "subscribe", frame.number, problem)
            return None
        selector = asked.narrowed
        key = self._subscribers.add(peer.connection, frame.number, selector)
        size = _selector_bytes(frame, selector)
        subscription = Subscription(key, selector, len(frame.positions), size, effort_in_index(selector))
        guest.begin(frame.number, subscription)
        change = self._filters.want(selector)
        version = self._filters.version
        self._readiness.wait(peer.connection, frame.number, version, frame.pubends, now_ms=now_ms)
        hosted = self._to_host(peer.connection, key, version, frame, now_ms)
        hosted.claimant = self._claimant(guest, frame.durable)
        hosted.selector = str(asked.selector)
        subscriber = frame.durable or guest.client
        durable = bool(frame.durable)
        self._tracker.attach(peer.connection, frame.number, subscriber, durable=durable, selector=hosted.selector)
        if not hosted.durable:
            self._positions.hold(guest, hosted.positions)
        if hosted.resumes:
            self._positions.go_on(guest, frame.number)
        self._guaranteed.subscribe(hosted, now_ms=now_ms)
        self._guaranteed.confirm_own(version, now_ms=now_ms)
        return change

    def select(self, peer: Peer, text: str) -> tuple[str, Selector | None]:
        """Returns why a client may not select that, or an empty string and the part that it may see."""
        guest = guest_of(peer)
        if guest.rule.subscribe is None:
            return f"client {guest.client} may not subscribe", None
        return self._selecting.select(guest, text)

    def unsubscribe(self, peer: Peer, frame: Unsubscribe, *, now_ms: int) -> HostChange | None:
        """Ends a client's subscription; returns the change of this broker's filter."""
        subscription = guest_of(peer).end(frame.number)
        if subscription is None:
            self.refuse(peer, "unsubscribe", frame.number, f"there is no subscription {frame.number}")
            return None
        self._remove(subscription, now_ms)
        self._tracker.detach(peer.connection, frame.number)
        self._positions.let_go(guest_of(peer))
        self._readiness.drop(peer.connection, frame.number)
        self._connections.say(peer, Unsubscribed(frame.number))
        return self._filters.unwant([subscription.selector])

    def refuse_late(self, refusal: Refusal, *, now_ms: int) -> HostChange | None:
        """Ends a subscription that turned out to be impossible; returns the change of this broker's filter."""
        hosted = refusal.subscription
        peer = self._connections.peers.get(hosted.connection)
        subscription = guest_of(peer).subscriptions.get(hosted.number) if peer else None
        if peer is None or subscription is None:
            return None
        if self._hosted.get(subscription.key) is not hosted:
            # A newer subscription with the same number.
            return None
        guest_of(peer).end(hosted.number)
        self._remove(subscription, now_ms)
        self._tracker.detach(hosted.connection, hosted.number)
        self._positions.let_go(guest_of(peer))
        self._readiness.drop(hosted.connection, hosted.number)
        self.refuse(peer, "subscribe", hosted.number, refusal.reason)
        return self._filters.unwant([subscription.selector])

    def leave(self, peer: Peer, *, now_ms: int) -> HostChange | None:
        """Ends the subscriptions of a client that is gone; returns the change of this broker's filter."""
        guest = guest_of(peer)
        if self._recognised.get(guest.publisher_id) is peer:
            del self._recognised[guest.publisher_id]
        ended = self._end_all(peer, now_ms=now_ms)
        self._accounts.close(guest.account)
        self._tracker.leave(peer.connection)
        self._guaranteed.unsubscribe([each.key for each in ended.values()], now_ms=now_ms)
        self._ending += [(peer.connection, number, subscription) for number, subscription in ended.items()]
        self._subscribers.silence(each.key for each in ended.values())
        return self.let_go(now_ms=now_ms)

    def release(self, peer: Peer, *, now_ms: int) -> HostChange | None:
        """Ends all subscriptions of a client that has them elsewhere; returns the change of this broker's filter."""
        ended = self._end_all(peer, now_ms=now_ms)
        for number, subscription in ended.items():
            self._subscribers.remove(subscription.key)
            self._tracker.detach(peer.connection, number)
        self._guaranteed.unsubscribe([each.key for each in ended.values()], now_ms=now_ms)
        return self.let_go(now_ms=now_ms)

    def _end_all(self, peer: Peer, *, now_ms: int) -> dict[int, Subscription]:
        guest = guest_of(peer)
        self._readiness.drop(peer.connection)
        # Also for a client that has moved: until its new host has reported, nobody else holds the logs for it.
        is_complete = self._guaranteed.knows_all()
        self._positions.leave(guest, is_complete=is_complete, now_ms=now_ms)
        ended = dict(guest.subscriptions)
        for number in ended:
            guest.end(number)
        for subscription in ended.values():
            self._unwanted.extend(subscription.selector.conjunctions)
        return ended

    def next_deadline(self) -> int | None:
        """When to continue removing the subscriptions of departed clients."""
        return self._let_go_ms

    def let_go(self, *, now_ms: int) -> HostChange | None:
        """Removes some unwanted conjunctions from the index and this broker's filter; returns the filter's change.

        Not all at once: a departing client with many subscriptions would keep everybody waiting. Meanwhile the broker
        gets messages that it has no use for.
        """
        room = _END_AT_ONCE
        while self._ending and room > 0:
            connection, number, subscription = self._ending.popleft()
            self._subscribers.remove(subscription.key)
            self._tracker.detach(connection, number)
            room -= max(1, len(subscription.selector.conjunctions))
        some = [self._unwanted.popleft() for _ in range(min(_LET_GO_AT_ONCE, len(self._unwanted)))]
        self._let_go_ms = None
        if self._unwanted or self._ending:
            self._let_go_ms = now_ms + 1
            self.due.by(self._let_go_ms)
        return self._filters.let_go(some)

    def confirm(self, connection: int, number: int, pending: tuple[str, ...]) -> None:
        """Tells a client that its subscription is in force."""
        peer = self._connections.peers.get(connection)
        subscription = guest_of(peer).subscriptions.get(number) if peer else None
        if peer and subscription:
            subscription.is_confirmed = True
            hosted = self._hosted.get(subscription.key)
            starts = tuple(hosted.starts.items()) if hosted else ()
            unbegun = (*self._guaranteed.pending(hosted), *self._guaranteed.missing(hosted)) if hosted else ()
            pending = tuple(dict.fromkeys((*pending, *unbegun)))
            granted = hosted.selector if hosted else str(subscription.selector)
            self._connections.say(peer, Subscribed(number, granted, pending, starts))

    def confirm_ready(self, awaited: list[str], out_of_reach: list[str], *, now_ms: int) -> None:
        """Tells clients of the subscriptions that need not wait any longer."""

        def has_begun(waiting: Waiting) -> bool:
            return self.has_begun(waiting, out_of_reach)

        ready = self._readiness.take_ready(awaited, now_ms=now_ms, has_begun=has_begun)
        if self._readiness.has_narrowed:
            known = self._topology.pubends()

            def awaited_by(waiting: Waiting) -> list[str]:
                # What is behind a broker that was never met concerns only those who want pubends that are not known.
                misses = any(pubend not in known for pubend in waiting.pubends)
                return [each for each in awaited if each in waiting.pubends or (misses and each not in known)]

            ready += self._readiness.take_ready_narrowed(awaited_by, now_ms=now_ms, has_begun=has_begun)
        for waiting, pending in ready:
            away = [each for each in out_of_reach if is_wanted(each, waiting.pubends)]
            self.confirm(waiting.connection, waiting.number, (*pending, *away))

    def has_begun(self, waiting: Waiting, out_of_reach: list[str]) -> bool:
        """Whether a subscription has begun on all guaranteed pubends that can be reached."""
        peer = self._connections.peers.get(waiting.connection)
        subscription = guest_of(peer).subscriptions.get(waiting.number) if peer else None
        hosted = self._hosted.get(subscription.key) if subscription else None
        return hosted is None or all(pubend in out_of_reach for pubend in self._guaranteed.pending(hosted))

    def tell_begun(self, begun: Iterable[HostSubscription]) -> None:
        """Tells clients of the pubends on which subscriptions have begun since they were confirmed."""
        for hosted in begun:
            peer = self._connections.peers.get(hosted.connection)
            subscription = guest_of(peer).subscriptions.get(hosted.number) if peer else None
            if peer is None or subscription is None or subscription.key != hosted.key:
                continue
            self._positions.begin(peer, hosted)
            self._tracker.start(hosted.connection, hosted.number, hosted.starts)
            if subscription.is_confirmed:
                self.confirm(hosted.connection, hosted.number, ())

    def succeed(self, peer: Peer) -> Peer | None:
        """Registers the publisher of an admitted client; returns its former connection, if it still seems to exist."""
        publisher = guest_of(peer).publisher_id
        if not publisher:
            return None
        former = self._recognised.get(publisher)
        self._recognised[publisher] = peer
        return former

    def _remove(self, subscription: Subscription, now_ms: int) -> None:
        self._subscribers.remove(subscription.key)
        self._guaranteed.unsubscribe([subscription.key], now_ms=now_ms)

    def _to_host(self, connection: int, key: int, version: int, frame: Subscribe, now_ms: int) -> HostSubscription:
        return HostSubscription(
            key,
            connection,
            frame.number,
            version,
            dict(frame.positions),
            resumes=frame.resumes,
            otherwise=frame.otherwise,
            missing=frame.missing,
            durable=frame.durable,
            ownership=self._guaranteed.claims.next(now_ms=now_ms) if frame.durable else 0,
            pubends=frame.pubends,
        )

    def forget(self, peer: Peer, frame: Forget, *, now_ms: int) -> None:
        """Forgets a durable subscription for a client, or refuses to."""
        if guest_of(peer).rule.subscribe is None:
            self.refuse(peer, "forget", frame.number, f"client {guest_of(peer).client} may not subscribe")
            return
        by = self._claimant(guest_of(peer), frame.durable)
        if self._guaranteed.forgetting(peer.connection, by.client) >= _FORGETTING_MAX:
            problem = f"{_FORGETTING_MAX} requests to forget are under way, which is the limit of one client"
            self.refuse(peer, "forget", frame.number, problem)
            return
        if not is_durable_name(frame.durable):
            self.refuse(peer, "forget", frame.number, f"there is no durable subscription {frame.durable!r}")
            return
        pubends = self._guaranteed.known()
        if frame.pubends:
            unknown = [pubend for pubend in frame.pubends if pubend not in pubends]
            if unknown:
                self.refuse(peer, "forget", frame.number, self._no_such_pubend(unknown[0]))
                return
            pubends = list(frame.pubends)
        self._guaranteed.forget_durable(peer.connection, frame.number, frame.durable, pubends, by, now_ms=now_ms)

    def list_durables(self, peer: Peer, frame: DurablesRequest, *, now_ms: int) -> None:
        """Asks a pubend which durable subscriptions it keeps, for a client, or refuses to."""
        guest = guest_of(peer)
        problem = ""
        if guest.rule.subscribe is None:
            problem = f"client {guest.client} may not subscribe"
        elif not self._guaranteed.knows(frame.pubend):
            problem = self._no_such_pubend(frame.pubend)
        elif not 0 <= frame.number < _LISTING_MAX:
            problem = f"request number {frame.number} has more than 30 bits"
        elif any(name and not is_durable_name(name) for name in (frame.after, frame.durable)):
            problem = "that is not the name of a durable subscription"
        if problem:
            self.refuse(peer, "durables", frame.number, problem)
            return
        by = "" if self._settings.access.is_open else guest.client
        self._guaranteed.list_durables(
            peer.connection, frame.number, frame.pubend, frame.after, frame.durable, by, now_ms=now_ms
        )

    def tell_interest(self, peer: Peer, frame: InterestRequest) -> None:
        """Tells a client whether it is certain that nobody wants a message that it may publish."""
        (attributes,) = take_in([frame.body])
        allowed = guest_of(peer).rule.publish
        # Nobody is to find out what others want by asking about messages that they may not publish.
        may_ask = allowed is not None and allowed.matches(attributes)
        is_nobody = may_ask and self._knows_all_filters() and not self._is_wanted(attributes, frame.pubend)
        self._connections.say(peer, InterestReply(frame.number, is_nobody))

    def _is_wanted(self, attributes: Attributes, pubend: str) -> bool:
        # A message to no pubend in particular may go to any.
        pubends = [pubend] if pubend else list(self._topology.pubends())
        return any(
            self._subscribers.are_interested(attributes, each) or self._filters.hosts_wanting(attributes, each)
            for each in pubends
        )

    def _knows_all_filters(self) -> bool:
        """Whether this broker has heard of every broker, and of what the clients of each want."""
        others = [name for name in self._settings.members if name != self._settings.name]
        return self._guaranteed.knows_all_pubends() and all(self._filters.version_of(name)[0] >= 0 for name in others)

    def _claimant(self, guest: Guest, durable: str) -> Claimant:
        return self._settings.access.claimant(guest.client, guest.rule, durable)

    def tell_settled(self, settled: Iterable[Settled]) -> None:
        """Answers requests to forget that all pubends have answered, or that timed out."""
        for request in settled:
            peer = self._connections.peers.get(request.connection)
            if peer is None:
                continue
            if request.problem:
                self.refuse(peer, "forget", request.number, request.problem)
            elif request.existed or request.pending:
                self._connections.say(peer, Forgotten(request.number, request.pending))
            else:
                self.refuse(peer, "forget", request.number, f"there is no durable subscription {request.name!r}")

    def _publisher_number(self, publisher: bytes) -> int:
        """Returns the number for a publisher's message identifiers: the same each time, if it can be recognised."""
        if not publisher:
            self._publishers = (self._publishers + 1) % _NUMBER_MAX
            return self._publishers
        number = first_number(publisher)
        while self._taken.get(number, publisher) != publisher:
            number = (number + 1) % _NUMBER_MAX
        self._taken[number] = publisher
        if len(self._taken) > _RECOGNISED_MAX:
            del self._taken[next(iter(self._taken))]
        return number

    def _selector(self, guest: Guest, frame: Subscribe) -> tuple[str, _Asked | None]:
        if not 0 <= frame.number < _NUMBER_MAX:
            return f"subscription number {frame.number} has more than 32 bits", None
        if frame.number in guest.subscriptions:
            return f"subscription {frame.number} exists already", None
        if guest.rule.subscribe is None:
            return f"client {guest.client} may not subscribe", None
        if problem := _problem_with_pubends(frame) or self._problem_with_positions(frame):
            return problem, None
        if frame.durable and not is_durable_name(frame.durable):
            return f"durable name {frame.durable!r} is not 1 to 200 letters, digits, - _ . : or /", None
        # Checked before parsing, and again when the canonical form is known, which may be longer.
        if problem := self._accounts.problem(guest.account, len(frame.positions), _selector_bytes(frame)):
            return problem, None
        if len(self._subscribers) >= self._settings.subscriptions_max:
            return f"this broker has {self._settings.subscriptions_max:,} subscriptions, which is its limit", None
        problem, selector = self._selecting.select(guest, frame.selector)
        if selector is None:
            return problem, None
        try:
            within = narrowed(selector, frame.pubends)
        except SelectorError as error:
            return str(error), None
        size = _selector_bytes(frame, within)
        problem = self._accounts.problem(guest.account, len(frame.positions), size, effort_in_index(within))
        return problem, None if problem else _Asked(selector, within)

    def _problem_with_positions(self, frame: Subscribe) -> str:
        """Says why a client cannot begin where it wants to; a client that comes back is believed."""
        if frame.resumes or not frame.positions or not self._guaranteed.knows_all():
            return ""
        unknown = [pubend for pubend, _ in frame.positions if not self._guaranteed.knows(pubend)]
        if not unknown:
            return ""
        return self._no_such_pubend(unknown[0])

    def _no_such_pubend(self, pubend: str) -> str:
        known = ", ".join(self._guaranteed.known()) or "none"
        return f"no guaranteed pubend {pubend!r} in this overlay; there are: {known}"

    def refuse(self, peer: Peer, request: str, number: int, reason: str, count: int = 1, pubend: str = "") -> None:
        """Tells a client that a request was refused; for messages to a pubend, how many from that number on."""
        self.refused += count
        self._connections.say(peer, Refused(request, number, shortened(reason), count, pubend))

    def tell_places(self) -> None:
        """Tells clients which pubends of the overlay have come, gone or changed, if any."""
        before, self._places = self._places, {place[0]: place for place in self._places_elsewhere()}
        was_complete, self._are_complete = self._are_complete, self._guaranteed.knows_all_pubends()
        added = tuple(place for name, place in self._places.items() if before.get(name) != place)
        gone = tuple(name for name in before if name not in self._places)
        if added or gone or was_complete != self._are_complete:
            frame = PubendPlaces(added, gone, self._are_complete)
            for peer in self._connections.peers.values():
                if peer.kind is PeerKind.CLIENT:
                    self._connections.say(peer, frame)

    def _places_elsewhere(self) -> tuple[tuple[str, str, bool], ...]:
        """The pubends of other brokers."""
        known = self._topology.pubends().items()
        return tuple((name, *place) for name, place in known if name not in self._settings.pubends)


class _Asked(NamedTuple):
    """What a client subscribes to."""

    selector: Selector
    """Its selector, narrowed to what it may see."""
    narrowed: Selector
    """The same, narrowed to the pubends that it names: what the rest of the overlay is told."""


class Selecting:
    """Narrows what the clients of one broker ask for."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._narrowed: BoundedCache[tuple[str, Selector], Selector] = BoundedCache(_NARROWED_CHARS_MAX)

    def select(self, guest: Guest, text: str) -> tuple[str, Selector | None]:
        """Returns why a client may not select that, or an empty string and the part that it may see."""
        allowed = guest.rule.subscribe
        assert allowed is not None, "a client that may not subscribe is not asked for what"
        try:
            selector = Selector.parse(text)
            if PUBEND in text and names_pubends(selector.conjunctions):
                return f"{PUBEND} is not an attribute of messages: name pubends beside the selector, not in it", None
            if RESERVED_PREFIX in text and not self._may_see_system(guest) and _selects_system(selector):
                return f"client {guest.client} may not select on reserved attributes ({RESERVED_PREFIX})", None
            return "", selector if allowed == EVERYTHING else self._within(text, selector, allowed)
        except SelectorError as error:
            return str(error), None

    def _may_see_system(self, guest: Guest) -> bool:
        return self._settings.access.is_open or guest.rule.status

    def _within(self, text: str, selector: Selector, allowed: Selector) -> Selector:
        # Clients ask for the same things again and again, above all after a reconnect.
        narrowed = self._narrowed.get((text, allowed))
        if narrowed is None:
            narrowed = selector & allowed
            self._narrowed.put((text, allowed), narrowed, len(text) + len(str(narrowed)))
        return narrowed


def _problem_with_pubends(frame: Subscribe) -> str:
    """Says why a subscription cannot be to these pubends; empty if it can."""
    pubends = dict.fromkeys(frame.pubends)
    if len(pubends) < len(frame.pubends):
        return "a subscription names a pubend twice"
    wrong = [pubend for pubend in pubends if not is_plain_name(pubend)]
    if wrong:
        return f"pubend {wrong[0]!r} is not 1 to 100 letters, digits, - _ or ."
    strange = [pubend for pubend, _ in frame.positions if not is_wanted(pubend, frame.pubends)]
    return f"a subscription that does not want pubend {strange[0]!r} states where it begins there" if strange else ""


def _selector_bytes(frame: Subscribe, selector: Selector | None = None) -> int:
    """The size that a selector counts as: as sent or as kept, whichever is longer."""
    return max(len(frame.selector.encode()), len(str(selector).encode()) if selector is not None else 0)


def _bound(client: str, publisher: bytes) -> bytes:
    """A publisher's identity, bound to its client; empty for a client that states none."""
    return blake2b(client.encode() + b"\0" + publisher, digest_size=16).digest() if publisher else b""


def _selects_system(selector: Selector) -> bool:
    return any(map(is_reserved, selector.conjunctions))
