"""The raw client of the STOMP conformance script reads frames byte-exactly, and its table tells what came out."""

from __future__ import annotations

import json
import socket
import tomllib
from collections.abc import Iterator
from contextlib import closing

import pytest
from bench.stomp.clause import Clause, Need, State, Verdict, judge
from bench.stomp.clauses import CLAUSES
from bench.stomp.explanations import EXPLANATIONS, explanation
from bench.stomp.libraries import LIBRARIES
from bench.stomp.penstock_server import overlay_text
from bench.stomp.raw import (
    GoneError,
    MalformedFrameError,
    RawConnection,
    Reader,
    SilentError,
    TcpTransport,
    UnmetError,
    decode,
    encode,
    escape,
)
from bench.stomp.servers import parse_server
from bench.stomp.stage import NotApplicableError, SkippedError, Stage, Target
from bench.stomp.table import Table
from bench.stomp.websocket import BINARY, TEXT, WebFrames, web_frame

MESSAGE = b"MESSAGE\nsubscription:0\nword:a\\cb\nword:later\ncontent-length:3\n\na\0b\0"
NOWHERE = Target("nowhere", "127.0.0.1", 1)


def reader(data: bytes, version: str = "1.2") -> Reader:
    made = Reader(version)
    made.feed(data)
    return made


def test_a_frame_is_read_however_it_arrives() -> None:
    made = reader(b"")
    frames = []
    for each in b"\n" + MESSAGE + b"\n\r\n" + MESSAGE:
        made.feed(bytes([each]))
        frames += [frame for frame in [made.next()] if frame is not None]
    assert [(frame.command, frame.body) for frame in frames] == [("MESSAGE", b"a\0b")] * 2
    assert (made.eols, made.rest) == (3, b"")


def test_the_first_of_repeated_headers_counts() -> None:
    frame = reader(MESSAGE).next()
    assert frame is not None
    assert (frame.get("word"), frame.all("word"), frame.raw("word")) == ("a:b", ["a:b", "later"], b"a\\cb")
    assert (frame.get("nothing"), frame.flaws) == (None, ())


@pytest.mark.parametrize(
    "data",
    [
        b"HELLO\n\n\0",
        b"message\n\n\0",
        b"MESSAGE\nno colon\n\n\0",
        b"MESSAGE\n:no name\n\n\0",
        b"MESSAGE\ncontent-length:2\n\nabc\0",
        b"MESSAGE\ncontent-length:x\n\nabc\0",
        b"MESSAGE\nword:value\0",
    ],
)
def test_what_is_no_frame_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        reader(data).next()


@pytest.mark.parametrize(
    ("version", "line", "flaw"),
    [
        ("1.2", b"word:a:b", "unescaped colon"),
        ("1.2", b"word:a\rb", "unescaped carriage return"),
        ("1.2", b"word:a\\tb", "undefined escape"),
        ("1.2", b"word:a\\", "undefined escape"),
        ("1.1", b"word:a\\rb", "undefined escape"),
        ("1.0", b"word:\xff", "not UTF-8"),
    ],
)
def test_what_breaks_the_grammar_is_a_flaw(version: str, line: bytes, flaw: str) -> None:
    frame = reader(b"MESSAGE\n" + line + b"\n\n\0", version).next()
    assert frame is not None
    assert [flaw in each for each in frame.flaws] == [True]


@pytest.mark.parametrize(
    ("version", "line"), [("1.0", b"word:a:b\\t"), ("1.1", b"word:a\rb"), ("1.2", b"word:a\\rb\r")]
)
def test_what_another_version_forbids_is_no_flaw(version: str, line: bytes) -> None:
    frame = reader(b"MESSAGE\n" + line + b"\n\n\0", version).next()
    assert frame is not None
    assert frame.flaws == ()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_escapes_are_undone(version: str) -> None:
    for text in ("a:b\\c\\\\n", "größer", "a\nb" if version != "1.0" else "ab"):
        assert decode(escape(text, version).encode(), version) == text


def test_connect_is_not_escaped() -> None:
    assert encode("CONNECT", [("passcode", "a:b\\c")]) == b"CONNECT\npasscode:a:b\\c\n\n\0"
    assert encode("SEND", [("word", "a:b\r")], version="1.1") == b"SEND\nword:a\\cb\r\n\n\0"


@pytest.fixture
def ends() -> Iterator[tuple[RawConnection, socket.socket]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        connection = RawConnection(TcpTransport("127.0.0.1", server.getsockname()[1], patience_s=5), patience_s=5)
        theirs, _ = server.accept()
        with closing(connection), closing(theirs):
            yield connection, theirs


def test_the_version_is_that_of_connected(ends: tuple[RawConnection, socket.socket]) -> None:
    connection, theirs = ends
    theirs.sendall(b"CONNECTED\nversion:1.1\nsession:a:b\n\n\0\n" + MESSAGE)
    assert connection.frame().get("session") == "a:b"
    assert (connection.frame().version, connection.flaws) == ("1.1", [])


def test_every_wait_has_a_deadline(ends: tuple[RawConnection, socket.socket]) -> None:
    connection, theirs = ends
    theirs.sendall(MESSAGE[:-1])
    with pytest.raises(SilentError, match=r"no frame within .*MESSAGE"):
        connection.frame(0.01)
    assert not connection.closes(0.01)
    theirs.close()
    with pytest.raises(GoneError, match="connection closed"):
        connection.frame()


@pytest.mark.parametrize("length", [0, 125, 126, 65_535, 65_536])
def test_a_web_frame_of_any_length_is_read_back(length: int) -> None:
    body = bytes(length)
    frames = WebFrames()
    for part in (web_frame(BINARY, body, is_masked=False), web_frame(TEXT, b"x", is_masked=False)):
        frames.feed(part)
    assert [frames.next(), frames.next(), frames.next()] == [(BINARY, body), (TEXT, b"x"), None]


def test_a_masked_web_frame_hides_its_payload() -> None:
    frame = web_frame(TEXT, b"payload")
    head, mask, hidden = frame[:2], frame[2:6], frame[6:]
    assert head == bytes([0x81, 0x87])
    assert bytes(each ^ mask[place % 4] for place, each in enumerate(hidden)) == b"payload"
    frames = WebFrames()
    frames.feed(frame)
    with pytest.raises(UnmetError, match="masks"):
        frames.next()


def test_clauses_are_told_apart_and_say_what_must_hold() -> None:
    identifiers = [each.identifier for each in CLAUSES]
    identifiers += [name for library in LIBRARIES for name in library.identifiers]
    assert len(set(identifiers)) == len(identifiers)
    assert all(each.text and each.version in ("1.0", "1.1", "1.2") for each in CLAUSES)


def test_every_explanation_speaks_of_a_clause() -> None:
    identifiers = [each.identifier for each in CLAUSES]
    identifiers += [name for library in LIBRARIES for name in library.identifiers]
    needless = [key for key in EXPLANATIONS if not any(explanation(each, key[1], {key: "x"}) for each in identifiers)]
    assert needless == []


@pytest.mark.parametrize(
    ("raised", "state"),
    [
        (UnmetError("seen"), State.FAILED),
        (ValueError("seen"), State.FAILED),
        (NotApplicableError("seen"), State.NOT_APPLICABLE),
        (SkippedError("seen"), State.SKIPPED),
    ],
)
def test_a_verdict_says_what_was_seen(raised: Exception, state: State) -> None:
    def check(_: Stage) -> str:
        raise raised

    verdict = judge(Clause("a/b/c", Need.MUST, "x", check), Stage(NOWHERE, "1.2"))
    assert verdict.state is state
    assert "seen" in verdict.seen


def filled() -> Table:
    table = Table(["A", "B"], known={("1.2/x/*", "A"): "a reason", ("1.2/x/one", "B"): "needless"})
    table.add("1.2/x/one", Need.MUST, "one | holds")
    table.add("1.2/x/two", Need.MAY, "two holds")
    table.set("1.2/x/one", "A", Verdict(State.FAILED, "seen"))
    table.set("1.2/x/one", "B", Verdict(State.PASSED))
    table.set("1.2/x/two", "B", Verdict(State.FAILED, "also seen"))
    return table


def test_a_failure_is_explained_or_not() -> None:
    table = filled()
    assert table.explained("1.2/x/one") == "A: a reason"
    assert (table.unexplained("A"), table.unexplained("B")) == ([], ["1.2/x/two"])
    assert table.needless() == [("1.2/x/one", "B")]


def test_the_table_has_a_row_for_each_clause() -> None:
    table = filled()
    rows = [line for line in table.markdown().splitlines() if line.startswith("| 1.2/")]
    assert rows[0] == "| 1.2/x/one | must | one \\| holds | failed: seen | passed | A: a reason |"
    assert rows[1] == "| 1.2/x/two | may | two holds | - | failed: also seen |  |"
    told = json.loads(table.json_text())
    assert told["counts"]["B"] == {"passed": 1, "failed": 1, "not applicable": 0, "skipped": 0}
    assert told["clauses"][0]["verdicts"]["A"] == {"state": "failed", "seen": "seen", "explanation": "a reason"}


def test_a_server_is_read_from_the_command_line() -> None:
    target = parse_server("Other=127.0.0.1:61613,ws=127.0.0.1:15674,path=/ws,login=me,dead=/queue/DLQ")
    assert (target.name, target.host, target.port, target.web) == ("Other", "127.0.0.1", 61613, ("127.0.0.1", 15674))
    assert (target.web_path, target.login, target.dead_letters) == ("/ws", "me", "/queue/DLQ")


@pytest.mark.parametrize("text", ["127.0.0.1:61613", "X=127.0.0.1", "X=h:1,ws=h", "X=h:1,colour=red"])
def test_a_server_that_cannot_be_read_is_misuse(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|no option"):
        parse_server(text)


def test_the_overlay_file_has_pubends_of_both_kinds_and_one_for_dead_letters() -> None:
    content = tomllib.loads(overlay_text(1, stomp_port=2, web_port=3))
    broker = content["brokers"]["b1"]
    assert {"port": 2, "websocket_port": 3}.items() <= content["stomp"].items()
    assert content["defaults"]["dead_letters"] in broker["pubends"]
    assert set(broker["best_effort"]) < set(broker["pubends"])
