"""The broker: stimuli in, effects out, deadlines owned inside, no I/O.

It composes the rooms around it and decides only who is asked what: the desk serves clients, the topology and the
filters spread what all brokers must know, the router carries messages, mechanisms add what the papers describe. Two
shells run it: ``live`` with sockets and clocks, ``sim`` in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from penstock.broker import frames as f
from penstock.broker.connections import Connections
from penstock.broker.desk import Desk
from penstock.broker.effects import Effect, Record
from penstock.broker.errors import ProtocolError
from penstock.broker.filters import Filters
from penstock.broker.mechanism import Answer, Mechanism, PublishSystem, Tell
from penstock.broker.neighbourhood import Neighbourhood
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.pubends import Pubends
from penstock.broker.readiness import Readiness
from penstock.broker.routing import Router
from penstock.broker.settings import BrokerSettings
from penstock.broker.subscribers import Subscribers
from penstock.broker.topology import Topology
from penstock.model.body import decode_attributes, encode_body
from penstock.model.errors import PeerError
from penstock.model.message_id import MessageIdSource
from penstock.model.ports import Rng

__all__ = ["Broker"]

_CREDIT_CHECK_MS: Final = 10
"""How often a broker that holds publishers back looks whether it may stop doing so."""


class Broker:
    """One broker of an overlay."""

    def __init__(
        self, settings: BrokerSettings, *, incarnation: int, rng: Rng, mechanisms: Sequence[Mechanism] = ()
    ) -> None:
        self.settings = settings
        self._incarnation = incarnation
        self._rng = rng
        self._connections = Connections(settings)
        self._topology = Topology(settings.name, incarnation=incarnation, pubends=settings.pubends)
        self._filters = Filters(settings.name, incarnation=incarnation)
        self._subscribers = Subscribers()
        self._pubends = Pubends(settings.pubends)
        self._readiness = Readiness(wait_ms=settings.subscribe_wait_ms)
        self._router = Router(
            settings.name, self._topology, self._filters, self._subscribers, self._pubends, self._connections
        )
        self._desk = Desk(
            settings,
            incarnation=incarnation,
            connections=self._connections,
            filters=self._filters,
            subscribers=self._subscribers,
            readiness=self._readiness,
            router=self._router,
            pubends=self._pubends,
        )
        self._neighbourhood = Neighbourhood(
            settings,
            incarnation=incarnation,
            connections=self._connections,
            topology=self._topology,
            filters=self._filters,
            router=self._router,
            readiness=self._readiness,
            pubends=self._pubends,
        )
        self._mechanisms: dict[str, Mechanism] = {}
        self._enlist(mechanisms)
        self._system_ids = MessageIdSource(publisher=0, broker=settings.number)
        self._beat_ms: int | None = None
        self._credit_ms: int | None = None
        self._subscribed = False
        self.malformed = 0
        self._handlers: dict[type, Callable[[Peer, Any, int], None]] = self._link_handlers() | self._client_handlers()

    # --- stimuli

    def connect(self, connection: int, *, now_ms: int, dialled: str = "", certificate: str = "") -> list[Effect]:
        """A transport exists: to the neighbour that was dialled, or from somebody who will say who it is."""
        peer = self._connections.open(connection, dialled=dialled, certificate=certificate, now_ms=now_ms)
        if self._beat_ms is None:
            self._beat_ms = now_ms + self.settings.heartbeat_ms
        if len(self._connections.peers) > self.settings.connections_max:
            self._end(
                peer, "full", f"this broker has its limit of {self.settings.connections_max:,} connections", now_ms
            )
        elif dialled:
            self._connections.say(peer, self._neighbourhood.hello())
        return self._finish(now_ms)

    def receive(self, connection: int, frames: list[f.Frame], *, now_ms: int) -> list[Effect]:
        """Frames have arrived, in this order; a peer that breaks a rule loses its connection, and only that."""
        for frame in frames:
            peer = self._connections.peers.get(connection)
            if peer is None:
                break
            peer.heard_ms = now_ms
            try:
                handler = self._handlers.get(type(frame))
                if handler is None:
                    raise ProtocolError(f"a {type(frame).__name__} is not for brokers")
                handler(peer, frame, now_ms)
            except PeerError as error:
                self.malformed += 1
                self._end(peer, "protocol", str(error), now_ms)
        return self._finish(now_ms)

    def disconnect(self, connection: int, *, now_ms: int) -> list[Effect]:
        """A transport is gone."""
        peer = self._connections.peers.get(connection)
        if peer is not None:
            self._forget(peer, now_ms)
        return self._finish(now_ms)

    def next_deadline(self) -> int | None:
        """When this broker wants to be woken, if nothing happens before."""
        wishes = [self._beat_ms, self._credit_ms, self._readiness.next_deadline(), self._desk.next_deadline()]
        if self._mechanisms:
            wishes += [each.next_deadline() for each in self._mechanisms.values()]
        return min([each for each in wishes if each is not None], default=None)

    def on_deadline(self, *, now_ms: int) -> list[Effect]:
        """It is time: heartbeats, silent peers, probes, credit, mechanisms."""
        if self._beat_ms is not None and now_ms >= self._beat_ms:
            self._beat_ms = now_ms + self.settings.heartbeat_ms if self._connections.peers else None
            for peer in self._connections.beat(now_ms=now_ms):
                self._end(peer, "silent", "nothing was heard for too long", now_ms)
        self._desk.on_deadline(now_ms=now_ms)
        if self._readiness.is_time_to_retry(now_ms=now_ms):
            self._neighbourhood.probe()
        for mechanism in self._mechanisms.values():
            due_ms = mechanism.next_deadline()
            if due_ms is not None and now_ms >= due_ms:
                self._carry_out(mechanism, mechanism.on_deadline(now_ms=now_ms), now_ms)
        return self._finish(now_ms)

    def shutdown(self, *, now_ms: int) -> list[Effect]:
        """An orderly end: everybody is told."""
        self._desk.acknowledge_all()
        for peer in list(self._connections.peers.values()):
            self._end(peer, "shutdown", f"broker {self.settings.name} stops", now_ms)
        return self._connections.take_effects()

    # --- for the shell

    def outbox(self, connection: int) -> Outbox:
        """What waits for a connection."""
        return self._connections.outbox(connection)

    def status(self) -> dict[str, Any]:
        """How the broker is, as figures."""
        connections = self._connections
        kinds = [peer.kind for peer in connections.peers.values()]
        return {
            "broker": self.settings.name,
            "overlay": self.settings.overlay,
            "incarnation": self._incarnation,
            "pubends": list(self.settings.pubends),
            "links": sorted(connections.links),
            "brokers": sorted(self._topology.graph()),
            "clients": kinds.count(PeerKind.CLIENT),
            "subscriptions": len(self._subscribers),
            "filters": self._filters.status(),
            "outbox_bytes": connections.waiting_bytes(),
            "dropped": dict(connections.dropped),
            "malformed": self.malformed,
            "refused": self._desk.refused,
            "counts": dict(self._router.counts),
            "mechanisms": {name: each.status() for name, each in self._mechanisms.items()},
        }

    def check_invariants(self) -> None:
        """Fails if the rooms contradict each other."""
        self._topology.check_invariants()
        self._filters.check_invariants()
        self._subscribers.check_invariants()
        for peer in self._connections.peers.values():
            peer.outbox.check_invariants()

    # --- who may say what

    def _link_handlers(self) -> dict[type, Callable[[Peer, Any, int], None]]:
        def for_links(handler: Callable[[Peer, Any, int], None]) -> Callable[[Peer, Any, int], None]:
            return _only(PeerKind.LINK, handler)

        neighbourhood = self._neighbourhood
        return {
            f.Hello: self._on_hello,
            f.Heartbeat: lambda _peer, _frame, _now_ms: None,
            f.Goodbye: lambda peer, _frame, now_ms: self._forget(peer, now_ms, told=True),
            f.LinkState: for_links(lambda peer, frame, _now_ms: neighbourhood.on_link_state(peer, frame)),
            f.FilterUpdate: for_links(lambda peer, frame, _now_ms: neighbourhood.on_filter_update(peer, frame)),
            f.FilterAck: for_links(lambda peer, frame, _now_ms: neighbourhood.on_filter_ack(peer, frame)),
            f.FilterProbe: for_links(lambda _peer, frame, _now_ms: neighbourhood.on_probe(frame)),
            f.FilterApplied: for_links(lambda _peer, frame, _now_ms: neighbourhood.on_applied(frame)),
            f.Forward: for_links(lambda peer, frame, _now_ms: self._router.forward(frame, peer.name)),
            f.MechanismMessage: for_links(self._on_mechanism_message),
        }

    def _client_handlers(self) -> dict[type, Callable[[Peer, Any, int], None]]:
        def for_clients(handler: Callable[[Peer, Any, int], None]) -> Callable[[Peer, Any, int], None]:
            return _only(PeerKind.CLIENT, handler)

        desk, flood = self._desk, self._neighbourhood.flood
        return {
            f.Publish: for_clients(lambda peer, frame, now_ms: desk.publish(peer, frame, now_ms=now_ms)),
            f.Subscribe: for_clients(self._on_subscribe),
            f.Unsubscribe: for_clients(lambda peer, frame, _now_ms: flood(desk.unsubscribe(peer, frame))),
            f.StatusRequest: for_clients(self._on_status_request),
        }

    # --- who comes, and what they ask that concerns several rooms

    def _on_hello(self, peer: Peer, hello: f.Hello, now_ms: int) -> None:
        if peer.kind is not PeerKind.STRANGER:
            raise ProtocolError("a second hello")
        problem: str | None
        if hello.version != f.PROTOCOL_VERSION:
            problem = f"protocol version {hello.version} is not {f.PROTOCOL_VERSION}"
        elif hello.role == "client" and not peer.dialled:
            problem = self._desk.admit(peer, hello, now_ms=now_ms)
        elif hello.role == "broker":
            problem = self._neighbourhood.problem_with(peer, hello)
            if problem is None:
                self._link_up(peer, hello.name, now_ms)
        else:
            problem = f"role {hello.role!r} is not expected here"
        if problem is not None:
            self._end(peer, "refused", problem, now_ms)

    def _link_up(self, peer: Peer, name: str, now_ms: int) -> None:
        former = self._connections.links.get(name)
        if former is not None:
            # The neighbour knows that the old connection is dead before we do.
            self._end(former, "replaced", f"broker {name} has connected anew", now_ms)
        self._neighbourhood.link_up(peer, name)
        for mechanism in self._mechanisms.values():
            self._carry_out(mechanism, mechanism.on_neighbour(name, up=True, now_ms=now_ms), now_ms)

    def _on_subscribe(self, peer: Peer, frame: f.Subscribe, now_ms: int) -> None:
        self._neighbourhood.flood(self._desk.subscribe(peer, frame, now_ms=now_ms))
        self._subscribed = True

    def _on_status_request(self, peer: Peer, frame: f.StatusRequest, _now_ms: int) -> None:
        self._connections.say(peer, f.StatusReply(frame.number, msgspec.json.encode(self.status())))

    # --- mechanisms

    def _on_mechanism_message(self, peer: Peer, frame: f.MechanismMessage, now_ms: int) -> None:
        mechanism = self._mechanisms.get(frame.mechanism)
        # A neighbour may run mechanisms that we do not.
        if mechanism is not None:
            self._carry_out(mechanism, mechanism.on_message(peer.name, frame.payload, now_ms=now_ms), now_ms)

    def _enlist(self, mechanisms: Sequence[Mechanism]) -> None:
        for place, mechanism in enumerate(mechanisms):
            self._mechanisms[mechanism.name] = mechanism
            if mechanism.selector is not None:
                # Connections of mechanisms are numbered downwards from -1: no shell ever sees them.
                self._subscribers.add(-1 - place, 0, mechanism.selector)
                self._filters.want(mechanism.selector)

    def _tell_mechanisms(self, now_ms: int) -> None:
        mechanisms = list(self._mechanisms.values())
        while self._router.heard:
            connection, body = self._router.heard.popleft()
            mechanism = mechanisms[-1 - connection]
            self._carry_out(mechanism, mechanism.on_publication(decode_attributes(body), body, now_ms=now_ms), now_ms)

    def _carry_out(self, mechanism: Mechanism, answers: list[Answer], now_ms: int) -> None:
        for answer in answers:
            if isinstance(answer, Tell):
                self._neighbourhood.say_to(answer.neighbour, f.MechanismMessage(mechanism.name, answer.payload))
            elif isinstance(answer, PublishSystem):
                body = encode_body(self._system_ids.next(now_ms), answer.message)
                self._router.publish(f"${self.settings.name}", [body], [decode_attributes(body)], now_ms=now_ms)
            else:
                assert isinstance(answer, Record)
                self._connections.record(answer.event, **dict(answer.fields))

    # --- the end of connections, and of every stimulus

    def _end(self, peer: Peer, code: str, reason: str, now_ms: int) -> None:
        self._connections.close(peer, code, reason)
        self._forget(peer, now_ms)

    def _forget(self, peer: Peer, now_ms: int, *, told: bool = False) -> None:
        self._connections.forget(peer)
        self._neighbourhood.forget(peer)
        if told:
            self._connections.close_quietly(peer)
        if peer.kind is PeerKind.CLIENT:
            self._neighbourhood.flood(self._desk.leave(peer))
        elif peer.kind is PeerKind.LINK and peer.name not in self._connections.links:
            self._neighbourhood.link_down(peer.name)
            for mechanism in self._mechanisms.values():
                self._carry_out(mechanism, mechanism.on_neighbour(peer.name, up=False, now_ms=now_ms), now_ms)

    def _confirm(self, now_ms: int) -> None:
        if self._subscribed:
            # Once per turn, however many subscriptions came in it.
            self._subscribed = False
            self._neighbourhood.probe()
        ready = self._readiness.take_ready(self._neighbourhood.awaited(), now_ms=now_ms)
        out_of_reach = tuple(self._neighbourhood.out_of_reach()) if ready else ()
        for waiting, pending in ready:
            self._desk.confirm(waiting.connection, waiting.number, pending + out_of_reach)

    def _finish(self, now_ms: int) -> list[Effect]:
        if self._router.heard:
            self._tell_mechanisms(now_ms)
        self._neighbourhood.acknowledge()
        if self._readiness.is_waiting:
            self._confirm(now_ms)
        self._credit_ms = None if self._desk.give_credit() else now_ms + _CREDIT_CHECK_MS
        for peer in self._connections.take_overflowed():
            self._end(peer, "slow", "does not read what it is sent", now_ms)
        return self._connections.take_effects()


def _only(kind: PeerKind, handler: Callable[[Peer, Any, int], None]) -> Callable[[Peer, Any, int], None]:
    def guarded(peer: Peer, frame: Any, now_ms: int) -> None:
        if peer.kind is not kind:
            raise ProtocolError(f"a {type(frame).__name__} from a {peer.kind.value}")
        handler(peer, frame, now_ms)

    return guarded
