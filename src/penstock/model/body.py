"""A message as bytes: encoded once by its publisher, carried untouched by every broker, decoded by its receivers.

Layout: identifier (16 bytes), length of the attributes (4, big-endian), attributes (msgpack map), length of the content
type (1), content type (ASCII), payload (the rest). The broker that accepts a message checks all of it; the others read
only the attributes, and nothing after them. The lifetime of a message is among its attributes (``model/expiry.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby, islice
from operator import eq
from typing import Annotated, Final

import msgspec

from penstock.model.decoding import UNREADABLE
from penstock.model.errors import LimitError, MisuseError, PeerError, plainly
from penstock.model.expiry import EXPIRES, is_lifetime, lifetime_ms
from penstock.model.limits import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    PAYLOAD_BYTES_MAX,
    STRING_CHARS_MAX,
)
from penstock.model.message import Message, Payload, are_plain, checked_content_type, checked_payload
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.model.values import Attributes, AttributeValue

__all__ = [
    "BODY_BYTES_MIN",
    "MalformedBodyError",
    "decode_attributes",
    "decode_id",
    "decode_message",
    "encode_body",
    "encode_content",
    "encode_message",
    "take_in",
]

_HEAD: Final = MESSAGE_ID_BYTES + 4
BODY_BYTES_MIN: Final = _HEAD + 2
"""Size of a message without attributes, content type and payload."""
_LENGTH: Final = struct.Struct(">I")
_unpack_length: Final = _LENGTH.unpack_from
_SMALL: Final = min(ATTRIBUTES_BYTES_MAX, PAYLOAD_BYTES_MAX)
"""A body no larger than this cannot have attributes or a payload over their limits."""
_UNSIGNED: Final = 0xCF
"""How msgpack marks an integer of 64 bits without a sign."""
_encode: Final = msgspec.msgpack.Encoder().encode
# Names are not constrained here: it would cost the decoder its cache of keys, and more than double the time. Brokers
# check names when a message enters the overlay.
_Text = Annotated[str, msgspec.Meta(max_length=STRING_CHARS_MAX)]
_Integer = Annotated[int, msgspec.Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]
_decode: Final = msgspec.msgpack.Decoder(dict[str, _Text | _Integer | float | bool | None]).decode


class MalformedBodyError(PeerError):
    """The bytes are not a message."""


def encode_body(message_id: MessageId, message: Message) -> bytes:
    """Encodes a message; raises ``LimitError`` if its attributes are too large altogether."""
    return message_id.to_bytes() + encode_message(message)


def encode_message(message: Message) -> bytes:
    """Encodes all of a message but its identifier, which comes first; raises ``LimitError`` as ``encode_body`` does."""
    attributes = dict(message.attributes)
    if message.expires is not None:
        attributes[EXPIRES] = lifetime_ms(message.expires)
    return _content(_encode(attributes), message.content_type, message.payload)


def encode_content(
    attributes: Attributes, payload: Payload = b"", content_type: str = "", expires: float | None = None
) -> bytes:
    """Encodes what ``Message`` would be made of, all but the identifier; raises what ``Message`` raises.

    Makes a message only of attributes that need a closer look: that costs several times as much as the encoding.
    """
    if type(attributes) is not dict or len(attributes) > ATTRIBUTES_MAX or not are_plain(attributes):
        return encode_message(Message(attributes, payload, content_type, expires))
    if expires is not None:
        if len(attributes) >= ATTRIBUTES_MAX:
            return encode_message(Message(attributes, payload, content_type, expires))
        attributes = {**attributes, EXPIRES: lifetime_ms(expires)}
    try:
        encoded = _encode(attributes)
    except (OverflowError, UnicodeEncodeError):
        return encode_message(Message(_without_lifetime(attributes), payload, content_type, expires))
    # If all of it is no longer than a text may be, then so is each text. Only the greatest integers need all 64 bits
    # without a sign; the mark of such a number may also be a part of something else.
    if len(encoded) > STRING_CHARS_MAX or (_UNSIGNED in encoded and not _are_in_range(attributes)):
        return encode_message(Message(_without_lifetime(attributes), payload, content_type, expires))
    if type(payload) is not bytes or len(payload) > PAYLOAD_BYTES_MAX:
        payload = checked_payload(payload)
    if type(content_type) is not str or content_type:
        return _content(encoded, checked_content_type(content_type), payload)
    return b"".join((_LENGTH.pack(len(encoded)), encoded, b"\0", payload))


def _without_lifetime(attributes: Attributes) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if name != EXPIRES}


def _are_in_range(attributes: Attributes) -> bool:
    return all(type(value) is not int or value <= INTEGER_MAX for value in attributes.values())


def _content(attributes: bytes, content_type: str, payload: bytes) -> bytes:
    if len(attributes) > ATTRIBUTES_BYTES_MAX:
        raise LimitError("the size of all attributes in bytes", len(attributes), ATTRIBUTES_BYTES_MAX)
    head = _LENGTH.pack(len(attributes))
    return b"".join((head, attributes, bytes((len(content_type),)), content_type.encode(), payload))


def decode_attributes(body: bytes) -> dict[str, AttributeValue]:
    """Decodes the attributes, which are all that brokers need; raises ``MalformedBodyError``."""
    return _split(body)[0]


def take_in(bodies: Sequence[bytes]) -> list[dict[str, AttributeValue]]:
    """Checks all of a publisher's messages and returns their attributes; raises ``MalformedBodyError``.

    An accepted message is stored and read by everybody: one that readers cannot decode would stop each of them at the
    same place, again and again. Consecutive messages with the same attributes share one dict, decoded once.
    """
    if not bodies:
        return []
    attributes, end = _take(bodies[0])
    if len(bodies) == 1:
        return [attributes]
    if _are_alike(bodies, end):
        return [attributes] * len(bodies)
    # Step by step over the whole batch: that runs less Python for each message than one message after the other.
    try:
        ends = [_HEAD + _unpack_length(body, MESSAGE_ID_BYTES)[0] for body in bodies]
        encoded = [body[_HEAD:end] for body, end in zip(bodies, ends, strict=True)]
        rest_starts = [body[end] for body, end in zip(bodies, ends, strict=True)]
        found = _decode_all(encoded)
    except (struct.error, IndexError, *UNREADABLE):
        # One of them is malformed: this says how.
        return [_take(body)[0] for body in bodies]
    if any(rest_starts) or max(map(len, bodies)) > _SMALL:
        for body, end in zip(bodies, ends, strict=True):
            _check_rest(body, end + 1)
    if max(map(len, found)) > ATTRIBUTES_MAX:
        return [_take(body)[0] for body in bodies]
    return found


def _decode_all(encoded: Sequence[bytes]) -> list[dict[str, AttributeValue]]:
    """Decodes the attributes of messages; consecutive ones that are equal share a dict."""
    if not any(map(eq, encoded, islice(encoded, 1, None))):
        return list(map(_decode, encoded))
    found: list[dict[str, AttributeValue]] = []
    for same, run in groupby(encoded):
        found += [_decode(same)] * sum(1 for _ in run)
    return found


def _take(body: bytes) -> tuple[dict[str, AttributeValue], int]:
    """The attributes of a message that is checked, and the offset of their end."""
    attributes, end = _split(body)
    # Nearly all messages are small and have no content type, so most need no further checks.
    if body[end] or len(body) > _SMALL:
        _check_rest(body, end + 1)
    return attributes, end


def _are_alike(bodies: Sequence[bytes], end: int) -> bool:
    """Whether all are small messages with the attributes of the first, which end there, and no content type."""
    start = MESSAGE_ID_BYTES
    first = bodies[0][start : end + 1]
    if first[-1] or bodies[-1][start : end + 1] != first:
        # Most batches that are not alike end here.
        return False
    return len({body[start : end + 1] for body in bodies}) == 1 and max(map(len, bodies)) <= _SMALL


def _split(body: bytes) -> tuple[dict[str, AttributeValue], int]:
    """The attributes and the offset of their end; at least one byte follows it."""
    try:
        (length,) = _unpack_length(body, MESSAGE_ID_BYTES)
        end = _HEAD + length
        if end >= len(body):
            raise MalformedBodyError(f"attributes of {length} bytes do not fit a body of {len(body)}")
        # Copying a few bytes costs less than making a view of them.
        attributes = _decode(body[_HEAD:end])
    except (struct.error, *UNREADABLE) as error:
        raise MalformedBodyError(f"body of {len(body)} bytes has no attributes: {plainly(error)}") from None
    if len(attributes) > ATTRIBUTES_MAX:
        raise MalformedBodyError(f"{len(attributes)} attributes are over the limit of {ATTRIBUTES_MAX}")
    return attributes, end


def _check_rest(body: bytes, start: int) -> None:
    """Checks what a small message without a content type cannot get wrong: sizes and the content type."""
    length = start - _HEAD - 1
    end = start + body[start - 1]
    if length > ATTRIBUTES_BYTES_MAX:
        raise MalformedBodyError(f"attributes of {length:,} bytes are over the limit of {ATTRIBUTES_BYTES_MAX:,}")
    if len(body) - end > PAYLOAD_BYTES_MAX:
        raise MalformedBodyError(f"a payload of {len(body) - end:,} bytes is over the limit of {PAYLOAD_BYTES_MAX:,}")
    if end > start:
        _check_content_type(body[start:end], end - start)


def _check_content_type(content_type: bytes, length: int) -> None:
    if len(content_type) < length:
        raise MalformedBodyError(f"a content type of {length} bytes does not fit")
    if not content_type.isascii() or not content_type.decode().isprintable():
        raise MalformedBodyError(f"the content type {content_type[:40]!r} is not printable ASCII")


def decode_id(body: bytes) -> MessageId:
    """The identifier of an encoded message; raises ``MalformedBodyError``."""
    if len(body) <= _HEAD:
        raise MalformedBodyError(f"body of {len(body)} bytes is too short")
    return MessageId.from_bytes(body[:MESSAGE_ID_BYTES])


def decode_message(body: bytes) -> tuple[MessageId, Message]:
    """Decodes the identifier and the message; raises ``MalformedBodyError``."""
    attributes = decode_attributes(body)
    expires: float | None = None
    lifetime = attributes.get(EXPIRES)
    if type(lifetime) is int and is_lifetime(lifetime):
        del attributes[EXPIRES]
        expires = lifetime / 1_000
    (length,) = _LENGTH.unpack_from(body, MESSAGE_ID_BYTES)
    start = _HEAD + length + 1
    end = start + body[start - 1]
    try:
        content_type = body[start:end].decode()
    except UnicodeDecodeError:
        raise MalformedBodyError("the content type is not UTF-8") from None
    if end > len(body):
        raise MalformedBodyError(f"a content type of {end - start} bytes does not fit")
    try:
        message = Message.system(attributes, payload=body[end:], content_type=content_type, expires=expires)
    except MisuseError as error:
        raise MalformedBodyError(str(error)) from None
    return decode_id(body), message
