"""Guaranteed delivery to this broker's own clients: an edge per pubend, subscriptions that begin, deliveries in order.

A subscription begins on a pubend when the pubend has confirmed the version of the filter that includes it: at the tick
that the pubend named, or at the position that the client stated. Only what lies below the doubt horizon of its stream
is delivered; so deliveries are in order and complete, whatever happened on the way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from penstock.broker.access import Claimant
from penstock.broker.due import Due
from penstock.broker.host.edge import CatchUp, Edge, HostSubscription
from penstock.broker.host.wishes import Begun, Doubt, OpenAt, Wish
from penstock.broker.rooms import Rooms
from penstock.broker.share import DELIVERY_EFFORT, MATCH_EFFORT, MESSAGE_EFFORT
from penstock.congestion.sdcc import NackGroup
from penstock.model.body import decode_attributes
from penstock.model.expiry import expired_places
from penstock.model.ports import Rng
from penstock.model.tick import TickRange
from penstock.model.values import AttributeValue
from penstock.protocol.control import NAMES_MAX
from penstock.protocol.frames import Deliver, KnowledgeKind, Lost, Nack
from penstock.protocol.stream_frames import NACK_RANGES_MAX
from penstock.selectors.effort import effort_of_bytes
from penstock.streams.knowledge import COMPLETE, Knowledge

__all__ = ["SURPRISE_MAX", "Edges"]

_CHUNK_BYTES_MAX: Final = 64 * 1024
SURPRISE_MAX: Final = 4
"""How many times its share a catch-up may take if its members want far more messages than they did before."""
_PENDING_MAX: Final = 100_000
"""Most messages that are counted as pending for one durable subscription and pubend."""
_PAUSE_MS: Final = 100
"""How long a catch-up waits for clients that do not read."""


class Edges:
    """The edges of one host."""

    def __init__(
        self,
        rooms: Rooms,
        rng: Rng,
    ) -> None:
        self._settings, self._rng = rooms.settings, rng
        self._filters = rooms.filters
        self._subscribers = rooms.subscribers
        self._connections = rooms.connections
        self._router = rooms.router
        self._share = rooms.share
        self._tracker = rooms.tracker
        self.edges: dict[str, Edge] = {}
        self.subscriptions: dict[int, HostSubscription] = {}
        self._wanting_all = 0
        """How many subscriptions want the messages of all pubends."""
        self._wanting: Counter[str] = Counter()
        """How many subscriptions name a pubend as one of those that they want."""
        self.durables: dict[tuple[int, int], HostSubscription] = {}
        """Durable subscriptions, by connection and the client's number."""
        self._paused_ms: int | None = None
        self.due = Due(self.next_deadline)
        self.sampling = Due(self.next_sample)
        """When to measure how far a doubt horizon has come."""
        self._turn = 0
        self._is_spent = False
        """Whether catch-ups have more to deliver than fits into one turn."""
        self._groups: dict[str, NackGroup] = {}
        self._chunk_bytes = max(1, min(_CHUNK_BYTES_MAX, self._settings.client_outbox_bytes // 8))
        """How much a catch-up delivers before it checks again whether its members have read what they got."""
        self._troubled: dict[str, Edge] = {}
        """Edges that have gaps, or had some when last checked."""
        self.counts = {
            "edge_deliveries": 0,
            "nacks_sent": 0,
            "catch_ups": 0,
            "catch_ups_met": 0,
            "catch_ups_paused": 0,
            "joined_at_once": 0,
            "old_silence_doubted": 0,
            "lost_ticks": 0,
        }

    # --- subscriptions

    def subscribe(self, subscription: HostSubscription, *, now_ms: int) -> list[Wish]:
        """Adds a client's subscription: it begins now where its version is confirmed, elsewhere later."""
        wishes: list[Wish] = []
        self.subscriptions[subscription.key] = subscription
        self._wanting_all += not subscription.pubends
        self._wanting.update(subscription.pubends)
        if subscription.durable:
            self.durables[subscription.connection, subscription.number] = subscription
        for edge in self._wanted_by(subscription):
            edge.expect(subscription)
            if edge.version >= subscription.version:
                wishes += (self._begin(edge, subscription, now_ms), Doubt(edge.pubend))
        return wishes

    def _wanted_by(self, subscription: HostSubscription) -> list[Edge]:
        return [edge for edge in self.edges.values() if subscription.wants(edge.pubend)]

    def unsubscribe(self, key: int) -> None:
        """Removes a subscription; the host drops the edges that nobody wants any more."""
        gone = self.subscriptions.pop(key, None)
        if gone is None:
            return
        self.durables.pop((gone.connection, gone.number), None)
        self._wanting_all -= not gone.pubends
        self._wanting.subtract(gone.pubends)
        for edge in self._wanted_by(gone):
            edge.leave(key)
            if not self.wants(edge.pubend):
                del self.edges[edge.pubend]
                self._troubled.pop(edge.pubend, None)
        if not self.edges:
            self._groups = {}

    def wants(self, pubend: str) -> bool:
        """Whether any subscription wants messages of a pubend."""
        return self._wanting_all > 0 or self._wanting[pubend] > 0

    @property
    def are_narrowed(self) -> bool:
        """Whether any subscription wants messages of some pubends only."""
        return self._wanting_all < len(self.subscriptions)

    def confirm(self, pubend: str, version: int, tick: int, *, now_ms: int) -> list[Wish]:
        """From this tick on, the path from a pubend includes this version of the filter."""
        edge = self.edges.get(pubend)
        if edge is None:
            if not self.wants(pubend):
                return []
            number = self._router.introduce(pubend, is_guaranteed=True)
            if number is None:
                return []
            edge = self.edges[pubend] = Edge(
                pubend, number, tick, self._settings, self._rng, now_ms=now_ms, group=self._group_of(pubend)
            )
            self.sampling.ask()
            for subscription in self.subscriptions.values():
                if subscription.wants(pubend):
                    edge.expect(subscription)
        begun = [self._begin(edge, subscription, now_ms) for subscription in edge.confirm(version, tick)]
        return [*begun, Doubt(pubend)]

    def _group_of(self, pubend: str) -> NackGroup:
        """The group of NACK windows of all streams that come through the same neighbour."""
        parent = self._router.place_in(pubend).parent or ""
        return self._groups.setdefault(parent, NackGroup())

    def _begin(self, edge: Edge, subscription: HostSubscription, now_ms: int) -> Wish:
        if subscription.must_ask(edge.pubend):
            return OpenAt(subscription, edge.pubend)
        tick = max(edge.confirmed_tick, edge.stream.horizon)
        wanted = subscription.wanted(edge.pubend)
        if edge.begin(subscription, tick if wanted is None else wanted, now_ms=now_ms):
            self.counts["catch_ups"] += 1
        else:
            self.counts["joined_at_once"] += 1
        return Begun(subscription)

    def on_opened(self, subscription: HostSubscription, pubend: str, tick: int, *, now_ms: int) -> list[Wish]:
        """A pubend has said where a subscription begins."""
        subscription.opened[pubend] = tick
        edge = self.edges.get(pubend)
        if edge is not None and subscription.key in edge.awaiting and edge.version >= subscription.version:
            return [self._begin(edge, subscription, now_ms), Doubt(pubend)]
        return []

    def on_taken(
        self, pubend: str, durable: str, ownership: int, by: Claimant | None = None
    ) -> tuple[list[HostSubscription], list[HostSubscription]]:
        """A durable name has a new owner, or none, at a pubend; returns the subscriptions to end, and newer claims.

        A claim in progress (``by``) ends only subscriptions whose name that client may use: a pubend may still deny it.
        """
        may_have = self._settings.access.may_have
        named = [
            each
            for each in self.subscriptions.values()
            if each.durable == durable and each.wants(pubend) and (by is None or may_have(by, each.claimant.client))
        ]
        ended = [each for each in named if each.ownership < ownership]
        return ended, [each for each in named if each.ownership > ownership]

    # --- knowledge

    def hear(self, knowledge: Knowledge) -> Doubt | None:
        """Takes knowledge of a pubend and delivers what it makes deliverable; returns what may be in doubt."""
        edge = self.edges.get(knowledge.pubend)
        if edge is None:
            return None
        version = self._version_of(knowledge)
        if knowledge.kind is KnowledgeKind.LOST:
            self._lose(edge, knowledge)
        ticks, bodies = edge.learn(knowledge, version)
        if ticks:
            # Usually exactly the messages that have come, whose attributes are already decoded.
            came = knowledge.ticks
            is_same = len(ticks) == len(came) and ticks[0] == came[0] and ticks[-1] == came[-1]
            attributes = knowledge.attributes if is_same else [decode_attributes(body) for body in bodies]
            self._deliver(edge, ticks, bodies, attributes, None)
        edge.settle()
        if edge.catch_ups:
            self._hear_behind(edge, knowledge, version)
        if edge.catch_ups or edge.stream.heard >= edge.stream.horizon or edge.pubend in self._troubled:
            return Doubt(edge.pubend)
        return None

    def _hear_behind(self, edge: Edge, knowledge: Knowledge, version: int) -> None:
        for catch_up in edge.catch_ups:
            if knowledge.bodies and catch_up.ready_bytes > self._settings.receive_window_bytes:
                # Its members do not read, or there is no time for them: the messages are requested again.
                catch_up.stream.heard = max(catch_up.stream.heard, knowledge.last)
                continue
            catch_up.stream.learn(knowledge, version)
            catch_up.add_ready(*catch_up.stream.take())
        self._serve(edge)

    def _serve(self, edge: Edge) -> None:
        """Delivers what catch-ups have, as fast as their members read; ends those that have met the shared stream."""
        share = self._share
        for catch_up in edge.catch_ups:
            while catch_up.ready and not share.is_spent and self._has_room(catch_up):
                effort_before = share.effort_left
                ticks, bodies = self._next_chunk(catch_up)
                self._deliver_behind(edge, catch_up, ticks, bodies)
                catch_up.note_effort(effort_before - share.effort_left, len(ticks))
        if share.is_spent and any(each.ready for each in edge.catch_ups):
            # Continues as soon as it may, but lets others have a turn in between.
            self._is_spent = True
            self._paused_ms = share.resume_ms
            self.due.by(share.resume_ms)
            # Another one is first in the next slice.
            edge.catch_ups.append(edge.catch_ups.pop(0))
        for catch_up in list(edge.catch_ups):
            self.counts["catch_ups_met"] += edge.join(catch_up)

    def resume(self) -> None:
        """No commit is under way any more: catch-ups that have used their share continue at once."""
        if self._is_spent:
            self._paused_ms = 0
            self.due.by(0)

    def _next_chunk(self, catch_up: CatchUp) -> tuple[list[int], list[bytes]]:
        """Takes the next messages of a catch-up: as many as the share allows, by the effort of those before."""
        share = self._share
        looking = MESSAGE_EFFORT + catch_up.effort
        delivering = MATCH_EFFORT + self._filters.effort + DELIVERY_EFFORT * len(catch_up.members)
        # Mostly few members want a message. If suddenly all do, a slice is a few times as long, but no more.
        most = looking + delivering
        likely = max(catch_up.message_effort, most // SURPRISE_MAX) if catch_up.message_effort else most
        count = max(1, share.effort_left // likely)
        ticks: list[int] = []
        bodies: list[bytes] = []
        size = 0
        while catch_up.ready and len(ticks) < count and size < self._chunk_bytes:
            tick, body = catch_up.ready.popleft()
            ticks.append(tick)
            bodies.append(body)
            size += len(body)
        catch_up.ready_bytes -= size
        share.spend(looking * len(ticks) + effort_of_bytes(catch_up.effort, size))
        return ticks, bodies

    def _deliver_behind(self, edge: Edge, catch_up: CatchUp, ticks: list[int], bodies: list[bytes]) -> None:
        attributes = [decode_attributes(body) for body in bodies]
        if catch_up.tests:
            tests = catch_up.tests
            chosen = [place for place, found in enumerate(attributes) if any(test(found) is True for test in tests)]
            if len(chosen) < len(ticks):
                self.counts["edge_deliveries"] += len(ticks) - len(chosen)
                ticks, bodies = [ticks[place] for place in chosen], [bodies[place] for place in chosen]
                attributes = [attributes[place] for place in chosen]
        deliveries = self._deliver(edge, ticks, bodies, attributes, catch_up)
        matching = MATCH_EFFORT + self._filters.effort
        self._share.spend(matching * len(ticks) + DELIVERY_EFFORT * deliveries)

    def _version_of(self, knowledge: Knowledge) -> int:
        """The version of this host's filter that narrowed the knowledge."""
        if knowledge.versions is None or knowledge.kind is KnowledgeKind.LOST:
            return COMPLETE
        incarnation, version = knowledge.versions.get(self._settings.name, (-1, -1))
        # From an earlier life only data can be believed, not silence; there is no later life.
        if incarnation == self._filters.incarnation and version >= self.edges[knowledge.pubend].version:
            return version
        self.counts["old_silence_doubted"] += 1
        return version if incarnation == self._filters.incarnation else -1

    def _lose(self, edge: Edge, knowledge: Knowledge) -> None:
        """Tells the affected clients of ticks that nobody will ever know; the stream then continues."""
        if lost := edge.stream.unknown(knowledge.first, knowledge.last):
            keys = [key for key, each in self.subscriptions.items() if each.wants(edge.pubend)]
            self._tell_lost(edge, lost, [key for key in keys if edge.later.get(key, 0) <= knowledge.last])
        for catch_up in edge.catch_ups:
            if lost := catch_up.stream.unknown(knowledge.first, knowledge.last):
                self._tell_lost(edge, lost, [key for key, start in catch_up.members.items() if start <= knowledge.last])

    def _tell_lost(self, edge: Edge, lost: list[TickRange], keys: list[int]) -> None:
        self.counts["lost_ticks"] += 1
        self._connections.record("lost", pubend=edge.pubend, first=lost[0].first, last=lost[-1].last)
        concerned: dict[int, list[int]] = {}
        for key in keys:
            concerned.setdefault(self.subscriptions[key].connection, []).append(self.subscriptions[key].number)
        for connection, numbers in concerned.items():
            if (peer := self._connections.peers.get(connection)) is not None:
                # Range by range: what is known in between will be delivered.
                for first, last in lost:
                    for start in range(0, len(numbers), NAMES_MAX):
                        part = tuple(numbers[start : start + NAMES_MAX])
                        self._connections.say(peer, Lost(edge.number, first, last, part))

    def _deliver(
        self,
        edge: Edge,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        attributes: Sequence[dict[str, AttributeValue]],
        catch_up: CatchUp | None,
    ) -> int:
        """Delivers messages to those who want them; returns the number of messages for all connections together."""
        later = edge.later or None
        members = None if catch_up is None else catch_up.members
        deliveries = 0
        expired = expired_places(bodies, attributes, now_ms=self._tracker.now_ms)
        found = self._subscribers.deliveries(
            edge.number, ticks, bodies, attributes, name=edge.pubend, later=later, members=members
        )
        if expired:
            found = self._without_expired(found, [bodies[place] for place in expired])
        for frame, connections in found:
            self._router.deliver(frame, connections)
            deliveries += len(frame.ticks) * len(connections)
            if self.durables:
                self._note_pending(edge.pubend, frame, connections)
        self.counts["edge_deliveries"] += len(ticks)
        return deliveries

    def _without_expired(
        self, found: list[tuple[Deliver, Sequence[int]]], expired: list[bytes]
    ) -> list[tuple[Deliver, Sequence[int]]]:
        """Takes expired messages out of deliveries, and records those that somebody would have got."""
        gone = set(expired)
        wanted: dict[bytes, None] = {}
        kept: list[tuple[Deliver, Sequence[int]]] = []
        for frame, connections in found:
            places = [place for place, body in enumerate(frame.bodies) if body not in gone]
            wanted |= dict.fromkeys(body for body in frame.bodies if body in gone)
            if len(places) == len(frame.bodies):
                kept.append((frame, connections))
            elif places:
                ticks = [frame.ticks[place] for place in places]
                numbers = [frame.numbers[place] for place in places]
                bodies = [frame.bodies[place] for place in places]
                kept.append((Deliver(frame.pubend, ticks, numbers, bodies), connections))
        self._router.note_expired(list(wanted))
        return kept

    def _note_pending(self, pubend: str, frame: Deliver, connections: Sequence[int]) -> None:
        durables = self.durables
        for connection in connections:
            for tick, numbers in zip(frame.ticks, frame.numbers, strict=True):
                for start in range(0, len(numbers), 4):
                    hosted = durables.get((connection, int.from_bytes(numbers[start : start + 4])))
                    if hosted is not None:
                        hosted.pending.setdefault(pubend, deque(maxlen=_PENDING_MAX)).append(tick)

    # --- doubt

    def lift(self, floor_ms: int) -> list[Wish]:
        """Sets the least NACK window of catch-ups, while a token allows bulk recovery; 0 for none."""
        for edge in self.edges.values():
            edge.lift(floor_ms)
        return [Doubt(edge.pubend) for edge in self.edges.values() if floor_ms and edge.catch_ups]

    def questions(self, pubend: str, *, now_ms: int) -> list[Nack]:
        """Returns NACKs for ticks that are in doubt and were not requested recently."""
        edge = self.edges[pubend]
        asking = edge.questions(now_ms=now_ms, may_ask=self._may_ask)
        due_ms = edge.next_deadline()
        if due_ms is None:
            self._troubled.pop(edge.pubend, None)
        else:
            self._troubled[edge.pubend] = edge
            self.due.by(due_ms)
        nacks: list[Nack] = []
        for start in range(0, len(asking), NACK_RANGES_MAX):
            ranges = tuple((int(each.first), int(each.last)) for each in asking[start : start + NACK_RANGES_MAX])
            version = max(edge.version, 0)
            nacks.append(Nack(edge.pubend, self._settings.name, self._filters.incarnation, version, ranges))
        self.counts["nacks_sent"] += len(nacks)
        return nacks

    def _may_ask(self, catch_up: CatchUp) -> bool:
        return not catch_up.ready and self._has_room(catch_up)

    def _has_room(self, catch_up: CatchUp) -> bool:
        """Whether all members have read enough of what they were sent: otherwise an outbox would overflow."""
        peers, limit = self._connections.peers, self._settings.client_outbox_bytes // 2
        for key in catch_up.members:
            peer = peers.get(self.subscriptions[key].connection)
            if peer is not None and peer.outbox.data_bytes > limit:
                self.counts["catch_ups_paused"] += 1
                if self._paused_ms is None:
                    # Due at once: ``rest`` then sets the time.
                    self._paused_ms = 0
                    self.due.by(0)
                return False
        return True

    def next_deadline(self) -> int | None:
        """When to repeat NACKs, or to start or resume a catch-up."""
        if not self._troubled and self._paused_ms is None:
            return None
        wishes = [edge.next_deadline() for edge in self._troubled.values()]
        return min([each for each in [*wishes, self._paused_ms] if each is not None], default=None)

    def next_sample(self) -> int | None:
        """When to measure how far a doubt horizon has come."""
        wishes = [edge.control.next_deadline() for edge in self.edges.values()]
        return min([each for each in wishes if each is not None], default=None)

    def to_wake(self, *, now_ms: int) -> list[str]:
        """The pubends whose streams must be woken with ``wake``; call ``rest`` after that."""
        paused = self._paused_ms is not None and now_ms >= self._paused_ms
        if paused:
            self._paused_ms = None
            self._is_spent = False
            # Another one is first in the next slice.
            self._turn += 1
            pubends = list(self.edges)
            start = self._turn % len(pubends) if pubends else 0
            return pubends[start:] + pubends[:start]
        wishes = [(pubend, edge.next_deadline()) for pubend, edge in self.edges.items() if pubend in self._troubled]
        return [pubend for pubend, due_ms in wishes if due_ms is not None and due_ms <= now_ms]

    def wake(self, pubend: str, *, now_ms: int) -> Doubt:
        """Starts catch-ups, continues those that waited, and returns a doubt so that NACKs are repeated."""
        edge = self.edges[pubend]
        edge.start_catch_up(now_ms=now_ms, selector_of=lambda key: self.subscriptions[key].selector)
        self._serve(edge)
        return Doubt(pubend)

    def rest(self, *, now_ms: int) -> None:
        """Sets when to check paused catch-ups again, after all that were due have been woken."""
        # Only for a new pause: otherwise frequent wake-ups would postpone it for ever.
        if self._paused_ms == 0:
            self._paused_ms = now_ms if self._is_spent else now_ms + _PAUSE_MS
            self.due.by(self._paused_ms)

    def check_invariants(self) -> None:
        """Fails if an edge is not sound, or refers to subscriptions that are gone."""
        for edge in self.edges.values():
            edge.check_invariants()
            assert edge.later.keys() <= self.subscriptions.keys()
            assert self.wants(edge.pubend)
            assert all(self.subscriptions[key].wants(edge.pubend) for key in edge.later)
