"""The three messages that pass a token, and their encoding ([Token] section 3).

The transport may lose, delay and repeat them. Decoding other bytes raises a ``TokenMessageError`` that says why.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from penstock.model.decoding import UnreadableError, decoded
from penstock.model.errors import PeerError
from penstock.token.tokens import Token

__all__ = ["Accept", "Commit", "Offer", "TokenMessage", "TokenMessageError", "decode_message", "encode_message"]

_NUMBER_MAX: Final = 2**53
"""No number in a message is larger: clock times in milliseconds are far below."""
_NAME_MAX: Final = 200
_VERSION: Final = b"\x01"


class TokenMessageError(PeerError):
    """A malformed token message."""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag="o", forbid_unknown_fields=True):
    """A holder offers its token; it keeps the token until the offer is accepted."""

    life: int
    """The sender's life: grows with every start."""
    number: int
    """The offer's number within that life."""
    timestamp_ms: int
    """When the token was made."""
    id: str
    """The token's id."""
    count: int
    """How many operations the token has enabled."""
    sent_ms: int
    """When this was sent, by the sender's clock."""

    @property
    def token(self) -> Token:
        """The token that is offered."""
        return Token(self.timestamp_ms, self.id, self.count)


class Accept(msgspec.Struct, frozen=True, array_like=True, tag="a", forbid_unknown_fields=True):
    """Accepts an offer, once: the number of an acceptance is never reused."""

    offer_life: int
    offer: int
    life: int
    """The sender's life."""
    number: int
    """The acceptance's number within that life."""


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="c", forbid_unknown_fields=True):
    """The holder has given its token up to this one acceptance of its offer."""

    offer_life: int
    offer: int
    accept_life: int
    accept: int


TokenMessage: TypeAlias = Offer | Accept | Commit

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[TokenMessage] = msgspec.msgpack.Decoder(Offer | Accept | Commit)


def encode_message(message: TokenMessage) -> bytes:
    """Encodes a message."""
    return _VERSION + _encoder.encode(message)


def decode_message(data: bytes) -> TokenMessage:
    """Decodes a message; raises ``TokenMessageError`` if it is malformed."""
    if data[:1] != _VERSION:
        raise TokenMessageError(f"a token message begins with {data[:1]!r}, not with version {_VERSION!r}")
    try:
        message = decoded(_decoder.decode, data[1:])
    except UnreadableError as error:
        raise TokenMessageError(f"malformed token message: {error}") from None
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, str):
            if not 0 < len(value) <= _NAME_MAX:
                raise TokenMessageError(
                    f"a token message has an {name} of {len(value)} characters, not 1 to {_NAME_MAX}"
                )
        elif not 0 <= value <= _NUMBER_MAX:
            raise TokenMessageError(f"a token message has {name} {value}, not in 0 .. {_NUMBER_MAX}")
    return message
