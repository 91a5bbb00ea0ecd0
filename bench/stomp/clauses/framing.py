"""Clauses about frames: line ends, escapes, repeated headers, bodies, limits, and what is no frame."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, EXTENSION, SINCE_1_1, Check, Need, Section
from bench.stomp.raw import GoneError, RawConnection, ServerFrame, SilentError, UnmetError, encode
from bench.stomp.stage import NotApplicableError, Session, Stage, alive, ended, expect, needed, same

__all__ = ["SECTION"]

SECTION: Final = Section("frame")
_clause: Final = SECTION.clause
_BINARY: Final = bytes(range(256)) * 2
_LARGE_BYTES: Final = 1_000_000


def _subscribed(stage: Stage) -> tuple[Session, str]:
    """A session and a topic to which it is subscribed."""
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic)
    return session, topic


def _round_trip(stage: Stage, name: str, value: str) -> ServerFrame:
    """Send a header, and compare what comes back."""
    session, topic = _subscribed(stage)
    session.send(topic, "x", [(name, value)])
    frame = session.message()
    same(frame.get(name), value, f"header {name!r}")
    return frame


def _sent_by_hand(stage: Stage, data: bytes) -> ServerFrame:
    """The message that comes back for a SEND of ours whose destination is written as TOPIC."""
    session, topic = _subscribed(stage)
    session.connection.send(data.replace(b"TOPIC", topic.encode()))
    return session.message()


def _refused_by_hand(stage: Stage, data: bytes) -> str:
    """How the server refuses bytes whose destination is written as TOPIC; the message must not be delivered."""
    session, topic = _subscribed(stage)
    writer = stage.connect()
    # A receipt for the second frame would say that the first one was accepted, without a wait.
    after = encode("SEND", [("destination", stage.topic()), ("receipt", "after")], b"x", version=stage.version)
    writer.connection.send(data.replace(b"TOPIC", topic.encode()) + after)
    try:
        frame = writer.is_ended_by_error()
    finally:
        session.nothing_comes("delivered all the same")
    return str(frame)


@_clause(Need.MUST, "lines may end with carriage return and line feed, which are no part of names and values")
def _crlf(stage: Stage) -> None:
    connection = stage.raw()
    opening = "".join(f"{name}:{value}\r\n" for name, value in stage.opening())
    connection.send(f"CONNECT\r\n{opening}\r\n\0\r\n".encode())
    expect(connection.frame(), "CONNECTED")
    topic = stage.topic()
    connection.send(f"SUBSCRIBE\r\nid:0\r\ndestination:{topic}\r\n\r\n\0\r\n".encode())
    connection.send(f"SEND\r\ndestination:{topic}\r\nword:value\r\n\r\nx\r\n\0\r\n".encode())
    frame = expect(connection.frame(), "MESSAGE")
    same((needed(frame, "destination"), needed(frame, "word"), frame.body), (topic, "value", b"x\r\n"), "the message")


@_clause(Need.MUST, "both line ends may be mixed within a frame")
def _mixed_line_ends(stage: Stage) -> None:
    frame = _sent_by_hand(stage, b"SEND\r\ndestination:TOPIC\nword:value\r\n\nx\0")
    same((needed(frame, "word"), frame.body), ("value", b"x"), "the message")


@_clause(Need.MUST, "a carriage return within a value is kept, as it ends no line", versions=("1.1",))
def _carriage_return_kept(stage: Stage) -> None:
    _round_trip(stage, "word", "a\rb")


@_clause(Need.MUST, "any number of line ends may follow a frame", versions=EVERY_VERSION)
def _line_ends_between(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    frame = encode("SEND", [("destination", topic)], b"x", version=stage.version)
    session.connection.send(b"\n" * 7 + frame + b"\n" * 500 + frame)
    same(session.bodies(2), [b"x", b"x"], "the bodies")


@_clause(Need.MUST, "carriage return and line feed may follow a frame, too")
def _crlf_between(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    frame = encode("SEND", [("destination", topic)], b"x")
    session.connection.send(b"\r\n\n" + frame + b"\r\n" * 50 + frame)
    same(session.bodies(2), [b"x", b"x"], "the bodies")


def _escaped_value(wire: bytes, value: str) -> Check:
    def check(stage: Stage) -> None:
        frame = _sent_by_hand(stage, b"SEND\ndestination:TOPIC\nword:" + wire + b"\n\nx\0")
        same(needed(frame, "word"), value, "the decoded value")
        same(frame.raw("word"), wire, "the value on the wire")

    return check


for _name, _wire, _value, _versions in (
    ("line-feed-escaped", rb"a\nb", "a\nb", SINCE_1_1),
    ("colon-escaped", rb"a\cb", "a:b", SINCE_1_1),
    ("backslash-escaped", rb"a\\b", "a\\b", SINCE_1_1),
    ("carriage-return-escaped", rb"a\rb", "a\rb", ("1.2",)),
    ("escapes-in-a-row", rb"\\n\\\n\c\\c", "\\n\\\n:\\c", SINCE_1_1),
):
    SECTION.add(
        _name,
        Need.MUST,
        f"{_wire.decode()} in a value stands for {_value!r}, and comes back escaped",
        _escaped_value(_wire, _value),
        versions=_versions,
    )


@_clause(Need.MUST, "names of headers are escaped like values", versions=SINCE_1_1)
def _names_escaped(stage: Stage) -> None:
    frame = _round_trip(stage, "a:b\\c\nd", "x")
    same([key for key, _ in frame.lines if key.startswith(b"a")], [rb"a\cb\\c\nd"], "the name on the wire")


@_clause(Need.MUST, r"the undefined escape \t is a fatal error", versions=SINCE_1_1)
def _undefined_escape(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\nword:a\\tb\n\nx\0")


@_clause(Need.MUST, r"the escape \r is not defined, and a fatal error", versions=("1.1",))
def _undefined_carriage_return(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\nword:a\\rb\n\nx\0")


@_clause(Need.MUST, "a backslash at the end of a value is a fatal error", versions=SINCE_1_1)
def _dangling_backslash(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\nword:a\\\n\nx\0")


@_clause(Need.MUST, "there are no escapes: a backslash and colons in a value come back as they are", versions=("1.0",))
def _no_escapes(stage: Stage) -> None:
    frame = _sent_by_hand(stage, b"SEND\ndestination:TOPIC\nword:a\\nb:c\\\\d:\\q\n\nx\0")
    same(frame.raw("word"), rb"a\nb:c\\d:\q", "the value on the wire")


@_clause(Need.MUST, "spaces around a value are neither trimmed nor added", versions=SINCE_1_1)
def _value_not_trimmed(stage: Stage) -> None:
    _round_trip(stage, "word", "  two words \t ")


@_clause(Need.MUST, "spaces around a name are neither trimmed nor added", versions=SINCE_1_1)
def _name_not_trimmed(stage: Stage) -> None:
    _round_trip(stage, " word ", "x")


@_clause(Need.MAY, "spaces around a value may be trimmed, as examples have them", versions=("1.0",))
def _padding(stage: Stage) -> str:
    frame = _sent_by_hand(stage, b"SEND\ndestination:TOPIC\nword: value \n\nx\0")
    value = needed(frame, "word")
    same(value.strip(), "value", "the value")
    return "kept" if value != "value" else "trimmed"


@_clause(Need.MUST, "names and values of headers are UTF-8", versions=SINCE_1_1)
def _utf8_headers(stage: Stage) -> None:
    _round_trip(stage, "Größe-長さ", "ça coûte 5 € 🐟")


@_clause(Need.MAY, "a header that is not UTF-8 is refused, or comes back as it was", versions=SINCE_1_1)
def _invalid_utf8(stage: Stage) -> str:
    session, topic = _subscribed(stage)
    session.connection.send(b"SEND\ndestination:%s\nword:a\xff\xfeb\n\nx\0" % topic.encode())
    frame = session.connection.frame()
    # What comes back cannot be well-formed.
    session.connection.flaws.clear()
    if frame.command == "MESSAGE":
        return f"comes back as {frame.raw('word')!r}"
    return str(expect(frame, "ERROR"))


@_clause(Need.MUST, "a value may be empty", versions=SINCE_1_1)
def _empty_value(stage: Stage) -> None:
    _round_trip(stage, "word", "")


@_clause(Need.SHOULD, "a header without a name is refused by ERROR", versions=EVERY_VERSION)
def _empty_name(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\n:value\n\nx\0")


@_clause(Need.SHOULD, "a header line without a colon is refused by ERROR", versions=EVERY_VERSION)
def _no_colon(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\nvalue\n\nx\0")


@_clause(Need.MAY, "an unescaped colon in a value is tolerated, or refused by ERROR", versions=SINCE_1_1)
def _unescaped_colon(stage: Stage) -> str:
    session, topic = _subscribed(stage)
    session.connection.send(b"SEND\ndestination:%s\nword:a:b\n\nx\0" % topic.encode())
    frame = session.connection.frame()
    if frame.command == "MESSAGE":
        same(frame.get("word"), "a:b", "the value")
        return "tolerated"
    return str(expect(frame, "ERROR"))


@_clause(Need.SHOULD, "of repeated headers the first one counts", versions=SINCE_1_1)
def _first_counts(stage: Stage) -> str:
    frame = _sent_by_hand(stage, b"SEND\ndestination:TOPIC\nword:first\nword:second\n\nx\0")
    same(needed(frame, "word"), "first", "the value")
    return f"passed on: {', '.join(frame.all('word'))}"


@_clause(Need.SHOULD, "of repeated destinations the first one counts", versions=SINCE_1_1)
def _first_destination_counts(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    other = stage.topic()
    session.subscribe(other)
    session.send(topic, "x", [("destination", other)])
    same(needed(session.message(), "destination"), topic, "the destination")
    session.nothing_comes("delivered twice")


@_clause(Need.MUST, "a body with zero bytes comes back whole if it has a content-length", versions=EVERY_VERSION)
def _zero_bytes(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, _BINARY)
    frame = session.message()
    same(frame.body, _BINARY, "the body")
    same(needed(frame, "content-length"), str(len(_BINARY)), "content-length")


@_clause(Need.MUST, "a body that looks like frames is a body, if content-length says so", versions=EVERY_VERSION)
def _frames_in_a_body(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    body = encode("SEND", [("destination", topic)], b"inner") * 3
    session.send(topic, body)
    same(session.message().body, body, "the body")
    session.nothing_comes("a frame was read out of a body")


@_clause(Need.MUST, "without content-length a body ends at the first zero byte", versions=EVERY_VERSION)
def _until_zero_byte(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    frame = encode("SEND", [("destination", topic)], b"one\ntwo\r\n\nthree", version=stage.version)
    session.connection.send(frame + frame)
    same(session.bodies(2), [b"one\ntwo\r\n\nthree"] * 2, "the bodies")


@_clause(Need.MUST, "a body may be empty, with content-length and without", versions=EVERY_VERSION)
def _empty_body(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, b"")
    session.ask("SEND", [("destination", topic)])
    same(session.bodies(2), [b"", b""], "the bodies")


@_clause(Need.MUST, "a body after whose content-length no zero byte follows is an error", versions=EVERY_VERSION)
def _content_length_too_small(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\ncontent-length:3\n\nlonger\0")


@_clause(Need.SHOULD, "a content-length that is no number is refused by ERROR", versions=EVERY_VERSION)
def _content_length_no_number(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\ncontent-length:many\n\nx\0")


@_clause(Need.SHOULD, "a negative content-length is refused by ERROR", versions=EVERY_VERSION)
def _content_length_negative(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\ndestination:TOPIC\ncontent-length:-1\n\nx\0")


@_clause(Need.MUST, "the body of SUBSCRIBE is ignored", versions=("1.0",))
def _body_ignored(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.ask("SUBSCRIBE", [("destination", topic)], b"a body")
    session.send(topic, "x")
    same(session.message().body, b"x", "the body")


@_clause(Need.MAY, "a body on SUBSCRIBE, which must not have one, is refused by ERROR or ignored", versions=SINCE_1_1)
def _forbidden_body(stage: Stage) -> str:
    session = stage.connect()
    session.write("SUBSCRIBE", [("id", "0"), ("destination", stage.topic()), ("receipt", "r")], b"a body")
    frame = session.connection.frame()
    if frame.command == "RECEIPT":
        alive(session)
        return "ignored"
    return str(expect(frame, "ERROR"))


@_clause(Need.MAY, "an unknown command is answered by ERROR", versions=EVERY_VERSION)
def _unknown_command(stage: Stage) -> str:
    session = stage.connect()
    session.write("SHOUT", [("destination", stage.topic())], b"x")
    try:
        return str(session.is_ended_by_error())
    except SilentError:
        alive(session)
        raise NotApplicableError("ignored") from None


@_clause(Need.MUST, "commands are case sensitive: send is not SEND")
def _command_case(stage: Stage) -> str | None:
    session, topic = _subscribed(stage)
    writer = stage.connect()
    writer.write("send", [("destination", topic)], b"x")
    session.nothing_comes("send was taken for SEND")
    try:
        return str(writer.error())
    except (GoneError, SilentError) as error:
        return str(error)


@_clause(Need.MUST, "names of headers are case sensitive: Destination is not destination")
def _header_case(stage: Stage) -> str:
    return _refused_by_hand(stage, b"SEND\nDestination:TOPIC\n\nx\0")


@_clause(Need.MUST, "a frame may arrive byte by byte", versions=EVERY_VERSION)
def _byte_by_byte(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    for each in encode("SEND", [("destination", topic), ("word", "välue")], b"x\xc3\xa4", version=stage.version):
        session.connection.send(bytes([each]))
    frame = session.message()
    same((frame.get("word"), frame.body), ("välue", b"x\xc3\xa4"), "the message")


@_clause(Need.MUST, "many frames may arrive at once, and are processed in order", versions=EVERY_VERSION)
def _many_at_once(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    frames = [encode("SEND", [("destination", topic)], b"%d" % each, version=stage.version) for each in range(300)]
    session.connection.send(b"".join(frames))
    same(session.bodies(300), [b"%d" % each for each in range(300)], "the bodies")


@_clause(Need.SHOULD, f"a body of {_LARGE_BYTES:,} bytes comes back whole", versions=EVERY_VERSION)
def _large_body(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    body = (_BINARY * (_LARGE_BYTES // len(_BINARY) + 1))[:_LARGE_BYTES]
    session.send(topic, body)
    same(session.message().body, body, "the body")


@_clause(Need.SHOULD, "a frame of 100 headers, and one of 4,000 characters, comes back whole")
def _usual_headers(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    headers = [(f"name{each}", f"value{each}") for each in range(100)] + [("long", "v" * 4_000)]
    session.send(topic, "x", headers)
    frame = session.message()
    same([(name, frame.get(name)) for name, _ in headers], headers, "the headers")


def _limited(part: bytes, number: int, end: bytes) -> Check:
    """Send a part again and again: the server must refuse it at some time, or take all of it."""

    def check(stage: Stage) -> str:
        connection = stage.connect().connection
        try:
            connection.send(b"SEND\ndestination:" + stage.topic().encode() + b"\n")
            for _ in range(number):
                connection.send(part)
            connection.send(end)
        except (GoneError, SilentError) as error:
            return _limit_told(connection, error)
        try:
            return f"refused: {expect(connection.frame(1.0), 'ERROR')}"
        except SilentError:
            raise NotApplicableError("no limit found") from None
        except GoneError:
            raise UnmetError("closed without ERROR") from None

    return check


def _limit_told(connection: RawConnection, error: UnmetError) -> str:
    try:
        return f"refused: {expect(connection.frame(), 'ERROR')}"
    except UnmetError:
        # A reset may have overtaken the ERROR, which the specification allows.
        return f"refused: {error}"


for _name, _text, _part, _number, _end in (
    ("header-count-limit", "too many headers", b"".join(b"h%d:x\n" % each for each in range(1_000)), 300, b"\nx\0"),
    ("header-length-limit", "a header that is too long", b"v" * 65_536, 320, b"\n\nx\0"),
    ("body-limit", "a body that is too long", b"content-length:1000000000000\n\n" + b"x" * 65_536, 1, b""),
):
    SECTION.add(_name, Need.SHOULD, f"{_text} is refused by ERROR, if there is a limit", _limited(_part, _number, _end))


@_clause(Need.MUST, "a server that refuses what is too large goes on serving others")
def _others_unharmed(stage: Stage) -> None:
    session = stage.connect()
    noisy = stage.connect()
    try:
        for _ in range(200):
            noisy.connection.send(b"S" * 65_536)
    except (GoneError, SilentError):
        pass
    alive(session)
    alive(stage.connect())


@_clause(
    Need.SHOULD, "bytes that are no frame are answered by ERROR, and the connection is closed", versions=EVERY_VERSION
)
def _garbage(stage: Stage) -> str:
    session = stage.connect()
    session.connection.send(b"\x16\x03\x01 what is this?\n\n\0")
    how = ended(stage, session.connection)
    if how.startswith("closed"):
        raise UnmetError(how)
    return how


@_clause(Need.MAY, "spaces after a command are no part of it, or refused", versions=(EXTENSION,))
def _padded_command(stage: Stage) -> str:
    session, topic = _subscribed(stage)
    session.connection.send(b"SEND \ndestination:%s\n\nx\0" % topic.encode())
    frame = session.connection.frame()
    return "tolerated" if frame.command == "MESSAGE" else str(expect(frame, "ERROR"))
