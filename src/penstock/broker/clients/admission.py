"""Hears the hellos and proofs of strangers: clients and neighbours are let in, and all others refused in their time."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.clients.desk import Desk
from penstock.broker.clients.strangers import Strangers
from penstock.broker.neighbours.neighbourhood import Neighbourhood
from penstock.broker.peers import Farewell, Peer, PeerKind
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import PROTOCOL_VERSION, Hello, LinkProof

__all__ = ["Admission"]


class Admission:
    """The door of one broker."""

    def __init__(
        self,
        broker: str,
        strangers: Strangers,
        desk: Desk,
        neighbourhood: Neighbourhood,
        *,
        is_draining: Callable[[], bool],
        link_up: Callable[[Peer, str, int], None],
        end: Callable[[list[Farewell], int], None],
    ) -> None:
        self._broker, self._strangers = broker, strangers
        self._desk, self._neighbourhood = desk, neighbourhood
        self._is_draining, self._link_up, self._end = is_draining, link_up, end

    def on_hello(self, peer: Peer, hello: Hello, now_ms: int) -> None:
        """Somebody says who it is."""
        if peer.kind is not PeerKind.STRANGER or peer.greeting is not None or self._strangers.is_refused(peer):
            raise ProtocolError("a second hello")
        problem: str | None
        if hello.version != PROTOCOL_VERSION:
            problem = f"protocol version {hello.version} is not {PROTOCOL_VERSION}"
        elif hello.role == "client" and self._is_draining():
            # Not refused for good: it is welcome at any other broker.
            self._end([Farewell(peer, "draining", f"broker {self._broker} is about to stop")], now_ms)
            return
        elif hello.role == "client" and not peer.dialled:
            problem = self._desk.admit(peer, hello, now_ms=now_ms)
            if problem is None and (former := self._desk.succeed(peer)) is not None:
                self._end([Farewell(former, "replaced", "the publisher has connected anew")], now_ms)
        elif hello.role == "broker":
            problem = self._neighbourhood.greet(peer, hello)
            if problem is None and peer.greeting is None:
                self._link_up(peer, hello.name, now_ms)
        else:
            problem = f"role {hello.role!r} is not expected here"
        self._judge(peer, problem, now_ms)

    def on_proof(self, peer: Peer, frame: LinkProof, now_ms: int) -> None:
        """Somebody that said it is a broker proves it."""
        problem = self._neighbourhood.on_proof(peer, frame)
        if problem is None and peer.greeting is not None:
            self._link_up(peer, peer.greeting.name, now_ms)
        self._judge(peer, problem, now_ms)

    def _judge(self, peer: Peer, problem: str | None, now_ms: int) -> None:
        """Who has proved to be somebody is a stranger no more; one with a problem is told so in its time."""
        if problem is not None:
            self._end(self._strangers.refuse(peer, problem, now_ms=now_ms), now_ms)
        elif peer.kind is not PeerKind.STRANGER:
            self._strangers.leave(peer)
