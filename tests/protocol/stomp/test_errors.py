"""What is said of a malformed frame: the rule, and the header in a form that is safe to log and to send."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ProtocolError
from penstock.protocol.stomp.errors import StompError, shown


def test_a_stomp_error_is_a_protocol_error_that_says_the_reason_and_the_header() -> None:
    error = StompError("a header has no colon", "price 7")
    assert isinstance(error, ProtocolError)
    assert (error.reason, error.header) == ("a header has no colon", "price 7")
    assert str(error) == "a header has no colon: 'price 7'"


def test_an_error_without_a_header_says_the_reason_alone() -> None:
    error = StompError("the frame is larger than 5 bytes")
    assert (str(error), error.header) == ("the frame is larger than 5 bytes", "")


@pytest.mark.parametrize(
    ("text", "printable"),
    [
        ("price", "price"),
        ("prix é", "prix é"),
        ("a\r\nb\0", "a\\r\\nb\\x00"),
        ("\x1b[31m", "\\x1b[31m"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 100 + "..."),
    ],
)
def test_what_a_peer_sent_is_shortened_and_made_printable(text: str, printable: str) -> None:
    assert shown(text) == printable
    assert StompError("no", text).header == printable
