"""Carries messages of this broker's publishers to pubends of other brokers, and takes back what becomes of them.

The door keeps numbers, never messages: the client has those that are not settled, and sends them again when asked. That
happens whenever something may have been lost: when the path changes, when the home says that something is missing. Each
time a new round begins, and what is still on its way from earlier rounds does not count. Messages for which a link has
no room are asked for again when it has sent half of what it can keep: first those of the publisher that waits longest.
What is lost on a path that stands is a sign of congestion there: the publisher then has less on its way at a time, and
more again with everything that arrives. The same holds if the home has no room, but then that is the reason it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from penstock.broker.due import Due
from penstock.broker.neighbours.ways import Ways
from penstock.broker.peers import Guest, Peer
from penstock.broker.rooms import Rooms
from penstock.broker.sources import Batch, Passage, Source
from penstock.protocol.frames import Carried, Carry, HeldBack

__all__ = ["Carrying"]

_FRAME_BYTES: Final = 128 * 1024
"""Most data in one frame, unless a single message is larger: others on the link need not wait long for it."""
_ASK_MS: Final = 1_000
"""How long after the last word of the home to ask it what it has."""
_ASK_MS_MAX: Final = 8_000
_LOOK_MS: Final = 10
"""How often to look whether a link for which publishers wait has room again."""
_TURN_MS: Final = 200
"""How long a publisher may take to send again what found a link full; then it is the next one's turn."""
_RETRY_MS: Final = 100
_RETRY_MS_MAX: Final = 2_000
"""How long to wait before publishers whose messages found no way are asked for them again."""
_AHEAD_MS_MAX: Final = 10 * 366 * 86_400_000
"""Rounds begin with the time: one so far ahead of it is nobody's earlier clock."""
_PATH_BYTES_MIN: Final = 16 * 1024
"""The least that a publisher may have on its way; also how much more it may have once that much has arrived."""


class Carrying:
    """The passages from one door to all pubends elsewhere."""

    def __init__(
        self,
        rooms: Rooms,
        ways: Ways,
        *,
        settle: Callable[[Source, int], None],
        rewind: Callable[[Source, int, int, int], None],
        knows_all: Callable[[], bool],
    ) -> None:
        """``knows_all`` tells whether a pubend that the topology does not know does not exist."""
        self._name = rooms.settings.name
        self._rooms, self._ways = rooms, ways
        self._connections, self._topology = rooms.connections, rooms.topology
        self._settle, self._rewind = settle, rewind
        self._knows_all = knows_all
        self._sources: dict[tuple[str, bytes], Source] = {}
        """By pubend and publisher."""
        self._clients: dict[Source, str] = {}
        self._slowed: dict[Source, None] = {}
        """Those that have to wait, or may have less on their way than usual."""
        self._news: dict[Source, None] = {}
        """Those for which that has changed, and that are still to be told."""
        self._waiting: dict[str, dict[Source, None]] = {}
        """Those that found the link to a neighbour full, and have sent nothing there since, in order."""
        self._look_ms = 0
        """When to look at these links again."""
        self._asking: dict[Source, None] = {}
        """Those of which a home is to be asked, or for which to try again; some may need neither any more."""
        self._round = 0
        self.due = Due(self.next_deadline)
        self.counts = {"carried": 0, "carried_anew": 0}

    def next_round(self, *, now_ms: int) -> int:
        """A number above all that this broker has used; in earlier lives too, unless its clock was set back since."""
        self._round = max(self._round + 1, now_ms)
        return self._round

    def open(self, source: Source, guest: Guest, *, now_ms: int) -> None:
        """Begins to carry for a publisher."""
        self._clients[source] = guest.client
        if not source.publisher:
            # It can never repeat anything, and must not be confused with one of an earlier connection.
            one_time = f"{source.sender}/{self.next_round(now_ms=now_ms)}"
            source.publisher = blake2b(one_time.encode(), digest_size=16).digest()

    def leave(self, source: Source) -> None:
        """Forgets a publisher that is gone: what it had on its way may still arrive."""
        self._clients.pop(source, None)
        self._slowed.pop(source, None)
        self._news.pop(source, None)
        self._stop_waiting(source, _passage(source))
        self._asking.pop(source, None)
        key = (source.pubend, source.publisher)
        if self._sources.get(key) is source:
            del self._sources[key]

    # --- on the way up

    def carry(self, source: Source, first: int, bodies: list[bytes], *, now_ms: int) -> None:
        """Sends messages towards their pubend; those that find no way are wanted again later."""
        passage = _passage(source)
        if not passage.round:
            self._begin_round(source, passage, now_ms)
        if passage.is_first:
            passage.carried = min(first - 1, source.settled)
        parent = self._connections.links.get(passage.parent)
        start = 0
        while start < len(bodies) and parent is not None:
            end = _cut(bodies, start)
            part = bodies if end - start == len(bodies) else bodies[start:end]
            if not self._send(parent, source, passage, first + start, part):
                break
            start = end
        if start < len(bodies):
            passage.denied_bytes = sum(map(len, bodies[start:]))
            source.unpaid_bytes -= passage.denied_bytes
            source.received = first + start - 1
            self._stall(source, passage, now_ms)
        if not passage.is_guaranteed:
            for batch in source.outstanding:
                batch.is_durable = True
            self._settle(source, now_ms)
        elif passage.ask_ms is None and not passage.is_stalled:
            self._ask_later(source, passage, now_ms)

    def _send(self, parent: Peer, source: Source, passage: Passage, first: int, bodies: list[bytes]) -> bool:
        frame = self._frame(source, passage, first, bodies)
        if not self._connections.carry(parent, frame):
            return False
        passage.is_first, passage.carried = False, first + len(bodies) - 1
        self._stop_waiting(source, passage)
        source.outstanding.append(Batch(first + len(bodies) - 1, sum(map(len, bodies))))
        self.counts["carried"] += len(bodies)
        self._rooms.router.carried += len(bodies)
        if self._rooms.tracker.is_on:
            self._rooms.tracker.notes.publish(bodies)
        return True

    def _frame(self, source: Source, passage: Passage, first: int, bodies: list[bytes]) -> Carry:
        return Carry(
            source.pubend,
            self._name,
            source.publisher,
            self._clients[source],
            (passage.round, passage.carried, first),
            bodies,
            is_first=passage.is_first,
            asks=source.asks,
        )

    def ask(self, source: Source, *, now_ms: int) -> None:
        """Asks the home for an answer as soon as everything is settled, since somebody waits for it."""
        passage = _passage(source)
        parent = self._connections.links.get(passage.parent)
        if parent is None or not passage.round:
            return
        if passage.is_first:
            passage.carried = source.settled
        if self._connections.carry(parent, self._frame(source, passage, passage.carried + 1, [])):
            passage.is_first = False
        self._ask_later(source, passage, now_ms)

    def _stall(self, source: Source, passage: Passage, now_ms: int, *, reason: str = "") -> None:
        """There is no way at the moment: ignores what follows, until it is wanted again."""
        source.is_rewinding = passage.is_stalled = True
        full = f"the link to broker {passage.parent} is full"
        away = f"pubend {source.pubend} is out of reach of broker {self._name}"
        passage.held_back = HeldBack(reason or (full if passage.parent else away))
        self._note(source, passage)
        self._wait_for_link(source, passage, now_ms)
        passage.wait_ms = min(max(2 * passage.wait_ms, _RETRY_MS), _RETRY_MS_MAX)
        self._wake(source, passage, now_ms + passage.wait_ms)

    def _begin_round(self, source: Source, passage: Passage, now_ms: int) -> None:
        parent = self._parent(source.pubend)
        passage.round, passage.parent = self.next_round(now_ms=now_ms), parent
        passage.is_guaranteed = self._topology.is_guaranteed(source.pubend)
        passage.ask_ms, passage.held_back, passage.is_stalled = None, passage.said, False
        if passage.said.reason:
            # The publisher may have no credit to send anything that would be answered.
            self._wake(source, passage, now_ms)
        passage.is_first = True
        self._stop_waiting(source, passage)
        self._sources[source.pubend, source.publisher] = source
        self._note(source, passage)

    def _begin_anew(self, source: Source, passage: Passage, now_ms: int) -> None:
        """Begins a new round: wants everything again that is not settled, or that was never sent on."""
        self.counts["carried_anew"] += 1
        was_guaranteed = passage.is_guaranteed
        self._begin_round(source, passage, now_ms)
        if not was_guaranteed:
            # Those before it were sent on, and nobody could recognise them.
            self._rewind(source, source.received + 1, -1, now_ms)
            return
        source.outstanding.clear()
        source.received = source.settled
        # A message may be larger than the window: then the client has nothing, and not less.
        source.unpaid_bytes = source.withheld_bytes = min(source.withheld_bytes, source.credit_bytes)
        self._rewind(source, source.settled + 1, source.credit_bytes - source.withheld_bytes, now_ms)

    def _parent(self, pubend: str) -> str:
        """The neighbour towards a pubend; empty if there is no path."""
        parent = self._rooms.router.place_in(pubend).parent or ""
        return parent if parent in self._connections.links else ""

    # --- on the way down

    def on_carried(self, frame: Carried, *, now_ms: int) -> None:
        """Takes a home's answer for one of this door's publishers, or forwards it."""
        self._rooms.memory.note(frame.pubend, frame.announced, frame.announced)
        if frame.host != self._name:
            self._ways.down(frame.pubend, frame.host, frame)
            return
        source = self._sources.get((frame.pubend, frame.publisher))
        passage = source.passage if source is not None else None
        if source is None or passage is None or not passage.parent:
            return
        if frame.is_late and passage.round < frame.round < now_ms + _AHEAD_MS_MAX:
            # This broker's clock was ahead in an earlier life.
            self._round = max(self._round, frame.round)
            self._begin_anew(source, passage, now_ms)
            return
        if frame.is_late or frame.round != passage.round:
            return
        self._note_settled(source, passage, frame.settled)
        if frame.is_broken:
            # What the home has is settled all the same: rounds that always break at the same place would never end.
            self._settle(source, now_ms)
            passage.path_bytes = max((passage.path_bytes or source.credit_bytes) // 2, _PATH_BYTES_MIN)
            passage.gained_bytes, passage.path_reason = 0, frame.reason
            is_again, passage.broken_ms = now_ms < passage.broken_ms + _ASK_MS, now_ms
            if is_again or frame.reason:
                # Whatever the cause is, it lasts: publishers must not send all they have again and again.
                passage.parent = ""
                self._stall(source, passage, now_ms, reason=_path_reason(source, passage))
            else:
                self._begin_anew(source, passage, now_ms)
            return
        if not passage.is_stalled:
            passage.wait_ms, passage.ask_ms = 0, None
            said = passage.said = HeldBack(frame.reason, frame.window_bytes)
            if said != passage.held_back:
                passage.held_back = said
                self._note(source, passage)
        self._settle(source, now_ms)
        if passage.ask_ms is None and (source.outstanding or frame.reason):
            self._ask_later(source, passage, now_ms)

    def _note_settled(self, source: Source, passage: Passage, settled: int) -> None:
        for batch in source.outstanding:
            if batch.sequence > settled:
                break
            batch.is_durable = True
            self._gain(source, passage, batch.size)

    def _gain(self, source: Source, passage: Passage, size: int) -> None:
        """More may be on its way, since this much has arrived."""
        if passage.path_bytes:
            passage.gained_bytes += size
            if passage.gained_bytes >= passage.path_bytes:
                passage.gained_bytes = 0
                passage.path_bytes += _PATH_BYTES_MIN
                if passage.path_bytes >= source.credit_bytes:
                    passage.path_bytes = 0
                self._note(source, passage)

    # --- who has to wait

    @property
    def has_news(self) -> bool:
        """Whether some publishers have to be told that they have to wait, or no longer have to."""
        return bool(self._news)

    def take_slowed(self) -> list[tuple[Source, HeldBack]]:
        """The publishers that are slowed down for another reason than before, each with the reason."""
        news, self._news = self._news, {}
        return [(source, self.reason_of(source)) for source in news if source in self._slowed]

    def is_slowed(self, source: Source) -> bool:
        """Whether a publisher has to wait, or may have less on its way than usual."""
        return source in self._slowed

    def reason_of(self, source: Source) -> HeldBack:
        """Why a publisher is slowed down."""
        passage = _passage(source)
        if passage.held_back.reason:
            return passage.held_back
        return HeldBack(_path_reason(source, passage), passage.path_bytes)

    def full_link(self, passage: Passage) -> str:
        """Why publishers get no credit back as long as the link towards the pubend has much to send; empty if not.

        Nor while others wait for that link, who have not had their turn.
        """
        parent = self._connections.links.get(passage.parent)
        if parent is None or not (_is_full(parent) or passage.parent in self._waiting):
            return ""
        return f"the link to broker {passage.parent} is full"

    def _wait_for_link(self, source: Source, passage: Passage, now_ms: int) -> None:
        """Waits for the link towards the pubend, if any, behind others; who waits for it already keeps its place."""
        if passage.waits_for == passage.parent:
            return
        self._stop_waiting(source, passage)
        if not passage.parent:
            return
        if not self._waiting:
            self._look_ms = now_ms + _LOOK_MS
            self.due.by(self._look_ms)
        passage.waits_for = passage.parent
        self._waiting.setdefault(passage.parent, {})[source] = None

    def _stop_waiting(self, source: Source, passage: Passage) -> None:
        if passage.waits_for:
            waiting = self._waiting[passage.waits_for]
            del waiting[source]
            if not waiting:
                del self._waiting[passage.waits_for]
            passage.waits_for = ""

    def _serve_waiting(self, now_ms: int) -> None:
        """Has those that wait for a link go on, in order, as long as what they want to send has room there."""
        for name, waiting in list(self._waiting.items()):
            parent = self._connections.links.get(name)
            if parent is None or _is_full(parent):
                continue
            room_bytes = parent.outbox.data_bytes_max // 2 - parent.outbox.data_bytes
            for source in list(waiting):
                passage = _passage(source)
                if passage.is_stalled:
                    passage.woken_ms = now_ms
                    self._retry(source, passage, now_ms, is_its_turn=True)
                elif now_ms >= passage.woken_ms + _TURN_MS:
                    # It is slow, or has nothing to send any more.
                    self._stop_waiting(source, passage)
                    continue
                room_bytes -= passage.denied_bytes
                if room_bytes <= 0:
                    break

    def _note(self, source: Source, passage: Passage) -> None:
        if passage.held_back.reason or passage.path_bytes:
            self._slowed[source] = None
        else:
            self._slowed.pop(source, None)
        self._news[source] = None

    # --- time, and changes of the overlay

    def next_deadline(self) -> int | None:
        """When to ask a home, to look at a link, or to try again."""
        self._asking = {source: None for source in self._asking if _passage(source).ask_ms is not None}
        wishes = [_passage(source).ask_ms or 0 for source in self._asking]
        return min([*wishes, self._look_ms] if self._waiting else wishes, default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Asks homes that have been silent for too long, and tries again where there was no way."""
        if self._waiting and now_ms >= self._look_ms:
            self._look_ms = now_ms + _LOOK_MS
            self._serve_waiting(now_ms)
        for source in list(self._asking):
            passage = _passage(source)
            if passage.ask_ms is None or now_ms < passage.ask_ms:
                continue
            passage.ask_ms = None
            if passage.is_stalled:
                self._retry(source, passage, now_ms)
            elif source.outstanding or passage.held_back.reason:
                passage.wait_ms = min(max(2 * passage.wait_ms, _ASK_MS), _ASK_MS_MAX)
                self.ask(source, now_ms=now_ms)
                self._ask_later(source, passage, now_ms)

    def look(self, *, now_ms: int) -> None:
        """Begins anew where the path has changed, or the pubend itself; called after every change of the overlay."""
        for source in list(self._sources.values()):
            passage = _passage(source)
            parent = self._parent(source.pubend)
            is_guaranteed = self._topology.is_guaranteed(source.pubend)
            if not parent:
                passage.parent = ""
                self._stop_waiting(source, passage)
                if not passage.is_stalled:
                    self._stall(source, passage, now_ms)
            elif parent != passage.parent or is_guaranteed != passage.is_guaranteed:
                self._begin_anew(source, passage, now_ms)

    def _retry(self, source: Source, passage: Passage, now_ms: int, *, is_its_turn: bool = False) -> None:
        """Wants the messages again that found no way, if there is one by now, and nobody waits for it longer."""
        name = self._parent(source.pubend)
        parent = self._connections.links.get(name)
        is_gone = self._topology.origin_of(source.pubend) is None and self._knows_all()
        if parent is None and not is_gone:
            self._stall(source, passage, now_ms)
        elif name != passage.parent or parent is None:
            # If there is no such pubend any more, the messages are refused when they come again.
            self._begin_anew(source, passage, now_ms)
        elif _is_full(parent) or not is_its_turn:
            self._stall(source, passage, now_ms)
        else:
            passage.is_stalled, passage.held_back = False, passage.said
            self._note(source, passage)
            self._rewind(source, source.received + 1, -1, now_ms)
            if source.outstanding:
                self._ask_later(source, passage, now_ms)

    def check_invariants(self) -> None:
        """Fails if the credit of a publisher does not add up, or if it waits where nobody looks."""
        for source in self._clients:
            passage = _passage(source)
            on_way_bytes = sum(batch.size for batch in source.outstanding)
            assert source.unpaid_bytes == source.withheld_bytes + on_way_bytes, f"credit of {source.publisher.hex()}"
            assert not passage.waits_for or source in self._waiting[passage.waits_for]
            assert passage.waits_for or not (passage.is_stalled and passage.parent)
        assert all(self._waiting.values())

    def _ask_later(self, source: Source, passage: Passage, now_ms: int) -> None:
        self._wake(source, passage, now_ms + max(passage.wait_ms, _ASK_MS))

    def _wake(self, source: Source, passage: Passage, due_ms: int) -> None:
        passage.ask_ms = due_ms
        self._asking[source] = None
        self.due.by(due_ms)


def _passage(source: Source) -> Passage:
    assert source.passage is not None, f"messages to {source.pubend} stay here"
    return source.passage


def _path_reason(source: Source, passage: Passage) -> str:
    """Why a publisher may have less on its way than usual."""
    return passage.path_reason or f"the path to pubend {source.pubend} is congested"


def _cut(bodies: list[bytes], start: int) -> int:
    """Where the frame that begins at a place ends."""
    if not start and sum(map(len, bodies)) <= _FRAME_BYTES:
        # Nearly always.
        return len(bodies)
    size = len(bodies[start])
    for end in range(start + 1, len(bodies)):
        size += len(bodies[end])
        if size > _FRAME_BYTES:
            return end
    return len(bodies)


def _is_full(peer: Peer) -> bool:
    return peer.outbox.data_bytes >= peer.outbox.data_bytes_max // 2
