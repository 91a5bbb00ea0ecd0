"""Bytes as frames, rule by rule of the specifications; limits, hostile bytes, and what reading them costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.limits import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX, STRING_CHARS_MAX
from penstock.protocol.stomp import (
    CLIENT_COMMANDS,
    SERVER_COMMANDS,
    StompError,
    StompFrame,
    StompLimits,
    StompReader,
    Version,
    encode,
)
from protocol.stomp.slow_parser import ALL_COMMANDS, parse
from strategies import tries

V1_0, V1_1, V1_2 = Version
EVERY_COMMAND = CLIENT_COMMANDS | SERVER_COMMANDS
SMALL = StompLimits(headers_max=3, header_bytes_max=12, head_bytes_max=30, body_bytes_max=6)


def reader_of(
    version: Version | None, limits: StompLimits | None = None, commands: frozenset[str] = CLIENT_COMMANDS
) -> StompReader:
    reader = StompReader(limits or StompLimits(), commands=commands)
    reader.version = version
    return reader


def read(reader: StompReader, pieces: Iterable[bytes]) -> tuple[list[StompFrame], StompError | None]:
    """The frames up to the first malformed one, and what is wrong with it; any other error comes out."""
    found: list[StompFrame] = []
    try:
        for piece in pieces:
            for frame in reader.feed(piece):
                found.append(frame)
    except StompError as error:
        return found, error
    return found, None


def only(data: bytes, version: Version | None = V1_2, commands: frozenset[str] = CLIENT_COMMANDS) -> StompFrame:
    """The only frame of the data."""
    found, error = read(reader_of(version, commands=commands), [data])
    assert error is None
    (frame,) = found
    return frame


def refusal(data: bytes, version: Version | None = V1_2, limits: StompLimits | None = None) -> StompError:
    """Why the data is refused; the same byte by byte."""
    before = b"BEGIN\ntransaction:1\n\n\0" if limits is None else b""
    found, error = read(reader_of(version, limits), [before + data + b"SEND\n\n\0"])
    assert [frame.command for frame in found] == ["BEGIN"] * bool(before), "what came before arrives, nothing after"
    assert error is not None
    _, again = read(reader_of(version, limits), (bytes((byte,)) for byte in data))
    assert again is not None
    return error


def bytewise(data: bytes) -> Iterator[bytes]:
    return (bytes((byte,)) for byte in data)


# Frames.


@pytest.mark.parametrize("version", Version)
def test_a_frame_is_a_command_headers_a_blank_line_a_body_and_a_nul(version: Version) -> None:
    frame = only(b"SEND\ndestination:/queue/a\ncontent-type:text/plain\n\nhello queue a\n\0", version)
    assert frame.command == "SEND"
    assert list(frame.headers.items()) == [("destination", "/queue/a"), ("content-type", "text/plain")]
    assert frame.body == b"hello queue a\n"


@pytest.mark.parametrize("version", Version)
def test_a_frame_may_have_no_headers_and_no_body(version: Version) -> None:
    assert only(b"DISCONNECT\n\n\0", version) == StompFrame("DISCONNECT", {})


@pytest.mark.parametrize("command", sorted(EVERY_COMMAND))
def test_every_command_of_the_specification_is_read_by_whoever_accepts_it(command: str) -> None:
    assert only(command.encode() + b"\n\n\0", commands=EVERY_COMMAND).command == command


@pytest.mark.parametrize(
    "command", [*sorted(SERVER_COMMANDS), "send", "SEND ", " SEND", "GET / HTTP/1.1", "SEND:x", "é"]
)
def test_a_command_that_clients_may_not_send_is_refused(command: str) -> None:
    error = refusal(command.encode() + b"\n\n\0")
    assert (error.reason, error.header) == ("the command is unknown, or not one that may be sent here", command)


def test_an_http_request_is_refused_although_no_nul_ever_comes() -> None:
    _, error = read(StompReader(), [b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"])
    assert error is not None
    assert error.header == "GET / HTTP/1.1"


def test_1_0_knows_no_nack() -> None:
    assert refusal(b"NACK\nmessage-id:1\n\n\0", V1_0).header == "NACK"
    assert only(b"NACK\nid:1\n\n\0", V1_1).command == "NACK"


@pytest.mark.parametrize("version", Version)
def test_the_first_of_repeated_headers_counts_and_order_is_kept(version: Version) -> None:
    frame = only(b"SEND\nfoo:World\nbar:1\nfoo:Hello\n\n\0", version)
    assert list(frame.headers.items()) == [("foo", "World"), ("bar", "1")]


def test_headers_are_repeated_if_they_are_the_same_behind_their_escapes() -> None:
    assert only(b"SEND\na\\cb:1\na\\cb:2\n\\\\:3\n\n\0").headers == {"a:b": "1", "\\": "3"}


@pytest.mark.parametrize("version", Version)
def test_a_value_may_be_empty_and_a_name_may_not(version: Version) -> None:
    assert only(b"SEND\na:\n\n\0", version).headers == {"a": ""}
    error = refusal(b"SEND\na:1\n:value\n\n\0", version)
    assert (error.reason, error.header) == ("the name of a header is empty", ":value")


def test_a_name_of_spaces_is_empty_in_1_0_alone() -> None:
    assert refusal(b"SEND\n :value\n\n\0", V1_0).reason == "the name of a header is empty"
    assert only(b"SEND\n :value\n\n\0", V1_1).headers == {" ": "value"}


@pytest.mark.parametrize("version", Version)
def test_the_first_colon_ends_the_name_and_others_need_not_be_escaped(version: Version) -> None:
    assert only(b"SEND\nid:ID:host:1\nx::\n\n\0", version).headers == {"id": "ID:host:1", "x": ":"}


@pytest.mark.parametrize("line", [b"price 7", b"ab", b"x"])
@pytest.mark.parametrize("version", Version)
def test_a_header_without_a_colon_is_refused(line: bytes, version: Version) -> None:
    error = refusal(b"SEND\na:1\n" + line + b"\n\n\0", version)
    assert (error.reason, error.header) == ("a header has no colon", line.decode())


@pytest.mark.parametrize("data", [b"SEND\na:1\nb:\xff2\n\n\0", b"SEND\na:1\nb:\xed\xa0\x80\n\n\0"])
def test_a_header_that_is_not_utf_8_is_refused(data: bytes) -> None:
    error = refusal(data)
    assert error.reason == "a header is not UTF-8"
    assert error.header.startswith("b:\\x")


@pytest.mark.parametrize("version", Version)
def test_headers_are_utf_8(version: Version) -> None:
    assert only("SEND\nprix €:é\U0001f600\n\n\0".encode(), version).headers == {"prix €": "é\U0001f600"}


@pytest.mark.parametrize(
    "data", [b"DISCONNECT\nreceipt:77\n\0", b"SEND\0\n\n\0", b"\0", b"SEND\na:\0b\n\n\0", b"\x16\x03\x01\0\xa5"]
)
@pytest.mark.parametrize("version", [None, *Version])
def test_a_nul_before_the_blank_line_is_refused_at_once(data: bytes, version: Version | None) -> None:
    assert refusal(data, version).reason == "a NUL comes before the blank line that ends the headers"


# Line ends.


def test_1_2_ends_lines_with_or_without_carriage_return() -> None:
    expected = StompFrame("SEND", {"a": "1", "b": "2"}, b"\r\nx")
    assert only(b"SEND\r\na:1\r\nb:2\r\n\r\n\r\nx\0") == expected
    assert only(b"SEND\na:1\r\nb:2\n\r\n\r\nx\0") == expected
    assert only(b"SEND\r\na:1\nb:2\r\n\n\r\nx\0") == expected


def test_in_1_2_another_carriage_return_in_a_header_is_refused() -> None:
    for data in (b"SEND\na:1\r2\n\n\0", b"SEND\na:1\r\r\n\n\0", b"SEND\na:1\n\r\r\n\n\0"):
        assert refusal(data).reason == "a carriage return in a header is not escaped"


def test_in_1_1_a_carriage_return_is_a_part_of_the_value() -> None:
    assert only(b"SEND\na:1\r\nb:\r\n\n\0", V1_1).headers == {"a": "1\r", "b": "\r"}


def test_in_1_1_a_line_of_a_carriage_return_is_not_blank() -> None:
    error = refusal(b"SEND\na:1\n\r\n\n\0", V1_1)
    assert (error.reason, error.header) == ("a header has no colon", "\\r")
    assert refusal(b"SEND\r\n\n\0", V1_1).header == "SEND\\r"


def test_1_0_and_the_frame_that_connects_may_have_carriage_returns_at_their_line_ends() -> None:
    assert only(b"SEND\r\na:1\r\n\r\nx\0", V1_0) == StompFrame("SEND", {"a": "1"}, b"x")
    connect = b"CONNECT\r\naccept-version:1.1\r\nhost:\r\n\r\n\0"
    assert only(connect, None).headers == {"accept-version": "1.1", "host": ""}


@pytest.mark.parametrize("version", [None, *Version])
@pytest.mark.parametrize("eols", [b"\n", b"\r\n", b"\n\n\r\n\n", b"\r"])
def test_line_ends_between_frames_yield_nothing(version: Version | None, eols: bytes) -> None:
    reader = reader_of(version)
    found, error = read(reader, [eols, eols + b"SEND\n\n\0" + eols, eols, b"SEND\n\n\0" + eols])
    assert (len(found), error, reader.unfinished_bytes) == (2, None, 0)


# Spaces.


def test_1_0_trims_names_and_values() -> None:
    assert only(b"SUBSCRIBE\ndestination: /queue/foo\n ack\t:\tclient  \n\n\0", V1_0).headers == {
        "destination": "/queue/foo",
        "ack": "client",
    }


@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_1_1_and_1_2_never_trim(version: Version) -> None:
    assert only(b"SEND\n a : b \n\n\0", version).headers == {" a ": " b "}


def test_a_connect_is_trimmed_if_its_client_speaks_1_0_alone() -> None:
    assert only(b"CONNECT\nlogin: me\npasscode: secret\n\n\0", None).headers == {"login": "me", "passcode": "secret"}
    said = only(b"CONNECT\naccept-version:1.0,1.1\npasscode: secret\n\n\0", None)
    assert said.headers["passcode"] == " secret"
    unknown = only(b"CONNECT\naccept-version:3.0\npasscode: secret\n\n\0", None)
    assert unknown.headers["passcode"] == " secret"


def test_a_connected_of_1_0_is_trimmed_and_of_later_versions_is_not() -> None:
    assert only(b"CONNECTED\nsession: 7\n\n\0", None, SERVER_COMMANDS).headers == {"session": "7"}
    later = only(b"CONNECTED\nversion:1.1\nserver: a\n\n\0", None, SERVER_COMMANDS)
    assert later.headers["server"] == " a"


# Escapes.


def test_1_0_has_no_escapes() -> None:
    assert only(b"SEND\na\\c:\\n\\\\\\x\n\n\0", V1_0).headers == {"a\\c": "\\n\\\\\\x"}


@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_names_and_values_are_read_behind_their_escapes(version: Version) -> None:
    assert only(b"SEND\na\\cb\\\\:x\\ny\\cz\\\\n\n\n\0", version).headers == {"a:b\\": "x\ny:z\\n"}


def test_1_2_has_an_escape_for_carriage_return_and_1_1_has_not() -> None:
    assert only(b"SEND\na:\\r\\n\n\n\0", V1_2).headers == {"a": "\r\n"}
    error = refusal(b"SEND\na:\\r\\n\n\n\0", V1_1)
    assert (error.reason, error.header) == ("STOMP 1.1 has no escape \\r", "a")


@pytest.mark.parametrize("escape", ["\\t", "\\C", "\\:", "\\", "\\é", "\\\\\\a"])
@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_an_undefined_escape_is_refused(escape: str, version: Version) -> None:
    error = refusal(f"SEND\nok:1\nkey:x{escape}\n\n\0".encode(), version)
    assert error.header == "key"
    assert error.reason.startswith(f"STOMP {version} has no escape \\")


@pytest.mark.parametrize("version", [None, *Version])
def test_connect_and_connected_are_never_escaped(version: Version | None) -> None:
    for command in ("CONNECT", "CONNECTED"):
        data = command.encode() + b"\naccept-version:1.2\nversion:1.2\npasscode:a\\c\\n\\t\\\n\n\0"
        assert only(data, version, EVERY_COMMAND).headers["passcode"] == "a\\c\\n\\t\\"


def test_a_stomp_frame_is_read_alike_from_clients_that_escape_it_and_from_those_that_do_not() -> None:
    begin = b"STOMP\naccept-version:1.1\npasscode:"
    assert only(begin + b"a\\cb\n\n\0", None).headers["passcode"] == "a:b"
    assert only(begin + b"a:b\n\n\0", None).headers["passcode"] == "a:b"
    assert only(begin + b"a\\t\\r\\\n\n\0", None).headers["passcode"] == "a\\t\\r\\"
    assert only(begin.replace(b"1.1", b"1.2") + b"\\r\n\n\0", None).headers["passcode"] == "\r"
    assert only(b"STOMP\npasscode:a\\cb\n\n\0", None).headers["passcode"] == "a\\cb", "1.0 has no escapes"


# Bodies.


@pytest.mark.parametrize("version", Version)
def test_without_content_length_a_body_ends_at_the_first_nul(version: Version) -> None:
    found, error = read(reader_of(version), [b"SEND\n\nab\0\nSEND\n\ncd\0"])
    assert ([frame.body for frame in found], error) == ([b"ab", b"cd"], None)


@pytest.mark.parametrize("version", Version)
def test_with_content_length_a_body_may_have_nuls_and_what_looks_like_a_frame(version: Version) -> None:
    body = b"\0\0\nSEND\n\n\0"
    data = b"SEND\ncontent-length:%d\n\n%b\0" % (len(body), body)
    assert only(data, version).body == body
    found, error = read(reader_of(version), bytewise(data))
    assert ([frame.body for frame in found], error) == ([body], None)


def test_the_content_length_stays_among_the_headers() -> None:
    assert only(b"SEND\ncontent-length:002\na:b\n\nxy\0").headers == {"content-length": "002", "a": "b"}


def test_the_nul_after_a_body_with_content_length_is_mandatory() -> None:
    error = refusal(b"SEND\ncontent-length:2\n\nabc\0")
    assert error.reason == "no NUL is where the content-length says that the body ends"
    assert error.header == "content-length:2"


@pytest.mark.parametrize("length", ["-1", "+1", "1.0", "0x1", "", " 1", "1 ", "1_0", "²", "١", "one"])
def test_a_content_length_that_is_no_decimal_number_is_refused(length: str) -> None:
    error = refusal(f"SEND\ncontent-length:{length}\n\nx\0".encode())
    assert (error.reason, error.header) == ("the content-length is not a decimal number", f"content-length:{length}")


def test_1_0_trims_a_content_length_as_every_value() -> None:
    assert only(b"SEND\ncontent-length: 1\n\n\0\0", V1_0).body == b"\0"


@pytest.mark.parametrize("length", [f"{PAYLOAD_BYTES_MAX + 1}", "9" * 30, "9" * 60_000])
def test_a_huge_content_length_is_refused_before_any_of_the_body_arrives(length: str) -> None:
    _, error = read(reader_of(V1_2), [f"SEND\ncontent-length:{length}\n\n".encode()])
    assert error is not None
    assert error.reason == "the content-length is over the limit of 8,388,608"
    assert len(error.header) < 150


def test_zeros_before_a_content_length_mean_nothing() -> None:
    assert only(b"SEND\ncontent-length:" + b"0" * 5_000 + b"1\n\nx\0").body == b"x"
    assert only(b"SEND\ncontent-length:" + b"0" * 5_000 + b"\n\n\0").body == b""


def test_of_repeated_content_lengths_the_first_counts() -> None:
    assert only(b"SEND\ncontent-length:1\ncontent-length:x\n\n\0\0").body == b"\0"
    assert refusal(b"SEND\ncontent-length:x\ncontent-length:1\n\n\0\0").header == "content-length:x"


@pytest.mark.parametrize("command", sorted(CLIENT_COMMANDS - {"SEND"}))
def test_a_body_on_a_frame_that_must_have_none_is_refused_at_its_first_byte(command: str) -> None:
    for headers in (b"", b"content-length:1\n"):
        _, error = read(reader_of(V1_1), [command.encode() + b"\n" + headers + b"\nx"])
        assert error is not None
        assert error.reason == f"{command} has a body, but only ERROR, MESSAGE, SEND may have one"


def test_a_content_length_announces_a_body_that_must_not_be() -> None:
    _, error = read(reader_of(V1_2), [b"ACK\nid:1\ncontent-length:5\n\n"])
    assert error is not None
    assert error.reason.startswith("ACK has a body")
    assert error.header == "content-length:5"
    assert only(b"ACK\nid:1\ncontent-length:0\n\n\0").headers == {"id": "1", "content-length": "0"}


def test_the_body_of_a_subscribe_is_ignored_in_1_0() -> None:
    assert only(b"SUBSCRIBE\nid:1\n\nignored\0", V1_0) == StompFrame("SUBSCRIBE", {"id": "1"})
    assert refusal(b"SUBSCRIBE\nid:1\n\nignored\0", V1_1).reason.startswith("SUBSCRIBE has a body")


# One frame after the other.


def test_the_version_and_the_size_that_the_owner_sets_hold_for_the_next_frame() -> None:
    reader = StompReader()
    reader.bytes_max = 40
    data = b"CONNECT\naccept-version:1.2\n\n\0" + encode(StompFrame("SEND", {"a": "\r\n"}, bytes(50)), V1_2)
    found = []
    for frame in reader.feed(data):
        found.append(frame)
        reader.version = V1_2
        reader.bytes_max = 100
    assert found[1].headers["a"] == "\r\n"


def test_before_the_version_is_known_other_frames_are_read_as_in_1_0() -> None:
    assert only(b"SEND\r\na: \\t\r\n\r\n\0", None).headers == {"a": "\\t"}


def test_a_frame_is_given_as_soon_as_it_is_complete_and_not_before() -> None:
    for data in (b"SEND\na:b\n\nxyz\0", b"SEND\ncontent-length:3\n\nx\0z\0", b"DISCONNECT\n\n\0"):
        reader = reader_of(V1_2)
        assert list(reader.feed(data[:-1])) == []
        assert reader.unfinished_bytes == len(data) - 1
        assert len(list(reader.feed(data[-1:] + b"\nSE"))) == 1
        assert reader.unfinished_bytes == 2


def test_frames_that_were_not_fetched_are_given_with_the_next_data() -> None:
    reader = reader_of(V1_2)
    frames = reader.feed(b"BEGIN\n\n\0COMMIT\n\n\0ABO")
    assert next(frames).command == "BEGIN"
    frames.close()  # type: ignore[attr-defined]
    assert reader.unfinished_bytes == 12
    assert [frame.command for frame in reader.feed(b"RT\n\n\0")] == ["COMMIT", "ABORT"]


def test_a_refused_frame_leaves_nothing_in_memory() -> None:
    reader = reader_of(V1_2)
    _, error = read(reader, [b"SEND\nno colon\n\n" + bytes(10_000)])
    assert error is not None
    assert (reader.unfinished_bytes, len(reader._buffer)) == (0, 0)


# Limits.


def endless(begin: bytes, again: bytes) -> Iterator[bytes]:
    yield begin
    while True:
        yield again


def fed_until_refused(reader: StompReader, pieces: Iterable[bytes]) -> tuple[int, StompError]:
    """How many bytes an endless frame gets, and why no more."""
    fed = 0
    try:
        for piece in pieces:
            fed += len(piece)
            assert not list(reader.feed(piece))
            assert len(reader._buffer) <= fed
    except StompError as error:
        return fed, error
    raise AssertionError("endless")


LIMITS = StompLimits(headers_max=20, header_bytes_max=100, head_bytes_max=1_000, body_bytes_max=500)


@pytest.mark.parametrize("version", [None, *Version])
@pytest.mark.parametrize(
    ("begin", "again", "reason", "at"),
    [
        (b"", b"x", "a line is longer than 100 bytes", 101),
        (b"SEND\n", b"x", "a line is longer than 100 bytes", 106),
        (b"SEND\n", b"\r", "a line is longer than 100 bytes", 106),
        (b"SEND\n", b"a:b\n", "the frame has more than 20 headers", 5 + 4 * 20 + 4),
        (b"SEND\n", b"x" * 99 + b"\n", "the headers are longer than 1,000 bytes", 1_005),
        (b"SEND\n\n", b"x", "the body is longer than 500 bytes", 507),
        (b"SEND\n\n", b"\n", "the body is longer than 500 bytes", 507),
    ],
)
def test_a_frame_that_never_ends_is_refused_as_soon_as_it_is_over_a_limit(
    version: Version | None, begin: bytes, again: bytes, reason: str, at: int
) -> None:
    fed, error = fed_until_refused(reader_of(version, LIMITS), endless(begin, again))
    assert (error.reason, fed) == (reason, at)


@pytest.mark.parametrize(
    "begin", [b"", b"SEND\n\n", b"SEND\ncontent-length:400\n\n", b"SEND\na:b\n", b"SEND\na:b\n\nx", b"SEND\n\r\n"]
)
def test_no_frame_gets_more_than_the_bytes_its_sender_may_use(begin: bytes) -> None:
    reader = reader_of(V1_2, LIMITS)
    reader.bytes_max = 60
    fed, error = fed_until_refused(reader, endless(begin, b"x"))
    assert error.reason == "the frame is larger than 60 bytes"
    assert fed == (len(begin) if b"length" in begin else 60)


@pytest.mark.parametrize("length", [59, 60])
def test_a_frame_of_exactly_the_bytes_its_sender_may_use_is_read(length: int) -> None:
    for data in (b"SEND\n\n".ljust(length, b"x") + b"\0", b"SEND\ncontent-length:%d\n\n" % (length - 24)):
        whole = data if data.endswith(b"\0") else data + bytes(length - 24) + b"\0"
        for pieces in ([whole], bytewise(whole)):
            reader = reader_of(V1_2)
            reader.bytes_max = 60
            found, error = read(reader, pieces)
            assert (len(found), error is None) == ((1, True) if len(whole) <= 60 else (0, False))


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        (
            b"SEND\n" + b"a:b\n" * 20 + b"\n\0",
            b"SEND\n" + b"a:b\n" * 21 + b"\n\0",
            "the frame has more than 20 headers",
        ),
        (
            b"SEND\r\n" + b"a:b\r\n" * 20 + b"\r\n\0",
            b"SEND\r\n" + b"a:b\r\n" * 21 + b"\r\n\0",
            "the frame has more than 20 headers",
        ),
        (
            b"SEND\na:" + b"x" * 98 + b"\n\n\0",
            b"SEND\na:" + b"x" * 99 + b"\n\n\0",
            "a line is longer than 100 bytes",
        ),
        (
            b"SEND\n" + (b"a:".ljust(99, b"x") + b"\n") * 9 + b"a:".ljust(93, b"x") + b"\n\n\0",
            b"SEND\n" + (b"a:".ljust(99, b"x") + b"\n") * 9 + b"a:".ljust(94, b"x") + b"\n\n\0",
            "the headers are longer than 1,000 bytes",
        ),
        (b"SEND\n\n" + b"x" * 500 + b"\0", b"SEND\n\n" + b"x" * 501 + b"\0", "the body is longer than 500 bytes"),
        (
            b"SEND\ncontent-length:500\n\n" + bytes(501),
            b"SEND\ncontent-length:501\n\n" + bytes(502),
            "the content-length is over the limit of 500",
        ),
    ],
)
def test_a_frame_may_reach_a_limit_and_not_exceed_it(good: bytes, bad: bytes, reason: str) -> None:
    for pieces in ([good], bytewise(good)):
        found, error = read(reader_of(V1_2, LIMITS), pieces)
        assert (len(found), error) == (1, None)
    assert refusal(bad, limits=LIMITS).reason == reason


def test_the_largest_message_fits() -> None:
    headers = {f"{number:03}": "x" for number in range(ATTRIBUTES_MAX)}
    headers["text"] = "x" * STRING_CHARS_MAX
    data = encode(StompFrame("SEND", headers, bytes(PAYLOAD_BYTES_MAX)), V1_2)
    found, error = read(reader_of(V1_2), [data[:70_000], data[70_000:]])
    assert (len(found), error) == (1, None)
    assert found[0].headers["text"] == headers["text"]


@pytest.mark.parametrize("limit", ["headers_max", "header_bytes_max", "head_bytes_max", "body_bytes_max"])
def test_a_limit_is_at_least_one(limit: str) -> None:
    with pytest.raises(AssertionError, match="below 1"):
        StompLimits(**{limit: 0})


def test_heart_beats_cost_no_memory() -> None:
    reader = reader_of(V1_2)
    for piece in (b"\n" * 100_000, b"\r\n" * 100_000, b"\n"):
        assert list(reader.feed(piece)) == []
        assert (reader.unfinished_bytes, len(reader._buffer)) == (0, 0)


# What reading costs.


class CountingBytes(bytearray):
    """Counts the bytes that are searched, copied or moved."""

    cost = 0

    def find(self, *args: Any) -> int:
        start, stop = (args[1] if len(args) > 1 else 0), (args[2] if len(args) > 2 else len(self))
        found = super().find(*args)
        self.cost += (stop if found < 0 else found + 1) - start
        return found

    def count(self, *args: Any) -> int:
        self.cost += args[2] - args[1]
        return super().count(*args)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.cost += len(found) if isinstance(key, slice) else 1
        return found

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self.cost += len(self)


BIG = 20_000
COSTLY = {
    "a long header": b"SEND\na:" + b"x" * BIG + b"\n\n\0",
    "many headers": b"SEND\n" + b"".join(b"%d:x\n" % number for number in range(200)) * 10 + b"\n\0",
    "carriage returns": b"SEND\r\n" + b"a:b\r\n" * 270 + b"\r\n\0",
    "a body without length": b"SEND\n\n" + b"x\n" * BIG + b"\0",
    "a body with length": b"SEND\ncontent-length:%d\n\n%b\0" % (BIG, bytes(BIG)),
    "small frames": b"SEND\n\n\0" * 2_000,
    "small frames with carriage returns": b"SEND\r\na:b\r\n\r\n\0\r\n" * 2_000,
    "small frames with a body of NULs": b"SEND\ncontent-length:5\n\n\0\0\0\0\0\0" * 2_000,
    "heart-beats": b"\n" * BIG,
    "heart-beats and a frame": b"\r\n" * BIG + b"SEND\n\n\0",
}


@pytest.mark.parametrize("size", [1, 7, 1_000, 1_000_000])
@pytest.mark.parametrize("data", COSTLY.values(), ids=COSTLY.keys())
@pytest.mark.parametrize("version", Version)
def test_reading_costs_the_same_for_each_byte_however_many_there_are_and_however_they_come(
    data: bytes, size: int, version: Version
) -> None:
    reader = reader_of(version, StompLimits(headers_max=10_000))
    reader._buffer = counting = CountingBytes()
    read(reader, (data[start : start + size] for start in range(0, len(data), size)))
    assert reader._buffer is counting
    assert counting.cost <= 8 * len(data) + 100


# Against a parser that was written differently.


PIECES = [
    *(each.encode() for each in ALL_COMMANDS),
    *(
        b"SEND\n",
        b"SEND\r\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"\r\n\r\n",
        b"\0",
        b":",
        b" ",
        b"\t",
        b"a:b\n",
        b"a:c\r\n",
    ),
    *(b"\\n", b"\\c", b"\\\\", b"\\r", b"\\t", b"\\", b"x", b"key: value \n", "é€".encode(), b"\xff", b"\xc3"),
    *(b"content-length:2\n", b"content-length:0\n", b"content-length:", b"7", b"\n\nab\0", b"\n\n\0\0\0"),
    *(
        b"accept-version:",
        b"version:",
        b"1.0",
        b"1.1,1.2",
        b"CONNECT\naccept-version:1.1\n",
        b"STOMP\naccept-version:1.2\n",
    ),
    *(b"xxxxxxxxx", b"a\\cb:c\\nd\n"),
]
messes = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join),
    st.lists(st.sampled_from(PIECES), max_size=10).map(lambda inside: b"SEND\n" + b"".join(inside) + b"\n\n\0"),
    st.lists(
        st.sampled_from([b"SEND\n", b"a:b\n", b"\n", b"\r\n", b"\0", b"ab", b"content-length:1\n"]), max_size=14
    ).map(b"".join),
    st.binary(max_size=40),
)
cuts = st.lists(st.integers(0, 200), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@settings(max_examples=tries(6_000))
@given(
    messes,
    cuts,
    st.sampled_from([None, *Version]),
    st.sampled_from([StompLimits(), SMALL]),
    st.sampled_from([10, 25, 1_000_000]),
)
@example(b"SEND\n\r\n\n\0", [], None, StompLimits(), 1_000_000)
@example(b"SEND\na:1\r\r\n\n\0", [], V1_2, StompLimits(), 1_000_000)
@example(b"SEND\n\r\n\n\0", [6], V1_1, StompLimits(), 1_000_000)
@example(b"SEND\na:b\na:b\na:b\n\r\n\0", [18], V1_2, SMALL, 1_000_000)
@example(b"SEND\na:b\na:b\na:b\n\r\n\0", [18], V1_1, SMALL, 1_000_000)
def test_a_slow_parser_finds_the_same_frames_and_refuses_the_same(
    data: bytes, places: list[int], version: Version | None, limits: StompLimits, bytes_max: int
) -> None:
    expected, fault = parse(data, version, limits, bytes_max)
    for pieces in ([data], cut(data, places), list(bytewise(data))):
        reader = reader_of(version, limits, EVERY_COMMAND)
        reader.bytes_max = bytes_max
        found, error = read(reader, pieces)
        assert found == expected
        assert [list(frame.headers) for frame in found] == [list(frame.headers) for frame in expected]
        assert (error is None) == (fault is None), (error, fault)


@settings(max_examples=tries(3_000))
@given(st.lists(st.one_of(messes, st.binary(max_size=300)), max_size=4), st.sampled_from([None, *Version]))
def test_arbitrary_bytes_are_frames_or_a_stomp_error_and_nothing_else(
    pieces: list[bytes], version: Version | None
) -> None:
    found, error = read(reader_of(version), pieces)
    assert all(frame.command in CLIENT_COMMANDS for frame in found)
    if error is not None:
        assert error.reason.isprintable()
        assert error.header.isprintable()
        assert str(error)
