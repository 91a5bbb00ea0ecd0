"""How the two ends of a link prove to each other that both have the link token, without either showing it.

Each end says a challenge with its hello, and proves itself by an HMAC (SHA-256) over both challenges and both names, in
its role. So whoever listens at the port of a neighbour that is down learns nothing that opens a link anywhere else, or
later. The end that dialled proves itself first: a stranger that calls gets nothing it could guess tokens against. Who
can change what is on the wire can still take a link over once it is proved; only TLS prevents that.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final

import msgspec

from penstock.broker.peers import Peer
from penstock.broker.settings import BrokerSettings

__all__ = ["challenge_for", "is_proof", "proof_of"]

_CHALLENGE: Final = "challenge"
_DIALLED: Final = "dialled"
_ACCEPTED: Final = "accepted"
_encode: Final = msgspec.msgpack.Encoder().encode


def challenge_for(peer: Peer, settings: BrokerSettings, incarnation: int) -> bytes:
    """What the other end of a connection has to answer: never the same twice, and nobody without the token knows it."""
    return _digest(settings, (_CHALLENGE, settings.name, incarnation, peer.connection))


def proof_of(peer: Peer, settings: BrokerSettings) -> bytes:
    """The proof by which this broker answers the hello of the other end."""
    return _proof(peer, settings, role=_DIALLED if peer.dialled else _ACCEPTED)


def is_proof(proof: bytes, peer: Peer, settings: BrokerSettings) -> bool:
    """Whether this is the answer of a neighbour to the challenge of this broker."""
    return compare_digest(proof, _proof(peer, settings, role=_ACCEPTED if peer.dialled else _DIALLED))


def _proof(peer: Peer, settings: BrokerSettings, *, role: str) -> bytes:
    assert peer.greeting is not None
    own, other = (settings.name, peer.challenge), (peer.greeting.name, peer.greeting.challenge)
    ends = (own, other) if peer.dialled else (other, own)
    return _digest(settings, (role, settings.overlay, *ends))


def _digest(settings: BrokerSettings, words: tuple[object, ...]) -> bytes:
    return hmac_digest(settings.link_credential.encode(), _encode(words), sha256)
