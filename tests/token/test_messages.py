"""The messages of the handshake as bytes, and what happens to other bytes."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from penstock.token.messages import (
    Accept,
    Commit,
    Offer,
    TokenMessage,
    TokenMessageError,
    decode_message,
    encode_message,
)
from penstock.token.tokens import Token

MESSAGES: list[TokenMessage] = [Offer(1, 2, 3, "a.1:4", 5, 6), Accept(1, 2, 3, 4), Commit(1, 2, 3, 4)]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_read_as_it_was_written(message: TokenMessage) -> None:
    assert decode_message(encode_message(message)) == message


def test_an_offer_carries_its_token() -> None:
    assert Offer(1, 2, 3, "a", 5, 6).token == Token(3, "a", 5)


def packed(*values: object) -> bytes:
    return b"\x01" + msgspec.msgpack.encode(list(values))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "begins with b'', not with version"),
        (b"\x02" + encode_message(MESSAGES[1])[1:], "not with version"),
        (b"\x01", "malformed token message"),
        (b"\x01\xc1", "malformed token message"),
        (packed("x", 1, 2, 3, 4), "malformed token message: Invalid value 'x'"),
        (packed("a", 1, 2, 3), "malformed token message"),
        (packed("a", 1, 2, 3, "4"), "malformed token message"),
        (packed("a", 1, 2, 3, -4), r"number -4, not in 0 \.\."),
        (packed("c", 2**60, 2, 3, 4), "offer_life"),
        (packed("o", 1, 2, 3, "", 5, 6), "an id of 0 characters"),
        (packed("o", 1, 2, 3, "x" * 201, 5, 6), "an id of 201 characters, not 1 to 200"),
        (encode_message(MESSAGES[0]) + b"\x00", "malformed token message"),
    ],
)
def test_bytes_that_are_no_message_are_refused_with_a_reason(data: bytes, complaint: str) -> None:
    with pytest.raises(TokenMessageError, match=complaint):
        decode_message(data)


def test_damaged_messages_are_read_or_refused_but_never_crash() -> None:
    rng, refused = Random(1), 0
    for _ in range(2_000):
        data = bytearray(encode_message(rng.choice(MESSAGES)))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode_message(bytes(data[: rng.randrange(1, len(data) + 1)]))
        except TokenMessageError:
            refused += 1
    assert 0 < refused < 2_000
