"""Brings members of groups and pubends together: questions go up the trees, work and answers come down.

A broker forwards what is not for it; as host it asks (``WorkHost``), as home of pubends it answers (``WorkHome``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from penstock.broker.commits import Commits
from penstock.broker.due import Due
from penstock.broker.effects import ReadLog
from penstock.broker.host.work import SEATS_MAX, Seat, WorkHost, WorkQuestion
from penstock.broker.neighbours.ways import Ways
from penstock.broker.peers import Peer, guest_of
from penstock.broker.pubend.dead_letters import DeadLetters
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.pubend.work import WorkAnswer, WorkHome
from penstock.broker.rooms import Rooms
from penstock.model.body import BODY_BYTES_MIN
from penstock.model.names import is_durable_name
from penstock.model.tick import TickRange
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Carried,
    Carry,
    Handed,
    Join,
    Verdicts,
    WorkAsk,
    WorkJoined,
    WorkLeave,
    WorkOutcomes,
    WorkVerdicts,
)
from penstock.protocol.work_frames import PREFETCH_MAX
from penstock.streams.knowledge import Knowledge

__all__ = ["WorkDesk", "WorkFrame"]

_NUMBER_MAX: Final = 2**32

WorkFrame: TypeAlias = WorkQuestion | WorkAnswer
"""What hosts and pubends say to each other about work."""


class WorkDesk:
    """One broker's part in work queues."""

    def __init__(
        self,
        rooms: Rooms,
        logs: Mapping[str, PubendLog],
        registers: Mapping[str, Register],
        commits: Commits,
        values: Mapping[str, bytes],
        *,
        publish_dead: Callable[[str, bytes, int, list[bytes], int], int | None],
    ) -> None:
        """``publish_dead`` publishes dead letters to a pubend of this broker; see ``DeadLetters``."""
        self._settings, self._connections = rooms.settings, rooms.connections
        self._logs = logs
        self._tracker, self._router, self._topology = rooms.tracker, rooms.router, rooms.topology
        self._ways = Ways(rooms, logs)
        self.home = WorkHome(
            rooms.settings,
            rooms.connections,
            logs,
            registers,
            commits,
            values,
            DeadLetters(rooms.settings.name, logs, publish=publish_dead, send=self._send_dead),
            life=rooms.filters.incarnation,
        )
        self.host = WorkHost(
            rooms.settings,
            rooms.connections,
            targets=lambda: list(rooms.topology.guaranteed()),
            is_in_reach=self._ways.leads_to,
            delivered=self._note,
        )
        self._refused: list[tuple[Seat, str]] = []

    @property
    def counts(self) -> dict[str, int]:
        """Event counters."""
        return {**self.home.counts, **self.host.counts}

    def begin(self, *, now_ms: int) -> None:
        """Goes on with the groups of the former life."""
        self.home.begin(now_ms=now_ms)

    def tune(self, *, now_ms: int) -> None:
        """Applies changed settings: dead letters may come here from now on."""
        self.home.keep_dead_letters(now_ms=now_ms)

    # --- clients

    def problem_with(self, peer: Peer, frame: Join) -> str:
        """Why a client cannot join a group, apart from what it wants to select; empty if it can."""
        guest, places = guest_of(peer), self._topology.pubends() if frame.pubends else {}
        if not is_durable_name(frame.group):
            return f"group name {frame.group!r} is not 1 to 200 letters, digits, - _ . : or /"
        if not 0 <= frame.number < _NUMBER_MAX:
            return f"subscription number {frame.number} has more than 32 bits"
        if self.host.has(peer.connection, frame.number) or frame.number in guest.subscriptions:
            return f"subscription {frame.number} exists already"
        if self.host.seats_of(peer.connection) >= SEATS_MAX:
            return f"a client cannot be in more than {SEATS_MAX:,} groups"
        if not self._settings.access.is_open and not guest.rule.shares(frame.group):
            return f"client {guest.client} may not join group {frame.group!r}: no durable pattern of its rule fits"
        if frame.prefetch > PREFETCH_MAX:
            return f"prefetch is {frame.prefetch}; it must be 0 to {PREFETCH_MAX:,}"
        logless = [each for each in frame.pubends if not places.get(each, ("", True))[1]]
        if logless:
            return f"pubend {logless[0]} is best effort: it has no log, which a group needs"
        if frame.deliveries_max and not self._settings.dead_letters:
            return "deliveries_max needs a pubend for dead letters, and this overlay has none (dead_letters)"
        return ""

    def join(self, peer: Peer, frame: Join, selector: str, *, now_ms: int) -> None:
        """Takes a client into a group."""
        is_owned = not self._settings.access.is_open
        self._tracker.attach(peer.connection, frame.number, peer.name, durable=False, selector=selector)
        self._put(self.host.join(peer, frame, selector, is_owned=is_owned, now_ms=now_ms), now_ms)

    def verdicts(self, peer: Peer, frame: Verdicts, *, now_ms: int) -> None:
        """A client says what becomes of messages."""
        self._put(self.host.verdicts(peer, frame), now_ms)

    def unsubscribe(self, peer: Peer, number: int, *, now_ms: int) -> None:
        """A client leaves a group."""
        self._tracker.detach(peer.connection, number)
        self._put(self.host.unsubscribe(peer, number), now_ms)

    def leave(self, connection: int, *, now_ms: int) -> None:
        """A client's connection is gone."""
        self._put(self.host.leave(connection), now_ms)

    def take_refused(self) -> list[tuple[Seat, str]]:
        """Returns the members that pubends did not take, each with the reason."""
        if not self._refused:
            return []
        refused, self._refused = self._refused, []
        return refused

    def _note(self, seat: Seat, bodies: list[bytes]) -> None:
        if self._tracker.is_on:
            self._tracker.notes.deliver(bodies, [seat.number.to_bytes(4)] * len(bodies), [seat.connection])

    # --- frames of neighbours, and of this broker itself

    def hear(self, frame: WorkFrame, *, now_ms: int) -> None:
        """Handles a frame about work, or forwards it."""
        if isinstance(frame, WorkAsk | WorkLeave | WorkVerdicts):
            self._on_question(frame, now_ms)
        else:
            self._on_answer(frame, now_ms)

    def hear_handed(self, frame: Handed, neighbour: str, *, now_ms: int) -> None:
        """Messages that a neighbour hands out, to a client here or farther on; that they came this way is recorded."""
        if frame.bodies and min(map(len, frame.bodies)) < BODY_BYTES_MIN:
            raise ProtocolError(f"pubend {frame.pubend} hands out a message that is too small to be one")
        if self._tracker.is_on and frame.bodies:
            self._tracker.note_routed(frame.bodies, neighbour)
        self._on_answer(frame, now_ms)

    def _put(self, questions: Iterable[WorkQuestion], now_ms: int) -> None:
        for question in questions:
            # One of this broker's own pubends may have refused the member meanwhile.
            if not isinstance(question, WorkAsk) or self.host.is_there(question.member):
                self._on_question(question, now_ms)

    def _on_question(self, frame: WorkQuestion, now_ms: int) -> None:
        if frame.pubend not in self._logs:
            self._ways.up(frame.pubend, frame)
            return
        if not self._logs[frame.pubend].is_begun:
            # Hosts repeat what is not answered.
            return
        match frame:
            case WorkAsk():
                self._answer(self.home.ask(frame, now_ms=now_ms), now_ms)
            case WorkLeave():
                self.home.leave(frame, now_ms=now_ms)
            case WorkVerdicts():
                self.home.judge(frame, now_ms=now_ms)

    def _answer(self, answers: Iterable[WorkAnswer], now_ms: int) -> None:
        for answer in answers:
            self._on_answer(answer, now_ms)

    def _on_answer(self, frame: WorkAnswer, now_ms: int) -> None:
        if frame.host != self._settings.name:
            self._send_down(frame)
            return
        match frame:
            case WorkJoined():
                refused = self.host.on_joined(frame)
                if refused is not None:
                    seat, problem, left = refused
                    self._refused.append((seat, problem))
                    self._put(left, now_ms)
            case Handed():
                self.host.on_handed(frame)
            case WorkOutcomes():
                self.host.on_outcomes(frame)

    def _send_down(self, frame: WorkAnswer) -> None:
        if not isinstance(frame, Handed):
            self._ways.down(frame.pubend, frame.host, frame)
        elif (child := self._ways.child(frame.pubend, frame.host)) is not None:
            # A link that is full loses it: the host notices, and it is sent again.
            self._connections.carry(child, frame)

    def _send_dead(self, frame: Carry) -> None:
        parent = self._ways.parent(frame.pubend)
        if parent is not None:
            self._connections.carry(parent, frame)

    def on_carried(self, frame: Carried, *, now_ms: int) -> bool:
        """The pubend for dead letters has answered; returns False if the answer is for somebody else."""
        is_ours = frame.host == self._settings.name and self.home.dead_letters.on_carried(frame, now_ms=now_ms)
        self.home.bury()
        return is_ours

    # --- logs, commits and time

    def on_announced(self, knowledge: Knowledge, *, now_ms: int) -> None:
        """Messages of a pubend of this broker have become durable."""
        self.home.on_announced(knowledge, now_ms=now_ms)

    def on_read(
        self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None, *, now_ms: int
    ) -> bool:
        """A read has ended; returns False if it was not ours."""
        return self.home.on_read(number, messages, last, damaged, now_ms=now_ms)

    def on_committed(self, number: int, *, values_only: bool, now_ms: int) -> None:
        """Commits up to this number are durable, or only their values: sends what waited for them."""
        if self.home.is_idle:
            return
        if not values_only:
            self.home.dead_letters.on_committed(number)
            self.home.bury()
        self._answer(self.home.on_committed(number, now_ms=now_ms), now_ms)

    def finish(self, *, now_ms: int) -> list[ReadLog]:
        """Does what the turn has led to, before its commit is taken; returns the reads for the shell."""
        if not self.home.is_stirred:
            return []
        self._answer(self.home.finish(now_ms=now_ms), now_ms)
        if expired := self.home.take_expired():
            self._router.note_expired(expired)
        return self.home.take_effects()

    def dues(self) -> tuple[Due, ...]:
        """The deadlines of all parts."""
        return self.home.due, self.home.dead_letters.due, self.host.due

    def on_deadline(self, *, now_ms: int) -> None:
        """Does what is due."""
        self.home.on_deadline(now_ms=now_ms)
        self._put(self.host.on_deadline(now_ms=now_ms), now_ms)

    def look(self, *, now_ms: int) -> None:
        """The overlay has changed."""
        self._put(self.host.look(), now_ms)
