"""What publishers bring: checked, given to its pubend, acknowledged when it is durable, held back by credit.

An acknowledgement costs a write of its own. Nobody waits for it unless the window is getting small, or the client says
so by an empty batch; so it can wait for others. What is durable is always acknowledged; it is the credit that is
withheld when publishers have to wait, and then they are told why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.broker.errors import ProtocolError
from penstock.broker.frames import HeldBack, Publish, PublishAck
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.peers import Peer, Session
from penstock.broker.rooms import Rooms
from penstock.model.body import decode_attributes
from penstock.model.errors import MisuseError
from penstock.model.message import Message
from penstock.model.values import AttributeValue
from penstock.selectors.selector import EVERYTHING

__all__ = ["Intake"]

_KNOWN_NAMES_MAX: Final = 10_000
"""Names of attributes that are remembered as good."""


class _Unsettled(NamedTuple):
    """A batch whose commit is on its way."""

    commit: int
    connection: int
    sequence: int
    size: int


class Intake:
    """Serves the publishers among the clients of one broker."""

    def __init__(
        self,
        rooms: Rooms,
        guaranteed: Guaranteed,
        *,
        refuse: Callable[[Peer, str, int, str], None],
    ) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._router = rooms.router
        self._pubends = rooms.pubends
        self._guaranteed = guaranteed
        self._refuse = refuse
        self._unsettled: deque[_Unsettled] = deque()
        self._due: dict[int, None] = {}
        """Publishers to be acknowledged in this turn."""
        self._withheld: dict[int, None] = {}
        """Publishers whose credit waits until little enough waits to be sent."""
        self._later: dict[int, int] = {}
        """Publishers to be acknowledged at a time."""
        self._told: dict[int, None] = {}
        """Publishers that were told why they wait."""
        self._reason = ""
        """Why publishers have to wait, as it was when somebody asked last."""
        self._known_names: set[str] = set()

    def publish(self, peer: Peer, frame: Publish, *, now_ms: int) -> None:
        """A client's messages: taken over or refused as a batch; an empty one asks for an acknowledgement."""
        session = _session(peer)
        self._check_sequence(session, frame)
        if not frame.bodies:
            if session.unsettled:
                session.asks = True
            else:
                self._acknowledge(peer.connection)
            return
        session.published = frame.first + len(frame.bodies) - 1
        decoded = [decode_attributes(body) for body in frame.bodies]
        pubend = self._pubends.choose(frame.pubend, session.publisher)
        problem = self._problem(session, frame, pubend, decoded)
        commit = 0
        if problem or pubend is None:
            self._refuse(peer, "publish", session.published, problem)
        elif self._guaranteed.hosts(pubend):
            commit = self._guaranteed.publish(pubend, session.publisher_id, frame, decoded, now_ms=now_ms)
        else:
            self._router.publish(pubend, frame.bodies, decoded, now_ms=now_ms)
        size = sum(map(len, frame.bodies))
        if commit or session.unsettled:
            session.unsettled += 1
            last = self._unsettled[-1].commit if self._unsettled else 0
            self._unsettled.append(_Unsettled(max(commit, last), peer.connection, session.published, size))
            if self._guaranteed.full:
                self._tell({peer.connection: None}, self._guaranteed.full)
        else:
            self._settle(peer.connection, session, session.published, size, now_ms)

    def on_committed(self, number: int, *, now_ms: int) -> None:
        """Commits are durable: the batches in them are settled."""
        unsettled = self._unsettled
        peers = self._connections.peers
        while unsettled and unsettled[0].commit <= number:
            done = unsettled.popleft()
            peer = peers.get(done.connection)
            if peer is not None and peer.session is not None:
                peer.session.unsettled -= 1
                self._settle(done.connection, peer.session, done.sequence, done.size, now_ms)

    def _settle(self, connection: int, session: Session, sequence: int, size: int, now_ms: int) -> None:
        session.settled = sequence
        session.withheld_bytes += size
        if session.asks and not session.unsettled:
            session.asks = False
            self._acknowledge(connection)
        elif session.withheld_bytes >= self._settings.credit_bytes // 4:
            self._acknowledge(connection)
        elif connection not in self._later and connection not in self._due:
            self._later[connection] = now_ms + self._settings.acknowledge_ms

    def leave(self, connection: int) -> None:
        """A client has gone."""
        for each in (self._due, self._withheld, self._later, self._told):
            each.pop(connection, None)

    # --- acknowledgements and credit

    def next_deadline(self) -> int | None:
        """When an acknowledgement has waited long enough; all wait equally long, so the first is the earliest."""
        return next(iter(self._later.values()), None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Gives the acknowledgements that have waited long enough."""
        for connection in [connection for connection, due_ms in self._later.items() if due_ms <= now_ms]:
            self._acknowledge(connection)

    def _acknowledge(self, connection: int) -> None:
        self._later.pop(connection, None)
        self._due[connection] = None

    def acknowledge_all(self) -> None:
        """Acknowledges everything that is settled: the broker stops, and publishers should not think it lost."""
        for connection in list(self._later):
            self._acknowledge(connection)
        self.give_credit()

    def give_credit(self) -> bool:
        """Acknowledges what is settled, with credit unless publishers have to wait; False while they do."""
        if not self._due and not self._withheld and not self._told:
            return True
        reason = self._reason_to_wait()
        if bool(reason) != bool(self._reason):
            self._connections.record("publishers-held-back" if reason else "publishers-go-on", reason=reason)
        self._reason = reason
        peers = self._connections.peers
        for connection in [*self._due, *(() if reason else self._withheld)]:
            peer = peers.get(connection)
            if peer is None:
                continue
            session = _session(peer)
            if reason:
                self._withheld[connection] = None
                self._connections.say(peer, PublishAck(session.settled, 0))
            else:
                self._connections.say(peer, PublishAck(session.settled, session.withheld_bytes))
                session.withheld_bytes = 0
        self._due = {}
        if reason:
            self._tell(self._withheld, reason)
            return False
        self._withheld = {}
        self._tell(self._told, "")
        return True

    def hold_back(self, reason: str) -> None:
        """The log is full: whoever waits for a commit is told why."""
        self._tell({each.connection: None for each in self._unsettled}, reason)

    def _tell(self, connections: dict[int, None], reason: str) -> None:
        for connection in list(connections):
            peer = self._connections.peers.get(connection)
            if peer is None or peer.session is None or peer.session.held_back == reason:
                continue
            peer.session.held_back = reason
            self._connections.say(peer, HeldBack(reason))
            if reason:
                self._told[connection] = None
            else:
                self._told.pop(connection, None)

    def _reason_to_wait(self) -> str:
        limit = self._settings.held_back_bytes
        if self._connections.waiting_bytes() > limit:
            return f"broker {self._settings.name} has more than {limit:,} bytes waiting to be sent"
        return self._guaranteed.hold_reason()

    # --- checks

    def _check_sequence(self, session: Session, frame: Publish) -> None:
        if session.published < 0:
            # A publisher that can be recognised goes on where it was in its former connection.
            is_good = frame.first >= 1 if session.publisher_id else frame.first == 1
            session.settled = frame.first - 1
        elif session.publisher_id:
            is_good = frame.first > session.published
        else:
            is_good = frame.first == session.published + 1
        if not is_good:
            raise ProtocolError(f"message {frame.first} follows {max(session.published, 0)}")

    def _problem(
        self, session: Session, frame: Publish, pubend: str | None, decoded: list[dict[str, AttributeValue]]
    ) -> str:
        if pubend is None:
            known = ", ".join(self._pubends.names)
            return f"no pubend {frame.pubend!r} here, only {known}" if known else "this broker hosts no publishers"
        allowed = session.rule.publish
        if allowed is None:
            return f"client {session.client} may not publish"
        for attributes in decoded:
            for name in attributes:
                if name not in self._known_names and (problem := self._problem_with_name(name)):
                    return problem
            if allowed is not EVERYTHING and not allowed.matches(attributes):
                return f"client {session.client} may not publish this; it may publish: {allowed}"
        return ""

    def _problem_with_name(self, name: str) -> str:
        """Why no message may have an attribute of this name; names without a problem are remembered."""
        try:
            Message({name: None})
        except MisuseError as error:
            return str(error)
        if len(self._known_names) >= _KNOWN_NAMES_MAX:
            self._known_names.clear()
        self._known_names.add(name)
        return ""


def _session(peer: Peer) -> Session:
    assert peer.session is not None
    return peer.session
