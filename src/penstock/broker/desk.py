"""What clients ask of a broker: to be let in, to subscribe, to publish."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from penstock.broker.connections import Connections
from penstock.broker.errors import ProtocolError
from penstock.broker.filters import Filters, HostChange
from penstock.broker.frames import (
    PROTOCOL_VERSION,
    Hello,
    PubendNames,
    Publish,
    PublishAck,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.broker.peers import Peer, PeerKind, Session, Subscription
from penstock.broker.pubends import Pubends
from penstock.broker.readiness import Readiness
from penstock.broker.routing import Router
from penstock.broker.settings import BrokerSettings
from penstock.broker.subscribers import Subscribers
from penstock.model.body import decode_attributes
from penstock.model.errors import MisuseError
from penstock.model.message import Message
from penstock.model.values import AttributeValue
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["Desk"]

_NUMBER_MAX: Final = 2**32
_KNOWN_NAMES_MAX: Final = 10_000
"""Names of attributes that are remembered as good."""


class Desk:
    """Serves the clients of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        incarnation: int,
        connections: Connections,
        filters: Filters,
        subscribers: Subscribers,
        readiness: Readiness,
        router: Router,
        pubends: Pubends,
    ) -> None:
        self._settings = settings
        self._connections = connections
        self._filters = filters
        self._subscribers = subscribers
        self._readiness = readiness
        self._router = router
        self._pubends = pubends
        # Not from 1 at every start: the identifiers of a new life should not look like those of the last one.
        self._publishers = crc32(incarnation.to_bytes(8))
        self.refused = 0
        self._held: dict[int, None] = {}
        """Publishers to be acknowledged as soon as little enough waits to be sent."""
        self._later: dict[int, int] = {}
        """Publishers to be acknowledged at a time."""
        self._known_names: set[str] = set()

    def admit(self, peer: Peer, hello: Hello, *, now_ms: int) -> str | None:
        """Lets a client in, or says why not."""
        settings = self._settings
        if hello.overlay not in {"", settings.overlay}:
            return f"this is overlay {settings.overlay}, not {hello.overlay}"
        client = settings.access.identify(hello.name, hello.credential, peer.certificate)
        if client is None:
            return "authentication failed"
        self._publishers = (self._publishers + 1) % _NUMBER_MAX
        peer.kind, peer.name = PeerKind.CLIENT, client
        peer.session = Session(client, self._publishers, settings.access.rule_for(client))
        self._connections.say(
            peer,
            Welcome(
                PROTOCOL_VERSION,
                settings.name,
                settings.overlay,
                self._publishers,
                settings.number,
                now_ms,
                settings.heartbeat_ms,
                settings.credit_bytes,
                settings.pubends,
            ),
        )
        if self._pubends.numbered():
            self._connections.say(peer, PubendNames(self._pubends.numbered()))
        return None

    def subscribe(self, peer: Peer, frame: Subscribe, *, now_ms: int) -> HostChange | None:
        """A client wants messages; answers with the change of this broker's filter."""
        session = _session(peer)
        problem, selector = self._selector(session, frame)
        if selector is None:
            self._refuse(peer, "subscribe", frame.number, problem)
            return None
        key = self._subscribers.add(peer.connection, frame.number, selector)
        session.subscriptions[frame.number] = Subscription(key, selector)
        change = self._filters.want(selector)
        self._readiness.wait(peer.connection, frame.number, self._filters.version, now_ms=now_ms)
        return change

    def unsubscribe(self, peer: Peer, frame: Unsubscribe) -> HostChange | None:
        """A client wants no more; answers with the change of this broker's filter."""
        subscription = _session(peer).subscriptions.pop(frame.number, None)
        if subscription is None:
            self._refuse(peer, "unsubscribe", frame.number, f"there is no subscription {frame.number}")
            return None
        self._subscribers.remove(subscription.key)
        self._readiness.drop(peer.connection, frame.number)
        self._connections.say(peer, Unsubscribed(frame.number))
        return self._filters.unwant([subscription.selector])

    def leave(self, peer: Peer) -> HostChange | None:
        """A client has gone; answers with the change of this broker's filter."""
        session = _session(peer)
        self._readiness.drop(peer.connection)
        self._held.pop(peer.connection, None)
        self._later.pop(peer.connection, None)
        for subscription in session.subscriptions.values():
            self._subscribers.remove(subscription.key)
        return self._filters.unwant(each.selector for each in session.subscriptions.values())

    def confirm(self, connection: int, number: int, pending: tuple[str, ...]) -> None:
        """Tells a client that its subscription is in force."""
        peer = self._connections.peers.get(connection)
        subscription = _session(peer).subscriptions.get(number) if peer else None
        if peer and subscription:
            self._connections.say(peer, Subscribed(number, str(subscription.selector), pending))

    def publish(self, peer: Peer, frame: Publish, *, now_ms: int) -> None:
        """A client's messages: taken over or refused as a batch; acknowledged soon, or at once if there are none in it.

        An acknowledgement costs a write of its own. Nobody waits for it unless the window is getting small, or the
        client says so by an empty batch; so it can wait for others.
        """
        session = _session(peer)
        if frame.first != session.published + 1:
            raise ProtocolError(f"message {frame.first} follows {session.published}")
        if not frame.bodies:
            self._acknowledge_now(peer.connection)
            return
        session.published += len(frame.bodies)
        decoded = [decode_attributes(body) for body in frame.bodies]
        pubend = self._pubends.choose(frame.pubend, session.publisher)
        problem = self._problem(session, frame, pubend, decoded)
        if problem or pubend is None:
            self._refuse(peer, "publish", session.published, problem)
        else:
            self._router.publish(pubend, frame.bodies, decoded, now_ms=now_ms)
        session.withheld_bytes += sum(map(len, frame.bodies))
        if session.withheld_bytes >= self._settings.credit_bytes // 4:
            self._acknowledge_now(peer.connection)
        elif peer.connection not in self._later and peer.connection not in self._held:
            self._later[peer.connection] = now_ms + self._settings.acknowledge_ms

    def next_deadline(self) -> int | None:
        """When an acknowledgement has waited long enough; all wait equally long, so the first is the earliest."""
        return next(iter(self._later.values()), None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Gives the acknowledgements that have waited long enough."""
        for connection in [connection for connection, due_ms in self._later.items() if due_ms <= now_ms]:
            self._acknowledge_now(connection)

    def _acknowledge_now(self, connection: int) -> None:
        self._later.pop(connection, None)
        self._held[connection] = None

    def acknowledge_all(self) -> None:
        """Acknowledges everything that was taken over: the broker stops, and publishers should not think it lost."""
        for connection in list(self._later):
            self._acknowledge_now(connection)
        self._acknowledge_held()

    def give_credit(self) -> bool:
        """Acknowledges what was taken over, unless too much data waits to be sent; False while it does."""
        if not self._held:
            return True
        if self._connections.waiting_bytes() > self._settings.held_back_bytes:
            return False
        self._acknowledge_held()
        return True

    def _acknowledge_held(self) -> None:
        for connection in self._held:
            peer = self._connections.peers[connection]
            session = _session(peer)
            self._connections.say(peer, PublishAck(session.published, session.withheld_bytes))
            session.withheld_bytes = 0
        self._held = {}

    def _selector(self, session: Session, frame: Subscribe) -> tuple[str, Selector | None]:
        allowed = session.rule.subscribe
        if not 0 <= frame.number < _NUMBER_MAX:
            return f"subscription number {frame.number} has more than 32 bits", None
        if frame.number in session.subscriptions:
            return f"subscription {frame.number} exists already", None
        if allowed is None:
            return f"client {session.client} may not subscribe", None
        if len(self._subscribers) >= self._settings.subscriptions_max:
            return f"this broker has {self._settings.subscriptions_max:,} subscriptions, which is its limit", None
        try:
            selector = Selector.parse(frame.selector)
            return "", selector if allowed == EVERYTHING else selector & allowed
        except SelectorError as error:
            return str(error), None

    def _problem(
        self, session: Session, frame: Publish, pubend: str | None, decoded: list[dict[str, AttributeValue]]
    ) -> str:
        if pubend is None:
            known = ", ".join(self._pubends.names)
            return f"no pubend {frame.pubend!r} here, only {known}" if known else "this broker hosts no publishers"
        allowed = session.rule.publish
        if allowed is None:
            return f"client {session.client} may not publish"
        for attributes in decoded:
            for name in attributes:
                if name not in self._known_names and (problem := self._problem_with_name(name)):
                    return problem
            if allowed is not EVERYTHING and not allowed.matches(attributes):
                return f"client {session.client} may not publish this; it may publish: {allowed}"
        return ""

    def _problem_with_name(self, name: str) -> str:
        """Why no message may have an attribute of this name; names without a problem are remembered."""
        try:
            Message({name: None})
        except MisuseError as error:
            return str(error)
        if len(self._known_names) >= _KNOWN_NAMES_MAX:
            self._known_names.clear()
        self._known_names.add(name)
        return ""

    def _refuse(self, peer: Peer, request: str, number: int, reason: str) -> None:
        self.refused += 1
        self._connections.say(peer, Refused(request, number, reason))


def _session(peer: Peer) -> Session:
    assert peer.session is not None
    return peer.session
