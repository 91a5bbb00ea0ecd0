"""Carries knowledge down the trees, and NACKs up ([Gryphon] section 2; decision record 5).

Knowledge from the parent goes to all children with interested hosts behind them, narrowed to what they want: what is
left out becomes silence, tagged with the versions of the filters that left it out. Knowledge from anybody else is
dropped: it took a former path, and is requested again, or it is forged. So routes may disagree for a while without
loops. A NACK is answered from the cache as far as it goes; the rest goes further up, and the answer comes back to those
who asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.broker.due import Due
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.broker.share import DELIVERY_EFFORT, MATCH_EFFORT, MESSAGE_EFFORT
from penstock.broker.transit.lanes import NOBODY, Lane, heard_versions
from penstock.matching.index import LINKS_MAX
from penstock.model.tick import TickRange
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import KnowledgeKind, KnowledgeMessage, Nack
from penstock.protocol.stream_frames import NACK_RANGES_MAX
from penstock.streams.cache import KnowledgeCache
from penstock.streams.consolidation import NackBook
from penstock.streams.knowledge import Knowledge, Versions

__all__ = ["SELF", "Carrier"]

SELF: Final = ""
"""Used in place of a child's name when this broker itself asks."""
_ANSWER_BYTES: Final = 32 * 1024
"""Most data in one answer: control must not wait for long behind it on a slow link."""


@dataclass(slots=True, frozen=True)
class _Child:
    """A neighbour further down a tree, with the interested hosts behind it."""

    peer: Peer
    mask: int
    versions: Versions


class Carrier:
    """Forwards knowledge and NACKs of guaranteed pubends."""

    def __init__(
        self,
        rooms: Rooms,
    ) -> None:
        self._settings = rooms.settings
        self._topology = rooms.topology
        self._filters = rooms.filters
        self._router = rooms.router
        self._connections = rooms.connections
        self._tracker = rooms.tracker
        self._share = rooms.share
        self._memory = rooms.memory
        self._children: dict[str, list[_Child]] = {}
        self._stamp = (-1, -1, -1)
        self._lanes: dict[int, dict[str, Lane]] = {}
        self._silent: dict[tuple[int, str], Lane] = {}
        self._flush_ms: int | None = None
        self.due = Due(self.next_deadline)
        self._heard: dict[tuple[int, str], Versions] = {}
        self._narrowed: dict[tuple[str, int], tuple[Versions, Versions, Versions]] = {}
        self._caches: dict[str, KnowledgeCache] = {}
        self._books: dict[str, NackBook] = {}
        self.counts = {
            "knowledge_off_tree": 0,
            "knowledge_dropped": 0,
            "nacks_heard": 0,
            "nacks_forwarded": 0,
            "nacks_suppressed": 0,
            "answered_from_cache": 0,
            "answers_passed_on": 0,
            "versions_changed": 0,
        }

    # --- knowledge

    def on_message(self, peer: Peer, frame: KnowledgeMessage, *, now_ms: int) -> Knowledge | None:
        """Forwards a neighbour's knowledge of a pubend; returns it for this broker's own streams, unless dropped."""
        pubend = frame.pubend
        if not self._topology.is_guaranteed(pubend) or self._topology.origin_of(pubend) == self._settings.name:
            self.counts["knowledge_off_tree"] += 1
            return None
        # Also if it is dropped below: it was said, and so it was durable.
        self._memory.note(pubend, frame.last, frame.ticks[-1] if frame.ticks else 0)
        key = (peer.connection, pubend)
        before = self._heard.get(key, NOBODY)
        versions = heard_versions(before, frame)
        if versions is not before:
            if len(versions) > LINKS_MAX:
                raise ProtocolError(f"knowledge of {pubend} was narrowed by more than {LINKS_MAX:,} filters")
            self._heard[key] = versions
        if self._router.place_in(pubend).parent != peer.name:
            # Forged, or sent before the path changed. False silence would be believed for ever: better to ask again.
            self.counts["knowledge_off_tree"] += 1
            return None
        knowledge = Knowledge(pubend, frame.first, frame.last, frame.ticks, frame.bodies, versions, frame.kind)
        # Decodes the bodies, so that malformed ones are found before anybody keeps them.
        _ = knowledge.attributes
        if frame.bodies and self._tracker.is_on:
            self._tracker.note_routed(frame.bodies, peer.name)
        self.tell(knowledge, now_ms=now_ms)
        return knowledge

    def tell(self, knowledge: Knowledge, *, now_ms: int) -> None:
        """Passes knowledge to this broker's cache, and to the neighbours it concerns."""
        pubend = knowledge.pubend
        children = self._children_in(pubend) if self._connections.links else []
        if self._is_worth_keeping(knowledge, children):
            self._cache_of(pubend).add(knowledge)
        if knowledge.kind is KnowledgeKind.LIVE:
            if children:
                self._pass_on(knowledge, children, now_ms)
            if pubend in self._books:
                self._books[pubend].answered(knowledge.first, knowledge.last)
        elif pubend in self._books:
            for child, ranges in self._books[pubend].answered(knowledge.first, knowledge.last).items():
                for part in ranges:
                    self.answer(child, knowledge.within(part.first, part.last))

    @staticmethod
    def _is_worth_keeping(knowledge: Knowledge, children: list[_Child]) -> bool:
        if knowledge.versions is None:
            # From our own pubend: what was read from the log can be read again.
            return knowledge.kind is KnowledgeKind.LIVE
        return bool(children) and knowledge.kind is not KnowledgeKind.LOST

    def answer(self, child: str, knowledge: Knowledge, host: str = "") -> None:
        """Sends a neighbour what it asked for, if it is still linked; this broker itself hears answers elsewhere."""
        peer = self._connections.links.get(child)
        if peer is None:
            return
        self.counts["answers_passed_on"] += 1
        behind = self._router.place_in(knowledge.pubend).below.get(child, frozenset((host,) if host else ()))
        mask, in_force = self._filters.interested(behind, knowledge.pubend)
        hosts_wanting = self._filters.hosts_wanting
        wanted = [hosts_wanting(attributes, knowledge.pubend) for attributes in knowledge.attributes]
        chosen = [place for place, hosts in enumerate(wanted) if hosts & mask]
        looking = MESSAGE_EFFORT + MATCH_EFFORT + self._filters.effort
        self._share.spend(looking * len(knowledge.ticks) + DELIVERY_EFFORT * len(chosen))
        versions = _oldest(knowledge.versions, in_force)
        kind = KnowledgeKind.LOST if knowledge.kind is KnowledgeKind.LOST else KnowledgeKind.ANSWER
        lane = self._lane(peer, knowledge.pubend)
        for part in knowledge.narrowed(chosen, versions, kind).parts(_ANSWER_BYTES):
            self._send(peer, lane, part)

    # --- NACKs

    def on_nack(self, child: str, nack: Nack, *, now_ms: int) -> tuple[list[Knowledge], list[TickRange]]:
        """Handles a request for unknown ticks: answers a neighbour from the cache, and asks upstream for the rest.

        If this broker itself asked, returns what is known. Also returns the ticks that must be looked up in the log of
        its own pubend.
        """
        self.counts["nacks_heard"] += 1
        pubend = nack.pubend
        if any(first > last for first, last in nack.ranges):
            raise ProtocolError(f"a nack of {pubend} names a range that ends before it begins")
        if not self._topology.is_guaranteed(pubend):
            return [], []
        known: list[Knowledge] = []
        unknown: list[TickRange] = []
        for first, last in nack.ranges:
            found, gaps = self._look_up(nack, first, last)
            known += found
            unknown += gaps
        self.counts["answered_from_cache"] += len(known)
        if child != SELF:
            for each in known:
                self.answer(child, each, nack.host)
            known = []
        if self._topology.origin_of(pubend) == self._settings.name:
            return known, unknown
        upward = [each for gap in unknown for each in self.asked(pubend, child, gap, now_ms=now_ms)]
        if upward:
            self._ask_parent(nack, upward)
        return known, []

    def asked(self, pubend: str, child: str, gap: TickRange, *, now_ms: int) -> list[TickRange]:
        """Remembers who asked; returns what has not been requested recently."""
        book = self._books.get(pubend)
        if book is None:
            book = self._books[pubend] = NackBook()
        news = book.ask(child, gap.first, gap.last, now_ms=now_ms)
        self.counts["nacks_suppressed"] += not news
        return news

    def _look_up(self, nack: Nack, first: int, last: int) -> tuple[list[Knowledge], list[TickRange]]:
        cache = self._caches.get(nack.pubend)
        if cache is None:
            return [], [TickRange._make((first, last))]
        return cache.answer(first, last, host=nack.host, version=(nack.incarnation, nack.version))

    def _ask_parent(self, nack: Nack, ranges: list[TickRange]) -> None:
        parent = self._connections.links.get(self._router.place_in(nack.pubend).parent or "")
        if parent is None:
            return
        self.counts["nacks_forwarded"] += 1
        for start in range(0, len(ranges), NACK_RANGES_MAX):
            part = tuple((int(first), int(last)) for first, last in ranges[start : start + NACK_RANGES_MAX])
            self._connections.say(parent, Nack(nack.pubend, nack.host, nack.incarnation, nack.version, part))

    # --- time, links, figures

    def next_deadline(self) -> int | None:
        """When silence has waited long enough to be sent without data."""
        return self._flush_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Sends the silence that has waited."""
        if self._flush_ms is None or now_ms < self._flush_ms:
            return
        self._flush_ms = None
        silent, self._silent = self._silent, {}
        for (connection, _), lane in silent.items():
            narrowed = lane.take_silence()
            peer = self._connections.peers.get(connection)
            if narrowed is not None and peer is not None:
                self._send_one(peer, lane, narrowed)

    def forget(self, peer: Peer) -> None:
        """Forgets a connection that is gone, and what was said and asked on it."""
        self._lanes.pop(peer.connection, None)
        for key in [key for key in self._silent if key[0] == peer.connection]:
            del self._silent[key]
        for key in [key for key in self._heard if key[0] == peer.connection]:
            del self._heard[key]
        if peer.kind is PeerKind.LINK and peer.name not in self._connections.links:
            for book in self._books.values():
                book.leave(peer.name)

    def children(self, pubend: str) -> list[Peer]:
        """The neighbours further down a pubend's tree with interested hosts behind them."""
        return [each.peer for each in self._children_in(pubend)]

    def pubends(self) -> list[str]:
        """The pubends with a cache or pending NACKs."""
        return [*self._caches, *(each for each in self._books if each not in self._caches)]

    def forget_pubend(self, pubend: str) -> None:
        """Drops the state of a pubend that is no longer in the overlay."""
        self._caches.pop(pubend, None)
        self._books.pop(pubend, None)

    def cached_bytes(self) -> int:
        """The bytes held in all caches."""
        return sum(cache.size_bytes for cache in self._caches.values())

    def check_invariants(self) -> None:
        """Fails if a cache is inconsistent."""
        for cache in self._caches.values():
            cache.check_invariants()

    # --- inside

    @property
    def _silence_ms(self) -> int:
        """How long silence may wait for data: a host that wants few messages must not seem to lag."""
        return min(self._settings.silence_ms, max(self._settings.congestion.alert_lag_ms // 2, 10))

    def _pass_on(self, knowledge: Knowledge, children: list[_Child], now_ms: int) -> None:
        hosts_wanting = self._filters.hosts_wanting
        wanted = [hosts_wanting(attributes, knowledge.pubend) for attributes in knowledge.attributes]
        frames: dict[tuple[int, ...], KnowledgeMessage] = {}
        for child in children:
            chosen = [place for place, hosts in enumerate(wanted) if hosts & child.mask]
            versions = self._versions_for(knowledge, child)
            lane = self._lane(child.peer, knowledge.pubend)
            if wanted and not chosen:
                before = lane.wait(knowledge.narrowed((), versions, knowledge.kind))
                if before is not None:
                    self._send_one(child.peer, lane, before)
                self._silent[child.peer.connection, knowledge.pubend] = lane
                if self._flush_ms is None:
                    self._flush_ms = now_ms + self._silence_ms
                    self.due.by(self._flush_ms)
                continue
            key = tuple(chosen)
            if key in frames and not lane.has_silence and lane.says_nothing_new(versions):
                # Children that get the same content share one frame, which is encoded once.
                self._carry(child.peer, frames[key])
                continue
            is_plain = not lane.has_silence and lane.says_nothing_new(versions)
            sent = self._send(child.peer, lane, knowledge.narrowed(chosen, versions, knowledge.kind))
            if is_plain:
                frames[key] = sent

    def _send(self, peer: Peer, lane: Lane, narrowed: Knowledge) -> KnowledgeMessage:
        *before, last = lane.join(narrowed)
        for each in before:
            self._send_one(peer, lane, each)
        return self._send_one(peer, lane, last)

    def _send_one(self, peer: Peer, lane: Lane, narrowed: Knowledge) -> KnowledgeMessage:
        frame = lane.frame(narrowed)
        if self._carry(peer, frame):
            lane.sent()
            self.counts["versions_changed"] += bool(frame.versions)
        else:
            lane.dropped()
        return frame

    def _carry(self, peer: Peer, frame: KnowledgeMessage) -> bool:
        is_sent = self._connections.carry(peer, frame)
        self.counts["knowledge_dropped"] += not is_sent
        return is_sent

    def _lane(self, peer: Peer, pubend: str) -> Lane:
        lanes = self._lanes.setdefault(peer.connection, {})
        lane = lanes.get(pubend)
        if lane is None:
            lane = lanes[pubend] = Lane(pubend)
        return lane

    def _versions_for(self, knowledge: Knowledge, child: _Child) -> Versions:
        """The older, for each host, of the filter versions used upstream and here."""
        if knowledge.versions is None:
            return child.versions
        key = (knowledge.pubend, child.peer.connection)
        known = self._narrowed.get(key)
        if known is not None and known[0] is knowledge.versions and known[1] is child.versions:
            return known[2]
        versions = _oldest(knowledge.versions, child.versions)
        self._narrowed[key] = (knowledge.versions, child.versions, versions)
        return versions

    def _children_in(self, pubend: str) -> list[_Child]:
        """The links further down the tree with interested hosts behind them."""
        stamp = (self._topology.version, self._filters.stamp, self._connections.links_version)
        if stamp != self._stamp:
            self._stamp = stamp
            self._children, self._narrowed = {}, {}
        found = self._children.get(pubend)
        if found is None:
            links = self._connections.links
            found = []
            for name, behind in self._router.place_in(pubend).below.items():
                mask, versions = self._filters.interested(behind, pubend)
                if mask and name in links:
                    found.append(_Child(links[name], mask, versions))
            self._children[pubend] = found
        return found

    def _cache_of(self, pubend: str) -> KnowledgeCache:
        cache = self._caches.get(pubend)
        if cache is None:
            cache = self._caches[pubend] = KnowledgeCache(pubend, bytes_max=self._settings.cache_bytes)
        return cache


def _oldest(upstream: Versions | None, here: Versions) -> Versions:
    if upstream is None:
        return here
    return {host: min(upstream[host], version) for host, version in here.items() if host in upstream}
