"""Settles where subscriptions begin and who owns durable names: questions go up the trees, answers come down.

A broker forwards what is not for it; as host it asks (``Openings``), as pubend it answers (``PubendDesk``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.broker.access import Claimant
from penstock.broker.claims import Claims
from penstock.broker.commits import Commits
from penstock.broker.due import Due
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.edges import Edges
from penstock.broker.host.openings import Forgetting, Openings
from penstock.broker.host.positions import ClientPositions
from penstock.broker.host.wishes import Refusal, Wish
from penstock.broker.neighbours.ways import Ways
from penstock.broker.pubend.desk import PubendDesk
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.rooms import Rooms
from penstock.protocol.frames import ControlFrame, Positions
from penstock.protocol.stream_frames import StreamForget, StreamForgotten, StreamOpen, StreamOpened, StreamTaken

__all__ = ["StreamDesk"]

_DURABLES_PER_FRAME: Final = 1_000
_REMARK_EVERY: Final = 10
"""How many reports until all durable positions are reported again, as a report may have been lost."""


class StreamDesk:
    """One broker's part in settling where subscriptions begin and who owns durable names."""

    def __init__(
        self,
        rooms: Rooms,
        logs: Mapping[str, PubendLog],
        registers: Mapping[str, Register],
        commits: Commits,
        edges: Edges,
        finality: Finality,
    ) -> None:
        self._name, self._connections = rooms.settings.name, rooms.connections
        self._durables_max = rooms.settings.durables_max
        self.claims = Claims(rooms.settings.number)
        self._logs = logs
        self._ways = Ways(rooms, logs, self.hear)
        incarnation = rooms.filters.incarnation
        self._openings = Openings(self._name, self.claims, incarnation=incarnation, send=self._ways.up)
        self._pubends = PubendDesk(rooms.settings, logs, registers, commits, send=self._ways.down)
        self._edges, self._finality = edges, finality
        self._now_ms = 0
        self._reports = 0
        self._passing: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
        """Positions to forward, by pubend, name and host: two hosts may both believe that they own a name."""
        self._wishes: list[Wish] = []

    @property
    def counts(self) -> dict[str, int]:
        """Event counters."""
        return self._pubends.counts

    def begin_turn(self, now_ms: int) -> None:
        """Sets the time of a new stimulus."""
        self._now_ms = now_ms

    def take_wishes(self) -> list[Wish]:
        """Returns what the last calls require of this broker's own streams; to be called after each of them."""
        wishes, self._wishes = self._wishes, []
        return wishes

    # --- as host

    def open(self, subscription: HostSubscription, pubend: str) -> None:
        """Asks a pubend where a subscription may begin."""
        self._openings.ask(subscription, pubend, now_ms=self._now_ms)

    def leave(self, key: int) -> None:
        """Withdraws the questions of a subscription that is gone."""
        self._openings.leave(key)

    def forgetting(self, connection: int, client: str) -> int:
        """How many requests to forget names are pending, from a connection or from the client with this proven name."""
        return self._openings.forgetting(connection, client)

    def forget(self, connection: int, number: int, name: str, pubends: list[str], by: Claimant) -> None:
        """Asks pubends to forget a durable name, for a client."""
        self._openings.forget(connection, number, name, pubends, by, now_ms=self._now_ms)

    @property
    def has_done(self) -> bool:
        """Whether any requests to forget can be answered."""
        return bool(self._openings.done)

    def take_done(self) -> list[Forgetting]:
        """Returns the requests to forget that can be answered."""
        done, self._openings.done = self._openings.done, []
        return done

    # --- frames of neighbours, and of this broker itself

    def hear(self, frame: ControlFrame) -> None:
        """Handles a frame about a stream, from a neighbour or from this broker itself."""
        match frame:
            case StreamOpen():
                self._on_open(frame)
            case StreamOpened():
                self._on_opened(frame)
            case StreamTaken():
                self._on_taken(frame)
            case StreamForget():
                self._on_forget(frame)
            case StreamForgotten():
                self._on_forgotten(frame)
            case Positions():
                self.on_positions(frame)

    def _on_open(self, frame: StreamOpen) -> None:
        """Answers a host's question, or forwards it."""
        if frame.pubend not in self._logs:
            self._ways.up(frame.pubend, frame)
            return
        tick = self._pubends.open(frame, now_ms=self._now_ms)
        if tick is not None:
            self._finality.report(frame.pubend, frame.host, tick, is_settled=False, now_ms=self._now_ms)

    def _on_opened(self, frame: StreamOpened) -> None:
        """Handles a pubend's answer, or forwards it."""
        if frame.host != self._name:
            self._ways.down(frame.pubend, frame.host, frame)
            return
        opening = self._openings.answer(frame, is_leaving=self._is_leaving, now_ms=self._now_ms)
        if opening is None:
            self._openings.on_late(frame, now_ms=self._now_ms)
            return
        self._openings.withdraw_if_denied(opening.subscription, frame, now_ms=self._now_ms)
        problem = frame.problem
        if frame.held:
            problem = f"durable subscription {opening.subscription.durable!r} is in use and could not be taken over"
        if problem:
            self._wishes.append(Refusal(opening.subscription, problem))
        elif frame.pubend not in opening.subscription.opened and not opening.subscription.is_denied:
            if opening.subscription.durable:
                # Also here: the pubend's notice about a former owner may have got lost, and covers only the last one.
                later = opening.subscription
                self._end_below(later.durable, later.ownership, later.claimant)
            self._wishes += self._edges.on_opened(opening.subscription, frame.pubend, frame.tick, now_ms=self._now_ms)

    def _is_leaving(self, subscription: HostSubscription) -> bool:
        peer = self._connections.peers.get(subscription.connection)
        return peer is not None and peer.guest is not None and peer.guest.is_leaving

    def _on_taken(self, frame: StreamTaken) -> None:
        """A durable name has a new owner."""
        if frame.host != self._name:
            self._ways.down(frame.pubend, frame.host, frame)
        else:
            for subscription in self._end_below(frame.durable, frame.ownership):
                # The pubend does not know our claim yet.
                self._openings.ask(subscription, frame.pubend, now_ms=self._now_ms)

    def _end_below(self, durable: str, ownership: int, by: Claimant | None = None) -> list[HostSubscription]:
        """Ends the subscriptions here whose claim to a name is lower; returns those whose claim is higher."""
        ended, higher = self._edges.on_taken(durable, ownership, by)
        for subscription in ended:
            what = f"durable subscription {durable!r} was taken over or forgotten"
            self._wishes.append(Refusal(subscription, what))
            # It must not claim anything any more, not even in reply to frames that are on their way.
            self._openings.leave(subscription.key)
        return higher

    def _on_forget(self, frame: StreamForget) -> None:
        """A host says that a name is not needed any more."""
        if frame.pubend in self._logs:
            self._pubends.forget(frame)
        else:
            self._ways.up(frame.pubend, frame)

    def _on_forgotten(self, frame: StreamForgotten) -> None:
        """A pubend has forgotten a name."""
        if frame.host != self._name:
            self._ways.down(frame.pubend, frame.host, frame)
        else:
            self._openings.on_forgotten(frame)

    def on_committed(self, number: int) -> None:
        """Commits up to this number are durable."""
        self._pubends.on_committed(number)

    # --- positions of durable subscriptions

    def on_positions(self, frame: Positions) -> None:
        """Takes the positions of durable subscriptions downstream that have moved."""
        for name, ownership, tick, host in frame.durables:
            self._pass(frame.pubend, name, ownership, tick, host)

    def report(self, positions: ClientPositions) -> None:
        """Reports the positions that have moved here, together with those reported to this broker."""
        self._reports += 1
        if self._reports % _REMARK_EVERY == 0:
            positions.remark()
        for pubend, moved in positions.take_moved().items():
            for name, (ownership, tick) in moved.items():
                self._pass(pubend, name, ownership, tick, self._name)
        self.pass_on()

    def pass_on(self) -> None:
        """Forwards the reports that have been waiting."""
        passing, self._passing = self._passing, {}
        for pubend, names in passing.items():
            words = [(name, *word, host) for (name, host), word in names.items()]
            for start in range(0, len(words), _DURABLES_PER_FRAME):
                self._ways.up(pubend, Positions(pubend, (), tuple(words[start : start + _DURABLES_PER_FRAME])))

    def take_changes(self, commits: Commits) -> None:
        """Adds the positions that have moved to the commit."""
        for change in self._pubends.changes():
            commits.add(change)

    def _pass(self, pubend: str, name: str, ownership: int, tick: int, host: str) -> None:
        if pubend in self._logs:
            self._pubends.move(pubend, name, ownership, tick, host)
            return
        passing = self._passing.setdefault(pubend, {})
        # No pubend keeps more names than this; a position that is left out is reported again.
        if len(passing) < self._durables_max or (name, host) in passing:
            passing[name, host] = (ownership, tick)

    # --- time

    @property
    def due(self) -> Due:
        """When unanswered questions are asked again."""
        return self._openings.due

    def on_deadline(self, *, now_ms: int) -> None:
        """Repeats unanswered questions."""
        due_ms = self._openings.next_deadline()
        if due_ms is not None and due_ms <= now_ms:
            self._openings.on_deadline(now_ms=now_ms)
