"""Handles the hellos and proofs of strangers: admits clients and neighbours, refuses all others, delayed if need be."""

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
    """Admits or refuses the strangers of one broker."""

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
        self._is_draining = is_draining
        self._link_up = link_up
        self._end = end

    def on_hello(self, peer: Peer, hello: Hello, now_ms: int) -> None:
        """Handles a hello, which says who the peer is."""
        if peer.kind is not PeerKind.STRANGER or peer.greeting is not None or self._strangers.is_refused(peer):
            raise ProtocolError("a second hello")
        problem: str | None
        if hello.version != PROTOCOL_VERSION:
            problem = f"protocol version {hello.version} is not {PROTOCOL_VERSION}"
        elif hello.role == "client" and self._is_draining():
            # Not refused for good: any other broker will admit it.
            self._end([Farewell(peer, "draining", f"broker {self._broker} is about to stop")], now_ms)
            return
        elif hello.role == "client" and not peer.dialled:
            problem = self._desk.admit(peer, hello, now_ms=now_ms)
            if problem is None and (former := self._desk.succeed(peer)) is not None:
                self._end([Farewell(former, "replaced", "replaced by a new connection of the same publisher")], now_ms)
        elif hello.role == "broker":
            problem = self._neighbourhood.greet(peer, hello)
            if problem is None and peer.greeting is None:
                self._link_up(peer, hello.name, now_ms)
        else:
            problem = f"role {hello.role!r} is not expected here"
        if problem is not None and hello.role == "client":
            self._desk.note_refused(peer, hello, problem)
        self._judge(peer, problem, now_ms)

    def on_proof(self, peer: Peer, frame: LinkProof, now_ms: int) -> None:
        """Handles the proof of a peer that claims to be a broker."""
        problem = self._neighbourhood.on_proof(peer, frame)
        if problem is None and peer.greeting is not None:
            self._link_up(peer, peer.greeting.name, now_ms)
        self._judge(peer, problem, now_ms)

    def _judge(self, peer: Peer, problem: str | None, now_ms: int) -> None:
        """Refuses a peer with a problem, maybe delayed; a peer that has authenticated is no longer a stranger."""
        if problem is not None:
            self._end(self._strangers.refuse(peer, problem, now_ms=now_ms), now_ms)
        elif peer.kind is not PeerKind.STRANGER:
            self._strangers.leave(peer)
