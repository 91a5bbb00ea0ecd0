"""The three messages by which a token is passed, and their form as bytes ([Token] section 3).

Whatever carries them may lose, delay and repeat them. Bytes that are no such message raise a ``TokenMessageError`` that
says why.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from penstock.model.decoding import UnreadableError, decoded
from penstock.model.errors import PeerError
from penstock.token.tokens import Token

__all__ = ["Accept", "Commit", "Offer", "TokenMessage", "TokenMessageError", "decode_message", "encode_message"]

_NUMBER_MAX: Final = 2**53
"""No number in a message is larger: the times of clocks in milliseconds are far below."""
_NAME_MAX: Final = 200
_VERSION: Final = b"\x01"


class TokenMessageError(PeerError):
    """Bytes that are no message of a token."""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag="o", forbid_unknown_fields=True):
    """A holder offers its token; it keeps it until somebody accepts."""

    life: int
    """Of the one who offers: grows with every start."""
    number: int
    """Of the offer, within that life."""
    timestamp_ms: int
    """Of the token."""
    id: str
    """Of the token."""
    count: int
    """Of the token's operations."""
    sent_ms: int
    """The clock of the one who offers."""

    @property
    def token(self) -> Token:
        """The token that is offered."""
        return Token(self.timestamp_ms, self.id, self.count)


class Accept(msgspec.Struct, frozen=True, array_like=True, tag="a", forbid_unknown_fields=True):
    """The offer is accepted, once: the number of an acceptance is never used again."""

    offer_life: int
    offer: int
    life: int
    """Of the one who accepts."""
    number: int
    """Of the acceptance, within that life."""


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
    """As bytes."""
    return _VERSION + _encoder.encode(message)


def decode_message(data: bytes) -> TokenMessage:
    """The message that the bytes are; raises ``TokenMessageError`` if they are none."""
    if data[:1] != _VERSION:
        raise TokenMessageError(f"a token message begins with {data[:1]!r}, not with version {_VERSION!r}")
    try:
        message = decoded(_decoder.decode, data[1:])
    except UnreadableError as error:
        raise TokenMessageError(f"no token message: {error}") from None
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
