"""Clauses about STOMP over WebSocket: subprotocols, text and binary frames, and the rules of RFC 6455."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, EXTENSION, Check, Need, Section
from bench.stomp.raw import GoneError, SilentError, TcpTransport, UnmetError, encode
from bench.stomp.stage import NotApplicableError, Session, SkippedError, Stage, alive, expect, same
from bench.stomp.websocket import BINARY, CLOSE, CONTINUATION, PING, TEXT, WebSocketTransport, web_frame

__all__ = ["SECTION"]

SECTION: Final = Section("websocket")
_clause: Final = SECTION.clause
_HERE: Final = (EXTENSION,)
_BINARY: Final = bytes(range(256))


def _opened(stage: Stage, *, protocols: str = "v12.stomp", origin: str = "", opcode: int = TEXT) -> WebSocketTransport:
    """A WebSocket connection after its handshake, whatever its outcome."""
    if stage.target.web is None:
        raise SkippedError("no address for WebSocket is known")
    return WebSocketTransport(
        stage.target.web,
        path=stage.target.web_path,
        patience_s=stage.target.patience_s,
        protocols=protocols,
        origin=origin,
        opcode=opcode,
    )


def _connected(stage: Stage, *, opcode: int = TEXT) -> tuple[Session, WebSocketTransport]:
    transport = _opened(stage, opcode=opcode)
    return stage.connect(transport=transport), transport


def _subprotocol(protocol: str, version: str) -> Check:
    def check(stage: Stage) -> None:
        transport = _opened(stage, protocols=protocol)
        same((transport.status, transport.protocol), (101, protocol), "the answer")
        alive(stage.connect(version=version, transport=transport))

    return check


for _version in EVERY_VERSION:
    _protocol = f"v{_version.replace('.', '')}.stomp"
    SECTION.add(
        _protocol,
        Need.EXTENSION,
        f"the subprotocol {_protocol} is accepted",
        _subprotocol(_protocol, _version),
        versions=_HERE,
    )


@_clause(Need.EXTENSION, "of several subprotocols one is chosen, and of versions of STOMP the highest", versions=_HERE)
def _several_subprotocols(stage: Stage) -> str:
    transport = _opened(stage, protocols="mqtt, v10.stomp, v11.stomp, v12.stomp")
    same(transport.status, 101, "the status")
    if transport.protocol not in ("v10.stomp", "v11.stomp", "v12.stomp"):
        raise UnmetError(f"the subprotocol is {transport.protocol!r}")
    return transport.protocol


@_clause(Need.EXTENSION, "a client that speaks other subprotocols only is not told that it can", versions=_HERE)
def _foreign_subprotocol(stage: Stage) -> str:
    transport = _opened(stage, protocols="mqtt")
    if transport.protocol:
        raise UnmetError(f"the subprotocol is {transport.protocol!r}")
    return f"status {transport.status}"


@_clause(Need.EXTENSION, "a page of another origin is not let in", versions=_HERE)
def _foreign_origin(stage: Stage) -> str:
    transport = _opened(stage, origin="https://elsewhere.example")
    if transport.status == 101:
        raise UnmetError("let in")
    return f"status {transport.status}"


@_clause(Need.EXTENSION, "frames of text work both ways", versions=_HERE)
def _text_frames(stage: Stage) -> None:
    session, transport = _connected(stage)
    alive(session)
    same(set(transport.kinds) - {TEXT, BINARY}, set(), "other kinds of frames")


@_clause(Need.EXTENSION, "frames of binary data work, and so do bodies of any bytes", versions=_HERE)
def _binary_frames(stage: Stage) -> None:
    session, _ = _connected(stage, opcode=BINARY)
    topic = stage.topic()
    session.subscribe(topic)
    session.send(topic, _BINARY)
    same(session.message().body, _BINARY, "the body")


@_clause(Need.EXTENSION, "a body that is not UTF-8 is not sent in a frame of text", versions=_HERE)
def _binary_to_text_client(stage: Stage) -> str:
    session, transport = _connected(stage)
    topic = stage.topic()
    session.subscribe(topic)
    sender = stage.connect()
    sender.send(topic, _BINARY)
    transport.kinds.clear()
    same(session.message().body, _BINARY, "the body")
    if TEXT in transport.kinds:
        raise UnmetError("sent in a frame of text, which browsers answer by closing")
    return "in a frame of binary data"


@_clause(Need.EXTENSION, "a STOMP frame may come in several WebSocket messages", versions=_HERE)
def _split_over_messages(stage: Stage) -> None:
    transport = _opened(stage)
    connection = stage.raw(transport)
    frame = encode("CONNECT", stage.opening())
    connection.send(frame[:10])
    connection.send(frame[10:])
    expect(connection.frame(), "CONNECTED")


@_clause(Need.EXTENSION, "a WebSocket message may come in fragments", versions=_HERE)
def _fragments(stage: Stage) -> None:
    transport = _opened(stage)
    connection = stage.raw(transport)
    frame = encode("CONNECT", stage.opening())
    transport.tcp.send(web_frame(TEXT, frame[:5], is_last=False) + web_frame(CONTINUATION, frame[5:9], is_last=False))
    transport.tcp.send(web_frame(CONTINUATION, frame[9:]))
    expect(connection.frame(), "CONNECTED")


@_clause(Need.EXTENSION, "several STOMP frames may come in one WebSocket message", versions=_HERE)
def _several_in_one(stage: Stage) -> None:
    session, _ = _connected(stage)
    topic = stage.topic()
    session.subscribe(topic)
    session.connection.send(
        encode("SEND", [("destination", topic)], b"1") + encode("SEND", [("destination", topic)], b"2")
    )
    same(session.bodies(2), [b"1", b"2"], "the bodies")


@_clause(Need.EXTENSION, "a large message passes", versions=_HERE)
def _large(stage: Stage) -> None:
    session, _ = _connected(stage, opcode=BINARY)
    topic = stage.topic()
    session.subscribe(topic)
    body = _BINARY * 1_000
    session.send(topic, body)
    same(session.message().body, body, "the body")


@_clause(Need.EXTENSION, "a ping is answered by a pong", versions=_HERE)
def _ping(stage: Stage) -> None:
    session, transport = _connected(stage)
    # The line end after CONNECTED may come in a message of its own.
    for _ in session.connection.arrivals(0.2):
        pass
    transport.tcp.send(web_frame(PING, b"here?"))
    if not transport.pong(stage.target.patience_s):
        raise UnmetError(f"frames of kind {transport.kinds} came")


@_clause(Need.EXTENSION, "a close frame is answered by one, and the connection ends", versions=_HERE)
def _closing(stage: Stage) -> str:
    session, transport = _connected(stage)
    transport.tcp.send(web_frame(CLOSE, (1_000).to_bytes(2)))
    if not session.connection.closes():
        raise UnmetError("the connection stays open")
    if CLOSE not in transport.kinds:
        raise UnmetError("closed without a close frame")
    return f"code {transport.close_code}"


@_clause(Need.EXTENSION, "a client that does not mask its frames is sent away", versions=_HERE)
def _unmasked(stage: Stage) -> str:
    transport = _opened(stage)
    connection = stage.raw(transport)
    transport.tcp.send(web_frame(TEXT, encode("CONNECT", stage.opening()), is_masked=False))
    try:
        raise UnmetError(f"answered: {connection.frame()}")
    except GoneError:
        return f"closed, code {transport.close_code}"
    except SilentError:
        raise UnmetError("the connection stays open") from None


@_clause(Need.EXTENSION, "after ERROR and DISCONNECT the WebSocket is closed", versions=_HERE)
def _closed_after_error(stage: Stage) -> str:
    session, transport = _connected(stage)
    error = session.refused("SEND", [], b"x")
    return f"{error}; code {transport.close_code}"


@_clause(Need.EXTENSION, "DISCONNECT with a receipt is answered by RECEIPT", versions=_HERE)
def _disconnect(stage: Stage) -> None:
    session, _ = _connected(stage)
    session.disconnect()


@_clause(Need.EXTENSION, "heart-beats work over WebSocket", versions=_HERE)
def _heart_beats(stage: Stage) -> str:
    transport = _opened(stage)
    session = stage.connect(headers=[("heart-beat", "0,500")], transport=transport)
    able_ms = int((session.connected.get("heart-beat") or "0,0").partition(",")[0])
    if not 0 < able_ms <= 3_000:
        raise NotApplicableError(f"heart-beat:{session.connected.get('heart-beat')}")
    beats = list(session.connection.arrivals(4 * max(able_ms, 500) / 1_000))
    if len(beats) < 3:
        raise UnmetError(f"{len(beats)} heart-beats in four intervals")
    return f"{len(beats)} in four intervals"


@_clause(Need.EXTENSION, "TCP and WebSocket clients see each other's messages", versions=_HERE)
def _with_tcp(stage: Stage) -> None:
    session, _ = _connected(stage)
    other = stage.connect()
    topic = stage.topic()
    session.subscribe(topic)
    other.subscribe(topic)
    session.send(topic, "1")
    other.send(topic, "2")
    for each in (session, other):
        same(each.bodies(2), [b"1", b"2"], "the bodies")


@_clause(Need.EXTENSION, "a client that vanishes within the handshake does no harm", versions=_HERE)
def _unfinished_handshake(stage: Stage) -> None:
    if stage.target.web is None:
        raise SkippedError("no address for WebSocket is known")
    for part in (b"GET / HT", b"GET / HTTP/1.1\r\nUpgrade: websock", b"\x00\x01\x02\r\n\r\n"):
        half = stage.raw(TcpTransport(*stage.target.web, patience_s=stage.target.patience_s))
        half.send(part)
        half.close()
    alive(_connected(stage)[0])
