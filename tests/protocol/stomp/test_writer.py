"""Frames as bytes: escapes by version, the length of bodies, and what cannot be written at all."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.protocol.stomp import (
    BODY_COMMANDS,
    CLIENT_COMMANDS,
    HEART_BEAT,
    SERVER_COMMANDS,
    StompFrame,
    StompReader,
    Version,
    encode,
    encode_headers,
)
from strategies import tries

ALL_COMMANDS = CLIENT_COMMANDS | SERVER_COMMANDS
V1_0, V1_1, V1_2 = Version
AWKWARD = "\\\n\r: \tnrcé\U0010ffffa"


def test_a_frame_is_its_command_its_headers_a_blank_line_its_body_and_a_nul() -> None:
    frame = StompFrame("SEND", {"destination": "/topic/quotes"}, b"hello")
    assert encode(frame, V1_2) == b"SEND\ndestination:/topic/quotes\ncontent-length:5\n\nhello\0"


def test_a_frame_without_headers_and_body_has_still_its_blank_line() -> None:
    assert encode(StompFrame("DISCONNECT", {}), V1_1) == b"DISCONNECT\n\n\0"


@pytest.mark.parametrize(
    ("version", "line"),
    [(V1_1, b"a\\cb\\\\:x\\ny\\cz\\\\n\r\n"), (V1_2, b"a\\cb\\\\:x\\ny\\cz\\\\n\\r\n")],
)
def test_names_and_values_are_escaped_as_the_version_wants_it(version: Version, line: bytes) -> None:
    headers = {"a:b\\": "x\ny:z\\n\r"}
    assert encode_headers(headers, version) == line
    assert encode(StompFrame("SEND", headers), version) == b"SEND\n%b\n\0" % line


@pytest.mark.parametrize("version", Version)
def test_headers_that_need_no_escape_are_the_same_in_all_versions(version: Version) -> None:
    assert encode_headers({"id": "7", "empty": "", "prix": "é"}, version) == "id:7\nempty:\nprix:é\n".encode()
    assert encode_headers({}, version) == b""


def test_1_0_and_the_frames_that_connect_escape_nothing() -> None:
    assert encode_headers({"path": "c:\\new"}, V1_0) == b"path:c:\\new\n"
    for version in Version:
        frame = StompFrame("CONNECTED", {"server": "a:b\\n"})
        assert encode(frame, version) == b"CONNECTED\nserver:a:b\\n\n\n\0"


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\r", "\n"])
@pytest.mark.parametrize(("command", "version"), [("MESSAGE", V1_0), ("CONNECT", V1_2), ("CONNECTED", V1_1)])
def test_a_line_break_where_nothing_is_escaped_is_refused(text: str, command: str, version: Version) -> None:
    with pytest.raises(ValueError, match="a line break is in header 'key'"):
        encode(StompFrame(command, {"id": "1", "key": text}), version)
    with pytest.raises(ValueError, match="a line break is in header"):
        encode(StompFrame(command, {"id": "1", text: "key"}), version)


def test_a_colon_in_a_name_where_nothing_is_escaped_is_refused() -> None:
    with pytest.raises(ValueError, match="a colon is in the name of header 'a:b'"):
        encode_headers({"id": "1:2", "a:b": "c"}, V1_0)


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("headers", [{"id": "a\0b"}, {"id": "1", "\0": "a:b"}])
def test_a_nul_in_a_header_is_refused_since_it_could_end_the_frame(version: Version, headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="NUL is in header"):
        encode_headers(headers, version)


@pytest.mark.parametrize("version", Version)
def test_an_empty_name_is_refused(version: Version) -> None:
    with pytest.raises(ValueError, match="the name of a header is empty"):
        encode_headers({"": "a"}, version)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        encode_headers({"id": "\ud800"}, V1_2)


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'SEND\\n' is no command of STOMP"):
        encode(StompFrame("SEND\n", {}), V1_2)


@pytest.mark.parametrize("command", sorted(ALL_COMMANDS - BODY_COMMANDS))
def test_a_body_on_a_frame_that_must_have_none_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match=f"{command} has a body of 1 bytes"):
        encode(StompFrame(command, {}, b"x"), V1_2)


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, b"", b"\n"),
        ({}, b"\0\0", b"content-length:2\n\n\0\0"),
        ({"content-length": "9", "a": "b"}, b"xyz", b"content-length:3\na:b\n\nxyz"),
        ({"a": "b", "content-length": "9"}, b"", b"a:b\ncontent-length:0\n\n"),
    ],
)
def test_a_content_length_is_that_of_the_body(headers: dict[str, str], body: bytes, expected: bytes) -> None:
    before = dict(headers)
    assert encode(StompFrame("ERROR", headers, body), V1_2) == b"ERROR\n" + expected + b"\0"
    assert headers == before, "the frame itself stays as it is"


def test_a_heart_beat_is_one_line_feed() -> None:
    assert HEART_BEAT == b"\n"


texts = st.one_of(
    st.text(AWKWARD, max_size=6),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)


def expressible(headers: Mapping[str, str], version: Version, command: str) -> dict[str, str]:
    """The headers, without what cannot be written where nothing is escaped, or would be trimmed in 1.0."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        pair = [name, value]
        if version is V1_0 or command in ("CONNECT", "CONNECTED"):
            pair = [each.replace("\n", "_").replace("\r", "_") for each in pair]
            pair[0] = pair[0].replace(":", "_")
        if version is V1_0:
            pair = [each.strip(" \t") for each in pair]
        if pair[0] not in ("", "content-length"):
            found.setdefault(pair[0], pair[1])
    return found


@st.composite
def sent_frames(draw: st.DrawFn, version: Version) -> StompFrame:
    command = draw(st.sampled_from(sorted(ALL_COMMANDS - ({"NACK"} if version is V1_0 else set()))))
    headers = expressible(draw(st.dictionaries(texts, texts, max_size=5)), version, command)
    body = draw(st.one_of(st.binary(max_size=20), st.just(b"\0\n\0"))) if command in BODY_COMMANDS else b""
    return StompFrame(command, headers, body)


def as_read(frame: StompFrame) -> StompFrame:
    length = {"content-length": str(len(frame.body))} if frame.body else {}
    return StompFrame(frame.command, {**frame.headers, **length}, frame.body)


@st.composite
def sent_streams(draw: st.DrawFn) -> tuple[Version, list[StompFrame]]:
    version = draw(st.sampled_from(Version))
    return version, draw(st.lists(sent_frames(version), max_size=4))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@settings(max_examples=tries(1_000))
@given(sent_streams(), st.lists(st.integers(0, 1_000), max_size=8), st.sampled_from([b"", b"\n", b"\r\n\n"]))
@example((V1_2, [StompFrame("MESSAGE", {"\r": "\r\n:\\"}, b"\0"), StompFrame("RECEIPT", {})]), [1, 9, 12], b"\n")
@example((V1_1, [StompFrame("SEND", {"a": "b\r", "\r": "\r"}, b"\r\n\0\n")]), [], b"\n")
def test_every_frame_is_read_back_as_it_was_in_each_version_however_it_is_cut(
    sent: tuple[Version, list[StompFrame]], cuts: list[int], between: bytes
) -> None:
    version, frames = sent
    reader = StompReader(commands=ALL_COMMANDS)
    reader.version = version
    data = between + b"".join(encode(frame, version) + between for frame in frames)
    found = [frame for piece in pieces(data, cuts) for frame in reader.feed(piece)]
    assert found == [as_read(frame) for frame in frames]
    assert [list(frame.headers) for frame in found] == [list(as_read(frame).headers) for frame in frames]
    assert reader.unfinished_bytes == 0


@settings(max_examples=tries(1_000))
@given(
    st.sampled_from(Version),
    st.sampled_from(sorted(ALL_COMMANDS)),
    st.dictionaries(st.text("a\\\n\r:\0", max_size=6), st.text("a\\\n\r:\0", max_size=6), max_size=4),
)
def test_no_header_can_forge_another_line_or_frame(version: Version, command: str, headers: dict[str, str]) -> None:
    try:
        data = encode(StompFrame(command, headers), version)
    except ValueError:
        return
    assert data.count(b"\0") == 1
    assert data.count(b"\n") == len(headers) + 2
    assert data.endswith(b"\n\n\0")
