"""The members of groups among this broker's clients: asks pubends for work for them, and passes on what they get.

Members are known at pubends as long as their hosts say so, every second. The host keeps nothing but the number up to
which everything that a pubend has sent has arrived: what got lost is sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeAlias

from penstock.broker.connections import Connections
from penstock.broker.due import Due
from penstock.broker.peers import Peer
from penstock.broker.settings import BrokerSettings
from penstock.protocol.frames import (
    Handed,
    Join,
    Outcomes,
    Subscribed,
    Unsubscribed,
    Verdicts,
    WorkAsk,
    WorkJoined,
    WorkLeave,
    WorkOutcomes,
    WorkVerdicts,
)

__all__ = ["ASK_MS", "SEATS_MAX", "Seat", "WorkHost", "WorkQuestion", "identity_of"]

WorkQuestion: TypeAlias = WorkAsk | WorkLeave | WorkVerdicts
"""A word of a host to a pubend."""

ASK_MS: Final = 1_000
"""How often a pubend is told that a member is still there."""
SEATS_MAX: Final = 1_000
"""Most groups that the clients with one connection can be in."""
_AHEAD_MAX: Final = 1_000
_NO_SERIES: Final = (0, 0)


def identity_of(client: str, member: bytes, number: int) -> bytes:
    """What pubends know a member by: the client, its process, and the number of its subscription."""
    material = b"\0".join((client.encode(), member, str(number).encode()))
    return blake2b(material, digest_size=16).digest()


@dataclass(slots=True, eq=False)
class Seat:
    """A client's place in a group."""

    connection: int
    identity: bytes
    client: str
    join: Join
    selector: str
    """What the client wants, narrowed to what it may see."""
    is_owned: bool
    series: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By pubend, the life of its broker and the series in it that numbers belong to: later ones begin anew."""
    received: dict[str, int] = field(default_factory=dict)
    """By pubend, the number up to which everything that it sent has been passed on."""
    ahead: dict[str, set[int]] = field(default_factory=dict)
    """Numbers beyond that one which were passed on as well."""
    joined: dict[str, None] = field(default_factory=dict)
    """The pubends at which it belongs to the group."""
    is_confirmed: bool = False
    ask_ms: int = 0

    @property
    def number(self) -> int:
        """The number that the client has chosen."""
        return self.join.number


class WorkHost:
    """The members among the clients of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        connections: Connections,
        *,
        targets: Callable[[], list[str]],
        is_in_reach: Callable[[str], bool],
        delivered: Callable[[Seat, list[bytes]], None],
    ) -> None:
        """Takes functions: which pubends there are, whether one is in reach, and who notes what is passed on."""
        self._settings, self._connections = settings, connections
        self._targets, self._is_in_reach, self._delivered = targets, is_in_reach, delivered
        self._seats: dict[tuple[int, int], Seat] = {}
        """By connection and number."""
        self._by_identity: dict[bytes, Seat] = {}
        self.due = Due(self.next_deadline)
        self.counts = {"handed_on": 0, "handed_late": 0}

    def has(self, connection: int, number: int) -> bool:
        """Whether a client has this number for a group."""
        return (connection, number) in self._seats

    def is_there(self, identity: bytes) -> bool:
        """Whether this is a member among the clients."""
        return identity in self._by_identity

    def seats_of(self, connection: int) -> int:
        """In how many groups a client is, on one connection."""
        return sum(each == connection for each, _ in self._seats)

    # --- what clients say

    def join(self, peer: Peer, frame: Join, selector: str, *, is_owned: bool, now_ms: int) -> list[WorkQuestion]:
        """A client becomes a member of a group, or comes back with another connection."""
        identity = identity_of(peer.name, frame.member, frame.number)
        seat = Seat(peer.connection, identity, peer.name, frame, selector, is_owned)
        self._seats[peer.connection, frame.number] = self._by_identity[identity] = seat
        return self._ask(seat, now_ms)

    def verdicts(self, peer: Peer, frame: Verdicts) -> list[WorkQuestion]:
        """A client says what becomes of messages."""
        seat = self._seats.get((peer.connection, frame.number))
        if seat is None or not self._wants(seat, frame.pubend):
            # It has left meanwhile.
            return []
        group = seat.join.group
        return [WorkVerdicts(frame.pubend, self._settings.name, seat.identity, group, frame.verdicts)]

    def unsubscribe(self, peer: Peer, number: int) -> list[WorkQuestion]:
        """A client leaves a group."""
        self._connections.say(peer, Unsubscribed(number))
        return self._leave(self._seats.pop((peer.connection, number)), is_final=True)

    def leave(self, connection: int) -> list[WorkQuestion]:
        """A client's connection is gone; it may come back."""
        gone = [key for key in self._seats if key[0] == connection]
        return [each for key in gone for each in self._leave(self._seats.pop(key), is_final=False)]

    def _leave(self, seat: Seat, *, is_final: bool) -> list[WorkQuestion]:
        if self._by_identity.get(seat.identity) is not seat:
            # The same member has come back with another connection.
            return []
        del self._by_identity[seat.identity]
        name, join = self._settings.name, seat.join
        return [
            WorkLeave(pubend, name, seat.identity, join.round, join.group, is_final=is_final)
            for pubend in self._wanted(seat)
        ]

    # --- what pubends say

    def on_joined(self, frame: WorkJoined) -> tuple[Seat, str, list[WorkQuestion]] | None:
        """A pubend has taken a member, or not: then the client is to be refused, for that reason.

        Other pubends may have taken it, and must not wait for it: they are told that it has left.
        """
        seat = self._by_identity.get(frame.member)
        if seat is None or frame.round != seat.join.round:
            return None
        if frame.problem:
            self._seats.pop((seat.connection, seat.number), None)
            left = [each for each in self._leave(seat, is_final=True) if each.pubend != frame.pubend]
            return seat, frame.problem, left
        seat.joined[frame.pubend] = None
        self._confirm(seat)
        return None

    def _confirm(self, seat: Seat) -> None:
        """Tells a client that it is a member wherever that is possible at the moment."""
        # Also those that it names and nobody knows, or not yet.
        missing = [each for each in dict.fromkeys((*seat.join.pubends, *self._wanted(seat))) if each not in seat.joined]
        peer = self._connections.peers.get(seat.connection)
        if seat.is_confirmed or peer is None or any(map(self._is_in_reach, missing)):
            return
        seat.is_confirmed = True
        self._connections.say(peer, Subscribed(seat.number, seat.selector, tuple(missing)))

    def on_handed(self, frame: Handed) -> None:
        """A pubend hands messages to a member: passes them on, unless they are not for this connection."""
        seat = self._by_identity.get(frame.member)
        peer = self._connections.peers.get(seat.connection) if seat else None
        if seat is None or peer is None or frame.round != seat.join.round:
            self.counts["handed_late"] += 1
            return
        series = (frame.life, frame.series)
        known = seat.series.get(frame.pubend, _NO_SERIES)
        if series < known:
            self.counts["handed_late"] += 1
            return
        if series > known:
            seat.series[frame.pubend] = series
            seat.received[frame.pubend], seat.ahead[frame.pubend] = 0, set()
        received, ahead = seat.received.get(frame.pubend, 0), seat.ahead.setdefault(frame.pubend, set())
        if frame.sequence <= received or frame.sequence in ahead or len(ahead) >= _AHEAD_MAX:
            return
        if frame.bodies:
            if peer.outbox.data_bytes >= peer.outbox.data_bytes_max // 2:
                # The client does not read: the pubend sends it again later.
                return
            numbers = (frame.life, frame.series, frame.round, frame.sequence)
            content = (frame.ticks, frame.attempts, frame.bodies)
            self._connections.carry(peer, Handed(frame.pubend, "", seat.number.to_bytes(8), numbers, *content))
            self._delivered(seat, frame.bodies)
            self.counts["handed_on"] += len(frame.bodies)
        ahead.add(frame.sequence)
        while received + 1 in ahead:
            received += 1
            ahead.remove(received)
        seat.received[frame.pubend] = received

    def on_outcomes(self, frame: WorkOutcomes) -> None:
        """A pubend says what a member's verdicts have led to."""
        seat = self._by_identity.get(frame.member)
        peer = self._connections.peers.get(seat.connection) if seat else None
        if seat is not None and peer is not None:
            self._connections.say(peer, Outcomes(seat.number, frame.pubend, frame.outcomes))

    # --- asking

    def _wanted(self, seat: Seat) -> list[str]:
        """The pubends that a member works on: those it has named, or all but the one for dead letters."""
        named = seat.join.pubends
        return [each for each in self._targets() if (each in named if named else each != self._settings.dead_letters)]

    def _wants(self, seat: Seat, pubend: str) -> bool:
        return pubend in self._wanted(seat)

    def _ask(self, seat: Seat, now_ms: int) -> list[WorkQuestion]:
        seat.ask_ms = now_ms + ASK_MS
        self.due.by(seat.ask_ms)
        self._confirm(seat)
        return [self._question(seat, pubend) for pubend in self._wanted(seat)]

    def _question(self, seat: Seat, pubend: str) -> WorkAsk:
        join = seat.join
        life, series = seat.series.get(pubend, _NO_SERIES)
        return WorkAsk(
            pubend,
            self._settings.name,
            seat.identity,
            seat.client,
            join.round,
            seat.received.get(pubend, 0),
            join.prefetch,
            join.group,
            seat.selector,
            join.key,
            join.work_ms,
            join.deliveries_max,
            join.start,
            is_owned=seat.is_owned,
            life=life,
            series=series,
            has_joined=pubend in seat.joined,
        )

    def next_deadline(self) -> int | None:
        """When to ask again."""
        return min([seat.ask_ms for seat in self._seats.values()], default=None)

    def on_deadline(self, *, now_ms: int) -> list[WorkQuestion]:
        """Says that members are still there."""
        due = [seat for seat in self._seats.values() if now_ms >= seat.ask_ms]
        return [question for seat in due for question in self._ask(seat, now_ms)]

    def look(self) -> list[WorkQuestion]:
        """Asks pubends that have come into reach, after a change of the overlay."""
        questions: list[WorkQuestion] = []
        for seat in self._seats.values():
            questions += [self._question(seat, each) for each in self._wanted(seat) if each not in seat.joined]
            self._confirm(seat)
        return questions
