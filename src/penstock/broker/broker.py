"""The broker: stimuli in, effects out, deadlines owned inside, no I/O.

It composes the rooms and only decides which of them handles what: the desk serves clients, the topology and the filters
spread what all brokers must know, the router carries messages, mechanisms add what the papers describe. Two shells run
it: ``live`` with sockets and clocks, ``sim`` in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.ajil.settings import LimitSettings
from penstock.balancing.metrics import HostFigures
from penstock.broker.clients.admission import Admission
from penstock.broker.clients.desk import Desk
from penstock.broker.clients.intake import CREDIT_CHECK_MS, Intake
from penstock.broker.clients.log_desk import LogDesk
from penstock.broker.clients.strangers import Strangers
from penstock.broker.clients.trace_desk import TraceDesk
from penstock.broker.clients.viewing import View
from penstock.broker.clients.visitors import Visitors
from penstock.broker.connections import Connections
from penstock.broker.due import Due, Dues
from penstock.broker.durable import Recovered
from penstock.broker.effects import Effect
from penstock.broker.figures import Beside, Figures, Sources
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.handlers import (
    Handler,
    carry_handlers,
    client_handlers,
    link_handlers,
    only,
    stream_handlers,
    trace_handlers,
    work_handlers,
)
from penstock.broker.host.readiness import Readiness
from penstock.broker.mechanisms.congestion import Congestion
from penstock.broker.mechanisms.interface import Mechanism
from penstock.broker.mechanisms.limiter import Limiter
from penstock.broker.mechanisms.migration import Migrations
from penstock.broker.mechanisms.operating import Operation, Operator
from penstock.broker.mechanisms.own import OwnMechanisms
from penstock.broker.neighbours.membership import Membership
from penstock.broker.neighbours.neighbourhood import Neighbourhood
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Farewell, Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings
from penstock.broker.work_desk import WorkDesk
from penstock.model.errors import PeerError
from penstock.model.ports import Rng
from penstock.model.tick import TickRange
from penstock.protocol import frames as f
from penstock.protocol.errors import ProtocolError
from penstock.protocol.status import BrokerStatus

__all__ = ["Broker"]


class Broker:
    """One broker of an overlay."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        incarnation: int,
        rng: Rng,
        mechanisms: Sequence[Mechanism] = (),
        recovered: Recovered | None = None,
        stopwatch: Callable[[], int] | None = None,
        beside: Beside | None = None,
    ) -> None:
        """The stopwatch counts nanoseconds; without one, matching is not timed. ``beside`` is for the status alone."""
        recovered = recovered or Recovered()
        rooms = Rooms(settings, incarnation=incarnation, kept=recovered.kept, stopwatch=stopwatch)
        self.settings = rooms.settings
        self.rooms = rooms
        self._connections = rooms.connections
        self._topology = rooms.topology
        self._filters = rooms.filters
        self._subscribers = rooms.subscribers
        self._router = rooms.router
        self._tracker = rooms.tracker
        self._strangers = Strangers(rooms.settings)
        self._readiness = Readiness(wait_ms=settings.subscribe_wait_ms)
        self._guaranteed = Guaranteed(rooms, rng, recovered)
        self._desk = Desk(rooms, self._readiness, self._guaranteed, incarnation=incarnation)
        self._trace_desk = TraceDesk(rooms, rooms.tracker, refuse=self._desk.refuse)
        self._log_desk = LogDesk(
            rooms,
            self._guaranteed.logs,
            self._guaranteed.compaction.views,
            refuse=self._desk.refuse,
        )
        carrier = self._guaranteed.carrier
        edges = self._guaranteed.edges
        told = self._guaranteed.positions.tell_to
        self._congestion = Congestion(rooms, self._guaranteed.logs, edges, carrier)
        limiter = Limiter(settings.name, settings.limit or LimitSettings(), rng=rng)
        self._intake = Intake(rooms, self._guaranteed, self._congestion, limiter, refuse=self._desk.refuse)
        self._visitors = Visitors(rooms, self._intake)
        self._neighbourhood = Neighbourhood(rooms, self._readiness, self._guaranteed, incarnation=incarnation, rng=rng)
        self._membership = Membership(rooms, self._neighbourhood)
        self.migrations = Migrations(rooms, edges, release=self._release, end=self._end, tell=told)
        self._operator = Operator(rooms, self.migrations)
        self._mechanisms = OwnMechanisms(
            rooms,
            mechanisms,
            self._guaranteed,
            limiter,
            self.migrations,
            self._neighbourhood,
            life=incarnation,
            rng=rng,
        )
        self.balancing = self._mechanisms.balancing
        if edges.subscriptions:
            self._readiness.need(rooms.filters.version)
        self._figures = self._gathered(rooms, incarnation)
        self._figures.beside = beside
        self._beat_ms: int | None = None
        self._beat = Due(lambda: self._beat_ms)
        self._credit_ms: int | None = None
        self._credit = Due(lambda: self._credit_ms)
        self._dues = Dues(
            (
                self._beat,
                self._credit,
                self._readiness.due,
                self._intake.due,
                self._intake.carrying.due,
                *self._guaranteed.dues(),
                self._congestion.due,
                self._log_desk.due,
                self._trace_desk.due,
                self._tracker.due,
                self.migrations.due,
                self._operator.due,
                self._strangers.due,
                self._desk.due,
                self._neighbourhood.due,
                rooms.memory.due,
            )
        )
        self._subscribed = False
        self._ways = (-1, -1)
        """What the topology and the links were like at the end of the last turn."""
        self.malformed = 0
        self._handlers = self._all_handlers(rooms)

    def _all_handlers(self, rooms: Rooms) -> dict[type, Handler]:
        asked_by_clients = (self._guaranteed, self._log_desk, self.migrations)
        admission = Admission(
            self.settings.name,
            self._strangers,
            self._desk,
            self._neighbourhood,
            is_draining=lambda: self._operator.is_draining,
            link_up=self._link_up,
            end=self._end_all,
        )
        return {
            f.Hello: admission.on_hello,
            f.LinkProof: only(PeerKind.STRANGER, admission.on_proof),
            f.Heartbeat: lambda peer, _frame, _now_ms: self._strangers.on_heartbeat(peer),
            f.Goodbye: lambda peer, _frame, now_ms: self._forget(peer, now_ms, told=True),
            f.Subscribe: only(PeerKind.CLIENT, self._on_subscribe),
            f.StatusRequest: only(PeerKind.CLIENT, View(rooms, self._figures, self._guaranteed).on_request),
            **link_handlers(self._neighbourhood, self._router, self._mechanisms),
            f.LinkState: only(PeerKind.LINK, self._on_link_state),
            **stream_handlers(self._guaranteed, self._log_desk, self._congestion, self._router),
            **carry_handlers(self._intake, self._visitors, self._guaranteed.work, self._router),
            **trace_handlers(self._trace_desk, self._router),
            **work_handlers(self._guaranteed.work, self._router),
            f.Join: only(PeerKind.CLIENT, self._on_join),
            f.Unsubscribe: only(PeerKind.CLIENT, self._on_unsubscribe),
            **client_handlers(self._desk, self._intake, *asked_by_clients),
        }

    def _gathered(self, rooms: Rooms, incarnation: int) -> Figures:
        sources = Sources(
            counts=(
                lambda: self._router.counts,
                self._guaranteed.counts,
                lambda: self._log_desk.counts,
                lambda: self._congestion.counts,
                lambda: self._trace_desk.counts,
                lambda: self._intake.counts,
                lambda: self._intake.carrying.counts,
                lambda: self._visitors.counts,
            ),
            malformed=lambda: self.malformed,
            refused=lambda: self._desk.refused,
            guaranteed=self._guaranteed.status,
            congestion=self._congestion.status,
            tracking=self._tracker.status,
            migration=self._operator.status,
            mechanisms=self._mechanisms.status,
        )
        return Figures(rooms, sources, incarnation=incarnation)

    # --- stimuli

    def connect(
        self,
        connection: int,
        *,
        now_ms: int,
        dialled: str = "",
        certificate: str = "",
        source: str = "",
        is_movable: bool = True,
    ) -> list[Effect]:
        """A transport was opened: to the neighbour that was dialled, or from a peer that has yet to say who it is.

        A client that is not movable is never asked to move but by a drain, and then it ends the connection.
        """
        self._guaranteed.begin_turn(now_ms=now_ms)
        peer = self._connections.open(connection, dialled=dialled, certificate=certificate, now_ms=now_ms)
        peer.source, peer.is_movable = source, is_movable
        if self._beat_ms is None:
            self._beat_ms = now_ms + self.settings.heartbeat_ms
            self._beat.by(self._beat_ms)
        limit = self.settings.connections_max
        if len(self._connections.peers) > limit:
            self._end(peer, "full", f"this broker has its limit of {limit:,} connections", now_ms)
        elif dialled:
            self._neighbourhood.say_hello(peer)
        else:
            self._end_all(self._strangers.enter(peer), now_ms)
        return self._finish(now_ms)

    def receive(self, connection: int, frames: list[f.Frame], *, now_ms: int) -> list[Effect]:
        """Handles frames in their order of arrival; a peer that breaks a rule loses its connection, and only that."""
        self.hear(connection, frames, now_ms=now_ms)
        return self._finish(now_ms)

    def hear(self, connection: int, frames: list[f.Frame], *, now_ms: int) -> None:
        """Handles frames like ``receive``, but leaves the effects to ``finish``, so that several can share its cost."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._handle(connection, frames, now_ms)

    def finish(self, *, now_ms: int) -> list[Effect]:
        """Returns the effects of everything heard since the last stimulus that returned effects."""
        return self._finish(now_ms)

    def _handle(self, connection: int, frames: list[f.Frame], now_ms: int) -> None:
        held = self._neighbourhood.held
        intake = self._intake
        for frame in frames:
            if intake.has_gathered and type(frame) is not f.Publish:
                # In the order of arrival: whoever subscribes now must not get what was published before.
                intake.send_on(now_ms=now_ms)
            peer = self._connections.peers.get(connection)
            if peer is None:
                break
            if held and connection in held:
                held[connection].frames.append(frame)
                continue
            peer.heard_ms = now_ms
            try:
                handler = self._handlers.get(type(frame))
                if handler is None:
                    raise ProtocolError(f"brokers do not accept {type(frame).__name__} frames")
                handler(peer, frame, now_ms)
            except PeerError as error:
                self.malformed += 1
                self._end(peer, "protocol", str(error), now_ms)

    def progress(self, connection: int, unfinished_bytes: int, *, now_ms: int) -> None:
        """Part of a frame has arrived, the rest is still on its way; this only affects which peers count as silent."""
        self._connections.progress(connection, unfinished_bytes, now_ms=now_ms)

    def disconnect(self, connection: int, *, now_ms: int) -> list[Effect]:
        """A transport was lost."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        peer = self._connections.peers.get(connection)
        if peer is not None:
            self._forget(peer, now_ms)
        return self._finish(now_ms)

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> list[Effect]:
        """All commits up to this number are durable; or only their named values, while messages wait for space."""
        self._guaranteed.on_committed(number, now_ms=now_ms, values_only=values_only)
        if not values_only:
            self._intake.on_committed(number, now_ms=now_ms)
        return self._finish(now_ms)

    def log_full(self, reason: str, *, now_ms: int) -> list[Effect]:
        """The oldest commit must wait for space; the shell retries until it can call ``committed``."""
        self._guaranteed.on_full(reason)
        self._intake.hold_back(reason)
        return self._finish(now_ms)

    def log_read(
        self,
        number: int,
        messages: list[tuple[int, bytes]],
        last: int,
        *,
        now_ms: int,
        damaged: TickRange | None = None,
    ) -> list[Effect]:
        """A read has ended: these are all messages from the first requested tick up to ``last``.

        ``last`` may lie beyond the last requested tick, if there is nothing in between. The damaged ticks follow
        right after it, and cannot be read.
        """
        if not self._log_desk.on_read(number, messages, last, damaged, now_ms=now_ms):
            self._guaranteed.on_read(number, messages, last, damaged, now_ms=now_ms)
        return self._finish(now_ms)

    def kept_read(self, number: int, values: dict[str, bytes | None], *, now_ms: int) -> list[Effect]:
        """Kept records were read, by name: None for each that is missing or damaged; names left out did not fit."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._trace_desk.on_kept_read(number, values, now_ms=now_ms)
        return self._finish(now_ms)

    def apply(self, settings: BrokerSettings, *, now_ms: int) -> list[Effect]:
        """Applies changed settings; if they need a restart, raises ``SettingsError`` and changes nothing."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._end_all(self._membership.apply(settings), now_ms)
        self._congestion.tune(now_ms=now_ms)
        self._intake.tune(now_ms=now_ms)
        self._guaranteed.work.tune(now_ms=now_ms)
        self._mechanisms.tune(now_ms=now_ms)
        self._membership.sweep()
        self._readiness.stir(now_ms=now_ms)
        return self._finish(now_ms)

    def operate(self, operation: Operation, *, now_ms: int) -> list[Effect]:
        """Carries out an operator's request; raises ``MisuseError``, and does nothing, if it is impossible."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._operator.carry_out(operation, now_ms=now_ms)
        return self._finish(now_ms)

    def retire(self, names: Sequence[str], *, now_ms: int) -> list[Effect]:
        """Filters with these names are stored elsewhere for good: drops them as far as they are the oldest."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._tracker.retire(names)
        return self._finish(now_ms)

    def operated(self, fence: str, *, now_ms: int) -> list[Effect]:
        """The heavy work that an ``Operate`` allowed is done."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._mechanisms.operated(fence, now_ms=now_ms)
        return self._finish(now_ms)

    def measured(self, figures: HostFigures, *, now_ms: int) -> list[Effect]:
        """The shell has measured the machine, as it does about every ``balancing.measure_ms``."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        self._mechanisms.measured(figures, now_ms=now_ms)
        return self._finish(now_ms)

    def next_deadline(self) -> int | None:
        """When this broker must be woken, if nothing happens before."""
        # Mechanisms are asked each time: any event may change their deadlines.
        own_ms = self._dues.next()
        wished_ms = self._mechanisms.next_deadline()
        if own_ms is None or wished_ms is None:
            return wished_ms if own_ms is None else own_ms
        return min(own_ms, wished_ms)

    def may_be_due_before(self, time_ms: int) -> bool:
        """Whether the next deadline may be earlier than this; cheaper to ask than the deadline itself."""
        if self._dues.bound_ms < time_ms:
            return True
        wished_ms = self._mechanisms.next_deadline()
        return wished_ms is not None and wished_ms < time_ms

    def on_deadline(self, *, now_ms: int) -> list[Effect]:
        """Does what is due: heartbeats, silent peers, probes, credit, mechanisms."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        if self._beat_ms is not None and now_ms >= self._beat_ms:
            self._beat_ms = now_ms + self.settings.heartbeat_ms if self._connections.peers else None
            for peer in self._connections.beat(now_ms=now_ms):
                self._end(peer, "silent", "the peer was silent for too long", now_ms)
            self._end_all(self._connections.too_slow(now_ms=now_ms), now_ms)
            self._membership.sweep()
        self._end_all(self._strangers.on_deadline(now_ms=now_ms), now_ms)
        self._neighbourhood.flood(self._desk.let_go(now_ms=now_ms))
        for resumed in self._neighbourhood.on_deadline(now_ms=now_ms):
            self._handle(resumed.peer.connection, resumed.frames, now_ms)
        self._intake.on_deadline(now_ms=now_ms)
        # A query that overtook the silence announced in this turn would make all hosts look that much behind.
        self._intake.before_rates()
        self._congestion.on_deadline(now_ms=now_ms)
        self._guaranteed.on_deadline(now_ms=now_ms)
        self._log_desk.on_deadline(now_ms=now_ms)
        self._trace_desk.on_deadline(now_ms=now_ms)
        self._tracker.on_deadline()
        self.migrations.on_deadline(now_ms=now_ms)
        self._operator.on_deadline(now_ms=now_ms)
        self.rooms.memory.on_deadline(now_ms=now_ms)
        if self._readiness.is_time_to_retry(now_ms=now_ms):
            self._neighbourhood.probe()
        self._mechanisms.on_deadline(now_ms=now_ms)
        return self._finish(now_ms)

    def shutdown(self, *, now_ms: int) -> list[Effect]:
        """Shuts down in an orderly way, and tells all peers."""
        self._guaranteed.begin_turn(now_ms=now_ms)
        # Before anything is acknowledged, and anybody leaves.
        self._intake.send_on(now_ms=now_ms)
        self._intake.acknowledge_all()
        # Links last: they carry the positions of durable subscriptions that are reported when their clients leave.
        leaving = sorted(self._connections.peers.values(), key=lambda peer: peer.kind is PeerKind.LINK)
        for peer in leaving:
            self._end(peer, "shutdown", f"broker {self.settings.name} stops", now_ms)
        self._guaranteed.keep_positions()
        self._tracker.stop()
        return self._guaranteed.take_effects(now_ms=now_ms) + self._connections.take_effects()

    # --- for the shell

    @property
    def work(self) -> WorkDesk:
        """Its part in work queues, for tests."""
        return self._guaranteed.work

    @property
    def connections(self) -> Connections:
        """The connected peers, for tests."""
        return self._connections

    def knows(self, connection: int) -> bool:
        """Whether the other end has authenticated."""
        return self._connections.knows(connection)

    def outbox(self, connection: int) -> Outbox:
        """The frames queued for a connection."""
        return self._connections.outbox(connection)

    def status(self) -> BrokerStatus:
        """The broker's status, in figures."""
        return self._figures.status()

    def check_invariants(self) -> None:
        """Fails if the rooms contradict each other."""
        for part in (self._topology, self._filters, self._subscribers, self._guaranteed, self._congestion):
            part.check_invariants()
        self._intake.carrying.check_invariants()
        for peer in self._connections.peers.values():
            peer.outbox.check_invariants()
        self._dues.check()

    # --- arrivals, and requests that concern several rooms

    def _link_up(self, peer: Peer, name: str, now_ms: int) -> None:
        former = self._connections.links.get(name)
        if former is not None:
            # The neighbour knows that the old connection is dead before we do.
            self._end(former, "replaced", f"replaced by a new connection from broker {name}", now_ms)
        self._neighbourhood.link_up(peer, name)
        self._tracker.on_neighbour(name, up=True)
        self._mechanisms.on_neighbour(name, up=True, now_ms=now_ms)

    def _on_link_state(self, peer: Peer, frame: f.LinkState, now_ms: int) -> None:
        self._neighbourhood.on_link_state(peer, frame, now_ms=now_ms)
        self._end_all(self._neighbourhood.take_former(), now_ms)

    def _on_subscribe(self, peer: Peer, frame: f.Subscribe, now_ms: int) -> None:
        self._neighbourhood.flood(self._desk.subscribe(peer, frame, now_ms=now_ms))
        self._subscribed = True

    def _on_unsubscribe(self, peer: Peer, frame: f.Unsubscribe, now_ms: int) -> None:
        work = self._guaranteed.work
        if work.host.has(peer.connection, frame.number):
            work.unsubscribe(peer, frame.number, now_ms=now_ms)
        else:
            self._neighbourhood.flood(self._desk.unsubscribe(peer, frame, now_ms=now_ms))

    def _on_join(self, peer: Peer, frame: f.Join, now_ms: int) -> None:
        work = self._guaranteed.work
        problem = work.problem_with(peer, frame)
        selector = None
        if not problem:
            problem, selector = self._desk.select(peer, frame.selector)
        if selector is None:
            self._desk.refuse(peer, "subscribe", frame.number, problem)
        else:
            work.join(peer, frame, str(selector), now_ms=now_ms)

    # --- the end of connections, and of every stimulus

    def _end(self, peer: Peer, code: str, reason: str, now_ms: int) -> None:
        self._connections.close(peer, code, reason)
        self._forget(peer, now_ms)

    def _end_all(self, endings: list[Farewell], now_ms: int) -> None:
        for peer, code, reason in endings:
            self._end(peer, code, reason, now_ms)

    def _forget(self, peer: Peer, now_ms: int, *, told: bool = False) -> None:
        self._connections.forget(peer)
        self._strangers.leave(peer)
        self._neighbourhood.forget(peer)
        self._guaranteed.forget(peer)
        if told:
            self._connections.close_quietly(peer)
        if peer.kind is PeerKind.CLIENT:
            self._intake.leave(peer)
            # Not for good, even if it said goodbye: it may only look for a better connection. Members that leave for
            # good unsubscribe.
            self._guaranteed.work.leave(peer.connection, now_ms=now_ms)
            self._log_desk.forget(peer.connection)
            self._trace_desk.forget(peer.connection)
            self.migrations.forget(peer.connection)
            self._neighbourhood.flood(self._desk.leave(peer, now_ms=now_ms))
        elif peer.kind is PeerKind.LINK and peer.name not in self._connections.links:
            self._neighbourhood.link_down(peer.name)
            self._tracker.on_neighbour(peer.name, up=False)
            self._mechanisms.on_neighbour(peer.name, up=False, now_ms=now_ms)

    def _release(self, peer: Peer, now_ms: int) -> None:
        self._neighbourhood.flood(self._desk.release(peer, now_ms=now_ms))

    def _finish(self, now_ms: int) -> list[Effect]:
        self._intake.send_on(now_ms=now_ms)
        self._guaranteed.look(now_ms=now_ms)
        if self._guaranteed.beginnings.take_begun():
            self._intake.go_on(now_ms=now_ms)
        self._neighbourhood.tell_known()
        ways = (self._topology.version, self._connections.links_version)
        if ways != self._ways:
            self._ways = ways
            # Clients hear first what there is: some of them are then asked to publish again.
            self._desk.tell_places()
            self._intake.carrying.look(now_ms=now_ms)
            self._visitors.look()
            self._guaranteed.work.look(now_ms=now_ms)
            self.rooms.memory.look(now_ms=now_ms)
        if self._router.heard:
            self._mechanisms.hear(now_ms=now_ms)
        self._neighbourhood.acknowledge()
        for seat, problem in self._guaranteed.work.take_refused():
            peer = self._connections.peers.get(seat.connection)
            if peer is not None:
                self._desk.refuse(peer, "subscribe", seat.number, problem)
        news = self._guaranteed.take_news()
        if news is not None:
            # Refusals first: a subscription may have begun at one pubend and been refused by another.
            for refusal in news.refused:
                self._neighbourhood.flood(self._desk.refuse_late(refusal, now_ms=now_ms))
            self._desk.tell_settled(news.settled)
            self._desk.tell_begun(news.begun.values())
        if self._readiness.is_waiting:
            if self._subscribed:
                # Once per turn, however many subscriptions came in it.
                self._subscribed = False
                self._neighbourhood.probe()
            self._desk.confirm_ready(self._neighbourhood.awaited(), self._neighbourhood.out_of_reach(), now_ms=now_ms)
        if self._intake.give_credit():
            self._credit_ms = None
        else:
            self._credit_ms = now_ms + CREDIT_CHECK_MS
            self._credit.by(self._credit_ms)
        for peer in self._connections.take_overflowed():
            self._end(peer, "slow", "does not read what it is sent", now_ms)
        effects = self._guaranteed.take_effects(now_ms=now_ms)
        effects += self._log_desk.take_effects()
        effects += self._trace_desk.take_effects()
        effects += self._connections.take_effects()
        return effects
