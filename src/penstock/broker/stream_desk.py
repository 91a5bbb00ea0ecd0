"""Settles where subscriptions begin and who owns durable names: questions go up the trees, answers come down.

A broker forwards what is not for it; as host it asks (``Openings``), as pubend it answers (``PubendDesk``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from penstock.broker.access import Claimant
from penstock.broker.claims import Claims
from penstock.broker.commits import Commits
from penstock.broker.due import Due
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.edges import Edges
from penstock.broker.host.openings import Openings
from penstock.broker.host.positions import ClientPositions
from penstock.broker.host.wishes import Refusal, Wish
from penstock.broker.neighbours.ways import Ways
from penstock.broker.pubend.desk import Answer, PubendDesk
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.rooms import Rooms
from penstock.model.limits import SETTLED_MAX
from penstock.protocol.frames import DurablesReply, Positions, Settled
from penstock.protocol.stream_frames import (
    StreamForget,
    StreamForgotten,
    StreamList,
    StreamListed,
    StreamOpen,
    StreamOpened,
    StreamSettle,
    StreamSettled,
    StreamTaken,
    Ticks,
)

__all__ = ["StreamDesk", "StreamFrame"]

StreamFrame: TypeAlias = StreamOpen | StreamForget | StreamList | StreamSettle | Answer
"""What hosts and pubends say to each other about where subscriptions begin and who owns names."""

_NUMBER_BITS: Final = 30
"""Bits of a client's number of its request, beside which a frame carries the connection."""
_DURABLES_PER_FRAME: Final = 1_000
_REMARK_EVERY: Final = 10
"""How many reports until all durable positions are reported again, as a report may have been lost."""


class StreamDesk:
    """One broker's part in settling where subscriptions begin and who owns durable names.

    Returns what its answers require of this broker's own streams and clients, as wishes in the order of their causes.
    """

    def __init__(
        self,
        rooms: Rooms,
        logs: Mapping[str, PubendLog],
        registers: Mapping[str, Register],
        commits: Commits,
        edges: Edges,
        finality: Finality,
        work: WorkHome,
    ) -> None:
        self._name, self._connections = rooms.settings.name, rooms.connections
        self._durables_max = rooms.settings.durables_max
        self.claims = Claims(rooms.settings.number)
        self._logs = logs
        self._ways = Ways(rooms, logs)
        incarnation = rooms.filters.incarnation
        self._openings = Openings(self._name, self.claims, incarnation=incarnation, send=self.hear)
        self._pubends = PubendDesk(rooms.settings, logs, registers, commits, work)
        self._edges, self._finality = edges, finality
        self._reports = 0
        self._passing: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
        """Positions to forward, by pubend, name and host: two hosts may both believe that they own a name."""
        self._settling: dict[tuple[int, str], tuple[HostSubscription, int, Ticks]] = {}
        """What clients have acknowledged in this turn: position and single messages, by subscription and pubend."""

    @property
    def counts(self) -> dict[str, int]:
        """Event counters."""
        return self._pubends.counts

    # --- as host

    def open(self, subscription: HostSubscription, pubend: str, *, now_ms: int) -> list[Wish]:
        """Asks a pubend where a subscription may begin."""
        return self._openings.ask(subscription, pubend, now_ms=now_ms)

    def leave(self, key: int) -> None:
        """Withdraws the questions of a subscription that is gone."""
        self._openings.leave(key)

    def forgetting(self, connection: int, client: str) -> int:
        """How many requests to forget names are pending, from a connection or from the client with this proven name."""
        return self._openings.forgetting(connection, client)

    def forget(
        self, connection: int, number: int, name: str, pubends: list[str], by: Claimant, *, now_ms: int
    ) -> list[Wish]:
        """Asks pubends to forget a durable name, for a client."""
        return self._openings.forget(connection, number, name, pubends, by, now_ms=now_ms)

    # --- frames of neighbours, and of this broker itself

    def hear(self, frame: StreamFrame, *, now_ms: int) -> list[Wish]:
        """Handles a frame about a stream, from a neighbour or from this broker itself, or forwards it."""
        log = self._logs.get(frame.pubend)
        if log is not None and not log.is_begun and not isinstance(frame, Answer):
            # It does not know where it is yet; whoever needs the answer asks again.
            return []
        match frame:
            case StreamOpen():
                return self._on_open(frame, now_ms)
            case StreamForget():
                return self._on_forget(frame, now_ms)
            case StreamList():
                return self._on_list(frame, now_ms)
            case StreamSettle():
                return self._on_settle(frame, now_ms)
            case StreamOpened() | StreamTaken() | StreamForgotten() | StreamListed() | StreamSettled():
                return self._on_answer(frame, now_ms)

    def _on_open(self, frame: StreamOpen, now_ms: int) -> list[Wish]:
        """Answers a host's question, or forwards it."""
        if frame.pubend not in self._logs:
            self._ways.up(frame.pubend, frame)
            return []
        tick, answers = self._pubends.open(frame, now_ms=now_ms)
        wishes = self._answer(answers, now_ms)
        if tick is not None:
            self._finality.report(frame.pubend, frame.host, tick, is_settled=False, now_ms=now_ms)
        return wishes

    def _on_forget(self, frame: StreamForget, now_ms: int) -> list[Wish]:
        """A host says that a name is not needed any more."""
        if frame.pubend in self._logs:
            return self._answer(self._pubends.forget(frame), now_ms)
        self._ways.up(frame.pubend, frame)
        return []

    def ask_names(
        self, connection: int, number: int, pubend: str, after: str, durable: str, by: str, *, now_ms: int
    ) -> None:
        """Asks a pubend which durable subscriptions it keeps, for a client.

        Nothing has to be remembered: the answer names the connection and the client's number, and who gets none asks
        again.
        """
        self.hear(
            StreamList(pubend, self._name, connection << _NUMBER_BITS | number, after, durable, by), now_ms=now_ms
        )

    def _on_list(self, frame: StreamList, now_ms: int) -> list[Wish]:
        """Answers a host that wants to know names, or forwards its question."""
        if frame.pubend in self._logs:
            return self._answer(self._pubends.on_list(frame, now_ms=now_ms), now_ms)
        self._ways.up(frame.pubend, frame)
        return []

    def _on_listed(self, frame: StreamListed) -> None:
        peer = self._connections.peers.get(frame.number >> _NUMBER_BITS)
        if peer is not None and peer.guest is not None:
            number = frame.number % (1 << _NUMBER_BITS)
            self._connections.say(peer, DurablesReply(number, frame.entries, frame.is_more))

    def _answer(self, answers: list[Answer], now_ms: int) -> list[Wish]:
        """Passes on what pubends of this broker have to say to hosts, of which this broker may be one."""
        return [wish for answer in answers for wish in self._on_answer(answer, now_ms)]

    def _on_answer(self, answer: Answer, now_ms: int) -> list[Wish]:
        """Handles what a pubend says to this host, or forwards it."""
        if answer.host != self._name:
            self._ways.down(answer.pubend, answer.host, answer)
            return []
        match answer:
            case StreamOpened():
                return self._on_opened(answer, now_ms)
            case StreamTaken():
                return self._on_taken(answer, now_ms)
            case StreamForgotten():
                return self._openings.on_forgotten(answer)
            case StreamListed():
                self._on_listed(answer)
                return []
            case StreamSettled():
                self._on_settled(answer)
                return []

    def _on_opened(self, frame: StreamOpened, now_ms: int) -> list[Wish]:
        """A pubend says where a subscription begins, or why it cannot."""
        opening, wishes = self._openings.answer(frame, is_leaving=self._is_leaving, now_ms=now_ms)
        if opening is None:
            return wishes + self._openings.on_late(frame, now_ms=now_ms)
        subscription = opening.subscription
        wishes += self._openings.withdraw_if_denied(subscription, frame, now_ms=now_ms)
        problem = frame.problem
        if frame.held:
            problem = f"durable subscription {subscription.durable!r} is in use and could not be taken over"
        if problem:
            wishes.append(Refusal(subscription, problem))
        elif frame.pubend not in subscription.opened and not subscription.is_denied:
            if subscription.durable:
                # Also here: the pubend's notice about a former owner may have got lost, and covers only the last one.
                name, ownership = subscription.durable, subscription.ownership
                former, _ = self._edges.on_taken(frame.pubend, name, ownership, subscription.claimant)
                wishes += self._end(former)
            if frame.settled:
                subscription.settled[frame.pubend] = frame.settled
            wishes += self._edges.on_opened(subscription, frame.pubend, frame.tick, now_ms=now_ms)
        return wishes

    def _is_leaving(self, subscription: HostSubscription) -> bool:
        peer = self._connections.peers.get(subscription.connection)
        return peer is not None and peer.guest is not None and peer.guest.is_leaving

    def _on_taken(self, frame: StreamTaken, now_ms: int) -> list[Wish]:
        """A durable name has a new owner."""
        lower, higher = self._edges.on_taken(frame.pubend, frame.durable, frame.ownership)
        wishes = self._end(lower)
        for subscription in higher:
            # The pubend does not know our claim yet.
            wishes += self._openings.ask(subscription, frame.pubend, now_ms=now_ms)
        return wishes

    def _end(self, subscriptions: list[HostSubscription]) -> list[Wish]:
        """Ends subscriptions here that have lost their name to a higher claim."""
        wishes: list[Wish] = []
        for subscription in subscriptions:
            what = f"durable subscription {subscription.durable!r} was taken over or forgotten"
            wishes.append(Refusal(subscription, what))
            # It must not claim anything any more, not even in reply to frames that are on their way.
            self._openings.leave(subscription.key)
        return wishes

    # --- what was acknowledged under durable names, message by message

    def settle(self, pubend: str, subscription: HostSubscription, below: int, ticks: Ticks) -> None:
        """Notes what a client has acknowledged: its pubend is told at the end of the turn, in one frame.

        What exceeds a frame is left out: the client repeats what it has no answer to.
        """
        _, known_below, known = self._settling.get((subscription.key, pubend), (subscription, 0, ()))
        together = tuple(dict.fromkeys((*known, *ticks)))[:SETTLED_MAX]
        self._settling[subscription.key, pubend] = (subscription, max(below, known_below), together)

    def _tell_settled(self, now_ms: int) -> list[Wish]:
        """Tells pubends what clients have acknowledged."""
        settling, self._settling = self._settling, {}
        wishes: list[Wish] = []
        for (key, pubend), (subscription, below, ticks) in settling.items():
            owner = (subscription.durable, subscription.ownership)
            wishes += self.hear(StreamSettle(pubend, self._name, key, *owner, below, ticks), now_ms=now_ms)
        return wishes

    def _on_settle(self, frame: StreamSettle, now_ms: int) -> list[Wish]:
        """Takes what a host says was acknowledged, or forwards it."""
        if frame.pubend in self._logs:
            return self._answer(self._pubends.settle(frame, now_ms=now_ms), now_ms)
        self._ways.up(frame.pubend, frame)
        return []

    def _on_settled(self, frame: StreamSettled) -> None:
        """A pubend keeps what was acknowledged: tells the client."""
        hosted, edge = self._edges.subscriptions.get(frame.ticket), self._edges.edges.get(frame.pubend)
        # The key of a subscription that has ended may be another's by now.
        if hosted is None or edge is None or (hosted.durable, hosted.ownership) != (frame.durable, frame.ownership):
            return
        peer = self._connections.peers.get(hosted.connection)
        if peer is not None:
            self._connections.say(peer, Settled(hosted.number, edge.number, frame.below, frame.ticks))

    @property
    def is_settling(self) -> bool:
        """Whether something that was acknowledged in this turn is to be told, or kept."""
        return bool(self._settling) or self._pubends.is_settling

    def finish(self, *, now_ms: int) -> list[Wish]:
        """Does what the turn has led to, before its commit is taken."""
        wishes = self._tell_settled(now_ms) if self._settling else []
        return wishes + self._answer(self._pubends.finish(), now_ms)

    def on_committed(self, number: int, *, now_ms: int) -> list[Wish]:
        """Commits up to this number are durable: passes on the answers that waited for them."""
        return self._answer(self._pubends.on_committed(number), now_ms)

    # --- positions of durable subscriptions

    def on_positions(self, frame: Positions, *, now_ms: int) -> list[Wish]:
        """Takes the positions of durable subscriptions downstream that have moved."""
        wishes: list[Wish] = []
        log = self._logs.get(frame.pubend)
        if log is not None and not log.is_begun:
            # It may have lost names, and must not deny them. They are reported again.
            return wishes
        for name, ownership, tick, host in frame.durables:
            wishes += self._pass(frame.pubend, name, ownership, tick, host, now_ms)
        return wishes

    def report(self, positions: ClientPositions, *, now_ms: int) -> list[Wish]:
        """Reports the positions that have moved here, together with those reported to this broker."""
        self._reports += 1
        if self._reports % _REMARK_EVERY == 0:
            positions.remark()
        # Before a subscription ends, and somebody else claims its name.
        wishes = self._tell_settled(now_ms)
        for pubend, moved in positions.take_moved().items():
            for name, (ownership, tick) in moved.items():
                wishes += self._pass(pubend, name, ownership, tick, self._name, now_ms)
        self.pass_on()
        return wishes

    def pass_on(self) -> None:
        """Forwards the reports that have been waiting, none of which is for a pubend of this broker."""
        passing, self._passing = self._passing, {}
        for pubend, names in passing.items():
            words = [(name, *word, host) for (name, host), word in names.items()]
            for start in range(0, len(words), _DURABLES_PER_FRAME):
                self._ways.up(pubend, Positions(pubend, (), tuple(words[start : start + _DURABLES_PER_FRAME])))

    def take_changes(self, commits: Commits) -> None:
        """Adds the positions that have moved to the commit."""
        for change in self._pubends.changes():
            commits.add(change)

    def _pass(self, pubend: str, name: str, ownership: int, tick: int, host: str, now_ms: int) -> list[Wish]:
        if pubend in self._logs:
            return self._answer(self._pubends.move(pubend, name, ownership, tick, host, now_ms=now_ms), now_ms)
        passing = self._passing.setdefault(pubend, {})
        # No pubend keeps more names than this; a position that is left out is reported again.
        if len(passing) < self._durables_max or (name, host) in passing:
            passing[name, host] = (ownership, tick)
        return []

    # --- time

    @property
    def due(self) -> Due:
        """When unanswered questions are asked again."""
        return self._openings.due

    def on_deadline(self, *, now_ms: int) -> list[Wish]:
        """Repeats unanswered questions."""
        due_ms = self._openings.next_deadline()
        if due_ms is None or due_ms > now_ms:
            return []
        return self._openings.on_deadline(now_ms=now_ms)
