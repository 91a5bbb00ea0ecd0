"""Headers as attributes: which of them, of which types, and what a message may not be."""

from __future__ import annotations

import pytest

from penstock.model.body import decode_attributes, decode_message
from penstock.model.message_id import MESSAGE_ID_BYTES
from penstock.model.values import AttributeValue
from penstock.protocol.stomp import StompError, StompFrame
from penstock.stomp.messages import Outgoing, as_text, header_name, outgoing
from penstock.stomp.settings import INFER

NOW_MS = 1_700_000_000_000


def sent(types: str = INFER, /, body: bytes = b"", **headers: str) -> Outgoing:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return made({"destination": "/topic/x"} | named, types, body)


def made(headers: dict[str, str], types: str = INFER, body: bytes = b"") -> Outgoing:
    return outgoing(StompFrame("SEND", headers, body), types=types, wall_ms=NOW_MS)


def attributes(message: Outgoing) -> dict[str, AttributeValue]:
    return decode_attributes(bytes(MESSAGE_ID_BYTES) + message.content)


def value(text: str, types: str = INFER, name: str = "n") -> AttributeValue:
    return attributes(made({"destination": "/topic/x", name: text}, types))["n"]


def fault(headers: dict[str, str], body: bytes = b"") -> StompError:
    with pytest.raises(StompError) as caught:
        made({"destination": "/topic/x"} | headers, body=body)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("0", 0),
        ("-7", -7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("1e+16", 1e16),
        ("true", True),
        ("false", False),
    ],
)
def test_what_is_written_as_penstock_writes_a_value_becomes_one(text: str, expected: AttributeValue) -> None:
    found = value(text)
    assert (type(found), repr(found)) == (type(expected), repr(expected))
    assert as_text(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "007",
        "1.50",
        "+5",
        " 5",
        "5 ",
        "-0",
        "1_000",
        "\u0663",
        "9223372036854775808",
        "1e5",
        "1.",
        ".5",
        "nan",
        "inf",
        "-inf",
        "-nan",
        "-infinity",
        "True",
        "TRUE",
        "-",
        "1" * 30,
        "0." + "1" * 30,
    ],
)
def test_everything_else_remains_a_text(text: str) -> None:
    assert value(text) == text


@pytest.mark.parametrize("text", ["5", "1.5", "true"])
def test_with_types_of_string_all_remain_texts(text: str) -> None:
    assert value(text, "string") == text


@pytest.mark.parametrize("name", ["reply-to", "correlation-id", "type", "JMSXGroupID"])
def test_headers_that_name_something_remain_texts(name: str) -> None:
    assert attributes(made({"destination": "/topic/5", name: "5"}))[name] == "5"


@pytest.mark.parametrize("types", ["infer", "string"])
@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("int", "5", 5),
        ("int", "007", 7),
        ("int", "+5", 5),
        ("float", "5", 5.0),
        ("float", "1e5", 100_000.0),
        ("bool", "true", True),
        ("string", "5", "5"),
        ("string", "true", "true"),
    ],
)
def test_a_hint_says_what_a_header_is(types: str, kind: str, text: str, expected: AttributeValue) -> None:
    found = value(text, types, f"n;type={kind}")
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "five"),
        ("int", ""),
        ("int", "1.5"),
        ("int", "1_000"),
        ("int", " 5"),
        ("int", "\u0663"),
        ("int", "9223372036854775808"),
        ("int", "9" * 5_000),
        ("float", "x"),
        ("float", "1_0.5"),
        ("float", "nan"),
        ("float", "-inf"),
        ("float", "1e999"),
        ("float", "\u0663"),
        ("bool", "yes"),
        ("date", "2020-01-01"),
        ("", "x"),
    ],
)
def test_a_hint_that_does_not_fit_is_told_by_its_header(kind: str, text: str) -> None:
    assert fault({f"n;type={kind}": text}).header == f"n;type={kind}"


@pytest.mark.parametrize(
    "name", ["destination", "content-length", "message-id", "subscription", "receipt", "expires", "type", ""]
)
def test_a_hint_makes_no_attribute_of_what_has_a_meaning_of_its_own(name: str) -> None:
    assert fault({f"{name};type=string": "x"}).header == f"{name};type=string"


def test_one_attribute_has_one_value() -> None:
    assert fault({"n": "5", "n;type=float": "5"}).header == "n;type=float"
    assert fault({"n;type=float": "5", "n": "5"}).header == "n"


@pytest.mark.parametrize(
    "name",
    [
        "content-length",
        "receipt",
        "transaction",
        "persistent",
        "ack",
        "message-id",
        "redelivered",
        "subscription",
        "timestamp",
        "penstock-anything",
    ],
)
def test_headers_with_a_meaning_of_their_own_are_no_attributes(name: str) -> None:
    assert attributes(made({"destination": "/topic/x", name: "1"})) == {"destination": "/topic/x"}


def test_a_body_may_have_any_bytes_and_a_content_type() -> None:
    message = sent(content_type="image/png", body=b"\0\1\0")
    _, decoded = decode_message(bytes(MESSAGE_ID_BYTES) + message.content)
    assert (decoded.payload, decoded.content_type) == (b"\0\1\0", "image/png")


def test_a_pubend_as_destination_is_where_it_goes_and_no_attribute() -> None:
    message = made({"destination": "/pubend/q", "n": "1"})
    assert message.pubend == "q"
    assert attributes(message) == {"n": 1}


def test_a_client_may_name_the_pubend_of_a_topic() -> None:
    message = made({"destination": "/topic/x", "penstock-pubend": "q"})
    assert message.pubend == "q"
    assert attributes(message) == {"destination": "/topic/x"}


@pytest.mark.parametrize(
    ("header", "is_persistent"), [({}, True), ({"persistent": "true"}, True), ({"persistent": "false"}, False)]
)
def test_messages_are_to_be_kept_unless_the_client_says_otherwise(header: dict[str, str], is_persistent: bool) -> None:
    assert made({"destination": "/topic/x"} | header).is_persistent == is_persistent


@pytest.mark.parametrize(
    ("expires", "lifetime_ms"),
    [("0", None), (str(NOW_MS + 30_000), 30_000), (str(NOW_MS - 30_000), 1), (str(NOW_MS), 1), ("1", 1)],
)
def test_expires_is_a_time_and_zero_for_never(expires: str, lifetime_ms: int | None) -> None:
    assert attributes(sent(expires=expires)).get("$expires") == lifetime_ms


@pytest.mark.parametrize("expires", ["", "-1", "soon", "1.5", "\u0663", "9" * 19, "9" * 18])
def test_expires_that_is_no_time_is_told(expires: str) -> None:
    assert fault({"expires": expires}).header == "expires"


@pytest.mark.parametrize(
    ("headers", "header"),
    [
        ({"$expires": "5"}, "$expires"),
        ({"n" * 256: "5"}, "n" * 256),
        ({"a\tb": "5"}, "a\tb"),
        ({"content-type": "text/pl\u00e4in"}, "content-type"),
        ({"content-type": "a\nb"}, "content-type"),
        ({"content-type": "x" * 256}, "content-type"),
        ({"n": "x" * 65_537}, "n"),
        ({"destination": "/topic/a.*"}, "destination"),
        ({"destination": "/nowhere/x"}, "destination"),
    ],
)
def test_what_no_message_can_have_is_told_by_its_header(headers: dict[str, str], header: str) -> None:
    shown = StompError("", header).header
    assert fault(headers).header == shown


def test_too_many_attributes_are_told() -> None:
    assert "256" in fault({f"n{number}": "1" for number in range(300)}).reason


def test_a_message_has_a_destination() -> None:
    with pytest.raises(StompError, match="destination"):
        outgoing(StompFrame("SEND", {}), types=INFER, wall_ms=NOW_MS)


@pytest.mark.parametrize(
    ("native", "text"),
    [(None, None), (True, "true"), (False, "false"), (5, "5"), (1.5, "1.5"), ("x", "x"), (float("nan"), "nan")],
)
def test_every_attribute_but_null_has_a_text(native: AttributeValue, text: str | None) -> None:
    assert as_text(native) == text


def test_line_breaks_and_backslashes_in_names_become_escapes() -> None:
    headers = {"destination": "/topic/x", "a\nb": "1", "a\\nb": "2", "c\rd;type=string": "3"}
    expected = {"destination": "/topic/x", "a\\nb": 1, "a\\\\nb": 2, "c\\rd": "3"}
    assert attributes(made(headers)) == expected
    assert [header_name(name) for name in expected] == ["destination", "a\nb", "a\\nb", "c\rd"]


def test_two_types_of_a_name_with_a_line_break_are_a_second_value() -> None:
    error = fault({"a\nb;type=int": "1", "a\nb;type=string": "1"})
    assert error.header == r"a\nb;type=string"
