"""Records where messages of this broker came from and went to, batch by batch ([Tracking] section 3.2).

Published: a local publisher's messages, when they are durable (best effort: at once). Routed: messages from neighbours,
also in answer to a NACK. Delivered: messages sent to clients, recorded under the name of the durable subscription or
the client; only the client knows whether they crossed the last connection. Identifiers are gathered for a moment, since
many cost little more than one. Records are stored with the broker's commits, full filters with the next mark: one sync
for each persistence interval. Delivery never waits for it.

Deviation: an attachment is stored in the commit of the turn in which it takes effect, not before. If the broker crashes
in between, the gap of the crash covers what the subscriber may have received.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from penstock.broker.commits import Commits
from penstock.broker.due import Due
from penstock.broker.durable import KeepRecord
from penstock.broker.mechanisms.notes import Notes
from penstock.broker.settings import BrokerSettings
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.protocol.status import TrackingStatus
from penstock.tracking.aliases import AliasBook
from penstock.tracking.answering import Answerer
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.recorder import Recorder, make_tracking
from penstock.tracking.records import GapRecord, Keep, SinceRecord, encode_record
from penstock.tracking.recovery import recover
from penstock.tracking.strategy import NullTracking, Tracking

__all__ = ["Tracker"]

_LINK: Final = "link/"
_NOTES_MAX: Final = 4_096
_NOTES_BYTES_MAX: Final = _NOTES_MAX * MESSAGE_ID_BYTES
_GATHER_MS: Final = 250
"""Events are recorded when there are this many, or after this long: one by one they would cost five times as much."""
_COMMITS_MAX: Final = 64
"""With this many commits pending the disk cannot keep up: records wait, and what is too much becomes a gap."""
_ORIGINS_MAX: Final = 4_096
"""Most origins whose upstream neighbours are remembered; identifiers may name any number of origins."""
_ROW: Final = np.dtype([("publisher", ">u4"), ("origin", ">u4"), ("rest", f"V{MESSAGE_ID_BYTES - 8}")])
"""An identifier as a numpy row."""


@dataclass(slots=True)
class _Upstream:
    """The neighbours that sent us messages of one origin."""

    since_ms: int
    """The time since when they are known."""
    neighbours: dict[str, int] = field(default_factory=dict)
    """By neighbour, the time of the last message."""


class Tracker:
    """Records the messages of one broker."""

    def __init__(self, settings: BrokerSettings, kept: Mapping[str, bytes]) -> None:
        self._settings, self._kept = settings, dict(kept)
        self.tracking: Tracking = NullTracking()
        self.is_on = settings.tracking.strategy != "null"
        """Whether anything is recorded."""
        self.attachments, self.aliases = AttachmentMap(), AliasBook()
        self.notes = Notes()
        """Events that are not recorded yet."""
        self._hurries = False
        """Whether the notes must be recorded in this turn."""
        self._noted_ms = 0
        """When the first of the notes was made."""
        self._is_gathering = False
        self.due = Due(self.next_deadline)
        """``_is_gathering``: whether ``_noted_ms`` is set, because notes wait to be recorded."""
        self._attached: dict[tuple[int, int], int] = {}
        self._outgoing: dict[str, Keep] = {}
        """Records to be stored, other than histories; only the last of each name, so that the maps bound it."""
        self._on_their_way: deque[tuple[int, list[Keep]]] = deque()
        self._upstream: dict[int, _Upstream] = {}
        self._links: dict[str, int] = {}
        """Present and former neighbours, with the time when the link was last known to be up."""
        self._connected: dict[str, None] = {}
        self.damaged: list[str] = []
        """Records of earlier lives that cannot be read."""
        self.started_ms: int | None = None
        """When this life began."""
        self.now_ms = -1
        """The time of the stimulus that is being handled; -1 before the first one."""
        self._forgot_upstream_ms = 0
        """For origins first seen after this time, all upstream neighbours are known."""
        self._is_stopped = False

    def begin_turn(self, *, now_ms: int) -> None:
        """Sets the time of a new stimulus; the first one starts tracking."""
        self.now_ms = now_ms
        if self.started_ms is None:
            self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        self.started_ms = self._forgot_upstream_ms = now_ms
        self.tracking = make_tracking(self._settings.number, self._settings.tracking, now_ms=now_ms)
        self.due.ask()
        if isinstance(self.tracking, Recorder):
            self.damaged, keeps = recover(self._kept, self.tracking, self.attachments, self.aliases, now_ms=now_ms)
            self._put(keeps)
            # Nobody knows how long the links of an earlier life lasted: until now, at the latest.
            self._links = {name[len(_LINK) :]: now_ms for name in self._kept if name.startswith(_LINK)} | self._links
        elif self._kept:
            # A later life that records again must not believe that nothing happened in between.
            self._put(self.tracking.take())
        self._kept = {}

    def answerer(self) -> Answerer:
        """Makes an answerer of questions about messages, from what was recorded."""
        self._record()
        tracking = self._settings.tracking
        return Answerer(
            self._settings.name,
            self._settings.number,
            self.tracking,
            self.attachments,
            aliases=self.aliases,
            slack_ms=tracking.late_ms,
            per_subscriber=tracking.per_subscriber,
        )

    # --- what happens in a turn

    def note_routed(self, bodies: Sequence[bytes], neighbour: str) -> None:
        """Notes messages that came from a neighbour."""
        noted = self.notes.route(bodies, neighbour)
        if noted >= _NOTES_MAX or self.tracking.is_old(bodies[0]):
            # Old messages in answer to a NACK: recorded at once, to know how far back the gap of a crash reaches.
            self._hurries = True

    # --- links

    def on_neighbour(self, name: str, *, up: bool) -> None:
        """A link came up or went down now."""
        self._links[name] = self.now_ms
        if up:
            self._connected[name] = None
        else:
            self._connected.pop(name, None)
        if self.is_on:
            self._put([Keep(f"{_LINK}{name}", encode_record(SinceRecord(self.now_ms)))])

    def neighbours_since(self, timestamp_ms: int) -> list[str]:
        """The neighbours that had a link with this broker at any time since then."""
        slack_ms = self._settings.tracking.late_ms
        return [name for name, ms in self._links.items() if name in self._connected or ms + slack_ms >= timestamp_ms]

    def upstream_since(self, origin: int, timestamp_ms: int) -> list[str]:
        """The neighbours that sent messages of an origin since then; empty if that is not known that far back."""
        self._record()
        upstream = self._upstream.get(origin)
        slack_ms = self._settings.tracking.late_ms
        if upstream is None or timestamp_ms < upstream.since_ms + slack_ms:
            return []
        return [name for name, ms in upstream.neighbours.items() if ms + slack_ms >= timestamp_ms]

    # --- who is attached

    def connect(self, connection: int, client: str) -> None:
        """A client was admitted."""
        if self.is_on:
            self.notes.connect(connection, client)

    def attach(self, connection: int, number: int, subscriber: str, *, durable: bool, selector: str = "") -> None:
        """A client subscribes, under its own name or that of its durable subscription."""
        if not self.is_on:
            return
        self.notes.attach(connection, number, subscriber if durable else None)
        attached, keeps = self.attachments.attach(
            subscriber, {}, now_ms=self.now_ms, selector=selector, durable=durable
        )
        self._attached[connection, number] = attached
        self._put(keeps)

    def start(self, connection: int, number: int, starts: Mapping[str, int]) -> None:
        """A subscription has begun at these ticks of pubends."""
        attached = self._attached.get((connection, number))
        if attached is not None:
            self._put(self.attachments.begin(attached, starts))

    def detach(self, connection: int, number: int) -> None:
        """A subscription has ended."""
        attached = self._attached.pop((connection, number), None)
        if attached is not None:
            self.notes.detach(connection, number)
            self._put(self.attachments.detach(attached, {}, now_ms=self.now_ms))

    def leave(self, connection: int) -> None:
        """A client is gone, and its subscriptions with it."""
        self.notes.leave(connection)

    # --- the end of a turn, and time

    def finish(self, commits: Commits) -> None:
        """Records the notes if there are enough, and adds what is to be stored to the turn's commit."""
        notes = self.notes
        if notes.published or notes.delivered or notes.routed or notes.settled:
            if not self._is_gathering:
                self._is_gathering, self._noted_ms = True, self.now_ms
                self.tracking.expect(now_ms=self.now_ms)
                self.due.ask()
            is_over = not self._noted_ms <= self.now_ms < self._noted_ms + _GATHER_MS
            noted_bytes = len(notes.published) + len(notes.delivered) + len(notes.settled)
            if noted_bytes >= _NOTES_BYTES_MAX or is_over or self._hurries or self._is_stopped:
                self._record()
        if self._outgoing or self.tracking.is_due:
            self._hand_out(commits)

    def _hand_out(self, commits: Commits) -> None:
        # After the stop there is no later turn.
        if commits.waiting >= _COMMITS_MAX and not self._is_stopped:
            return
        keeps = self.tracking.take()
        commit = 0
        for keep in (*self._outgoing.values(), *keeps):
            commit = commits.add(KeepRecord(keep.name, keep.value))
        self._outgoing = {}
        self._on_their_way.append((commit, keeps))

    def on_committed(self, number: int) -> None:
        """Commits up to this number are durable."""
        while self._on_their_way and self._on_their_way[0][0] <= number:
            self.tracking.on_kept(self._on_their_way.popleft()[1])

    def next_deadline(self) -> int | None:
        """When something is to be recorded or stored."""
        due_ms = self.tracking.next_deadline()
        if not self._is_gathering:
            return due_ms
        gathered_ms = self._noted_ms + _GATHER_MS
        return gathered_ms if due_ms is None else min(due_ms, gathered_ms)

    def on_deadline(self) -> None:
        """Records the notes, and marks what is to be stored, if they are due."""
        due_ms = self.tracking.next_deadline()
        is_due = due_ms is not None and due_ms <= self.now_ms
        if is_due or (self._is_gathering and self.now_ms >= self._noted_ms + _GATHER_MS):
            # Before the mark, which says that everything so far is stored.
            self._record()
        if is_due:
            self.tracking.on_deadline(now_ms=self.now_ms)
            self.due.ask()

    def retire(self, names: Sequence[str]) -> None:
        """Filters with these names are stored elsewhere: they may be dropped, oldest first."""
        if isinstance(self.tracking, Recorder):
            self.tracking.retire(frozenset(names))

    def stop(self) -> None:
        """Stops in an orderly way: nothing is lost that the last commit holds."""
        if self.is_on and not self._is_stopped:
            self._record()
            for attached in self._attached.values():
                self._put(self.attachments.detach(attached, {}, now_ms=self.now_ms))
            self._attached = {}
            self._is_stopped = True
            self.tracking.stop(now_ms=self.now_ms)

    def status(self) -> TrackingStatus:
        """Figures for the operator."""
        status = self.tracking.status()
        status.attachments = len(self.attachments)
        status.aliases = len(self.aliases)
        status.damaged = len(self.damaged)
        return status

    # --- inside

    def _put(self, keeps: Iterable[Keep]) -> None:
        for keep in keeps:
            self._outgoing.pop(keep.name, None)
            self._outgoing[keep.name] = keep

    def _record(self) -> None:
        now_ms, tracking = self.now_ms, self.tracking
        self._is_gathering = self._hurries = False
        self.due.ask()
        published, routed = self.notes.take_published(), self.notes.take_routed()
        delivered, receivers = self.notes.take_delivered()
        if self._is_stopped:
            self._miss(published)
            return
        for origin, ids, _ in _by_origin(published):
            tracking.record_published(ids, now_ms=now_ms)
            if origin != self._settings.number:
                self._note_aliases(ids, now_ms)
        for neighbour, noted in routed.items():
            for origin, ids, _ in _by_origin(bytes(noted)):
                self._note_upstream(origin, neighbour, now_ms)
                tracking.record_routed(origin, ids, now_ms=now_ms)
        for origin, ids, keys in _by_origin(delivered, receivers):
            tracking.record_delivered(origin, ids, keys, now_ms=now_ms)

    def _miss(self, published: bytes) -> None:
        """Records messages that became durable after the histories ended as a gap, like that of a crash."""
        if published and isinstance(self.tracking, Recorder):
            times = [each.timestamp_ms for each in _ids(published)]
            record = GapRecord(((min(times), max(times)),), "stop")
            self._put([self.tracking.gaps.add(record)])

    def _note_upstream(self, origin: int, neighbour: str, now_ms: int) -> None:
        upstream = self._upstream.get(origin)
        if upstream is None:
            if len(self._upstream) >= _ORIGINS_MAX:
                self._upstream.pop(next(iter(self._upstream)))
                self._forgot_upstream_ms = now_ms
            upstream = self._upstream[origin] = _Upstream(self._forgot_upstream_ms)
        upstream.neighbours[neighbour] = now_ms

    def _note_aliases(self, ids: bytes, now_ms: int) -> None:
        name, number = self._settings.name, self._settings.number
        for message_id in _ids(ids):
            self._put(self.aliases.record(message_id, name, number, now_ms=now_ms))


def _ids(joined: bytes) -> Iterator[MessageId]:
    """Splits concatenated identifiers."""
    for place in range(0, len(joined), MESSAGE_ID_BYTES):
        yield MessageId.from_bytes(joined[place : place + MESSAGE_ID_BYTES])


def _by_origin(joined: bytes, keys: Sequence[int] = ()) -> Iterator[tuple[int, bytes, Sequence[int]]]:
    """Groups concatenated identifiers, with their keys, by the broker that they name as origin."""
    if not joined:
        return
    rows = np.frombuffer(joined, dtype=_ROW)
    origins = rows["origin"]
    first = int(origins[0])
    if (origins == first).all():
        yield first, joined, keys
        return
    for origin in np.unique(origins).tolist():
        (own,) = np.nonzero(origins == origin)
        yield origin, rows[own].tobytes(), [keys[place] for place in own.tolist()] if keys else ()
