"""Connections over WebSocket, with a small client of the test's own that writes every byte itself."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from live.certificates import Authority
from live.support import run, until
from penstock.broker.outbox import Outbox
from penstock.live.connection import Connection
from penstock.live.counters import Counters
from penstock.live.errors import ConfigError
from penstock.live.tls import TlsFiles, client_context, server_context
from penstock.live.turns import Turns
from penstock.live.websocket import WebSocketProtocol, WebSocketSettings, WebSocketTransport, require_websockets
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import Frame as NativeFrame
from penstock.protocol.frames import Heartbeat, Hello

SETTINGS = WebSocketSettings(("v12.stomp", "v11.stomp"), message_bytes_max=100_000, first_bytes_max=100_000)
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x11\x22\x33\x44"
# The example of RFC 6455.
KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

both_loops = pytest.mark.parametrize("plain", [True, False], ids=["asyncio", "uvloop"])


def head(*, method: str = "GET", version: str = "1.1", **changes: str) -> bytes:
    """A request to upgrade; ``Sec_WebSocket_Key="..."`` changes a header, an empty value leaves it out."""
    headers = {
        "Host": "broker.example:61623",
        "Upgrade": "websocket",
        "Connection": "keep-alive, Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "v10.stomp, v11.stomp, v12.stomp",
    }
    headers.update({name.replace("_", "-"): value for name, value in changes.items()})
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join([f"{method} /any/path?x=1 HTTP/{version}", *lines, "", ""]).encode()


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """One frame as a client sends it."""
    size = len(payload)
    if size < 126:
        length = bytes([masked << 7 | size])
    elif size < 2**16:
        length = bytes([masked << 7 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([masked << 7 | 127]) + size.to_bytes(8, "big")
    start = bytes([fin << 7 | reserved << 4 | opcode]) + length
    if not masked:
        return start + payload
    mask = (MASK * (size // 4 + 1))[:size]
    hidden = (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
    return start + MASK + hidden


def closing(code: int) -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big"))


@dataclass(slots=True, frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


class Client:
    """Writes bytes, and reads answers and frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    def send(self, *pieces: bytes) -> None:
        self.writer.write(b"".join(pieces))

    async def answer(self) -> Answer:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        body = await self._reader.readexactly(int(headers.get("Content-Length", "0")))
        return Answer(int(lines[0].split()[1]), headers, body.decode())

    async def open(self, **changes: str) -> None:
        self.send(head(**changes))
        assert (await self.answer()).status == 101

    async def frame(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        assert first & 0xF0 == 0x80, "servers of ours send whole messages and no extensions"
        assert second < 0x80, "servers do not mask"
        size = second
        if second == 126:
            size = int.from_bytes(await self._reader.readexactly(2), "big")
        elif second == 127:
            size = int.from_bytes(await self._reader.readexactly(8), "big")
        return first & 0x0F, await self._reader.readexactly(size)

    async def code(self) -> int:
        """The code of the Close that comes next; its reason is not empty unless all is well."""
        opcode, payload = await self.frame()
        assert opcode == CLOSE
        code = int.from_bytes(payload[:2], "big")
        assert (code == 1000) == (payload[2:] == b"")
        return code

    async def rest(self) -> bytes:
        return await self._reader.read()

    async def leave(self) -> None:
        self.writer.transport.abort()
        # It may have been cut before.
        with suppress(OSError):
            await self.writer.wait_closed()


class Inner(asyncio.Protocol):
    """Notes what it hears, and answers as the test says."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data: list[bytes] = []
        self.lost: list[Exception | None] = []
        self.transport: asyncio.Transport | None = None
        self.on_data: Callable[[bytes], None] = lambda _data: None

    @property
    def to(self) -> asyncio.Transport:
        assert self.transport is not None
        return self.transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, WebSocketTransport)
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        assert data
        self.data.append(data)
        self.on_data(data)

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return True

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.append(exc)


class Echo(Inner):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.to.write(data)


class Listener:
    """Accepts connections, and keeps both protocols of each."""

    def __init__(self, make: Callable[[], asyncio.Protocol], settings: WebSocketSettings, linger_s: float) -> None:
        self._make, self._settings, self._linger_s = make, settings, linger_s
        self.outer: list[WebSocketProtocol] = []
        self.clients: list[Client] = []
        self.address = ("", 0)

    def accept(self) -> WebSocketProtocol:
        self.outer.append(WebSocketProtocol(self._make(), self._settings, linger_s=self._linger_s))
        return self.outer[-1]

    def inner(self, number: int = -1) -> Inner:
        return cast("Inner", self.outer[number].inner)

    async def dial(self, context: ssl.SSLContext | None = None) -> Client:
        self.clients.append(Client(*await asyncio.open_connection(*self.address, ssl=context)))
        return self.clients[-1]

    async def refused(self, *pieces: bytes) -> Answer:
        """What a client hears that is not let in; the inner protocol hears nothing."""
        client = await self.dial()
        client.send(*pieces)
        answer = await client.answer()
        assert await client.rest() == b""
        # It lingers, and takes up room meanwhile.
        assert not self.outer[-1].settled.is_set()
        client.writer.close()
        await self.outer[-1].settled.wait()
        assert self.outer[-1].problem
        assert self.outer[-1].subprotocol == ""
        assert self.inner().calls == []
        return answer


@asynccontextmanager
async def listening(
    make: Callable[[], asyncio.Protocol] = Inner,
    settings: WebSocketSettings = SETTINGS,
    *,
    linger_s: float = 30.0,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[Listener]:
    """A listener; by default it lingers for so long that a test which needs the end of it would fail."""
    listener = Listener(make, settings, linger_s)
    server = await asyncio.get_running_loop().create_server(listener.accept, "127.0.0.1", 0, ssl=context)
    listener.address = server.sockets[0].getsockname()[:2]
    try:
        yield listener
    finally:
        server.close()
        for client in listener.clients:
            await client.leave()
        for outer in listener.outer:
            outer.abort()
        await until(lambda: all(outer._real is None for outer in listener.outer))
        assert all(len(cast("Inner", outer.inner).lost) <= 1 for outer in listener.outer if _notes(outer))


def _notes(outer: WebSocketProtocol) -> bool:
    return isinstance(outer.inner, Inner)


class Below(asyncio.Transport):
    """A transport below that only remembers."""

    def __init__(self, *, half_closes: bool = True) -> None:
        super().__init__()
        self._half_closes = half_closes
        self.written: list[bytes] = []
        self.calls: list[str] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5)}.get(name, default)

    def is_closing(self) -> bool:
        return "abort" in self.calls or "close" in self.calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def can_write_eof(self) -> bool:
        return self._half_closes

    def write_eof(self) -> None:
        self.calls.append("eof")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def opened(settings: WebSocketSettings = SETTINGS) -> tuple[WebSocketProtocol, Inner, Below]:
    inner, below = Inner(), Below()
    outer = WebSocketProtocol(inner, settings)
    outer.connection_made(below)
    outer.data_received(head())
    below.written.clear()
    return outer, inner, below


# The opening handshake.


@both_loops
def test_a_client_that_offers_a_known_subprotocol_gets_in_and_the_server_chooses(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            client.send(head(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits"))
            answer = await client.answer()
            assert answer.status == 101
            assert answer.headers["Sec-WebSocket-Accept"] == ACCEPT
            assert answer.headers["Sec-WebSocket-Protocol"] == "v12.stomp"
            assert "Sec-WebSocket-Extensions" not in answer.headers
            outer, to = listener.outer[0], listener.inner().to
            assert outer.settled.is_set()
            assert (outer.subprotocol, to.get_extra_info("subprotocol")) == ("v12.stomp", "v12.stomp")
            assert to.get_extra_info("peername") == client.writer.get_extra_info("sockname")
            assert to.get_protocol() is outer.inner
            assert listener.inner().calls == ["made"]
            client = await listener.dial()
            await client.open(Sec_WebSocket_Protocol="v10.stomp, v11.stomp")
            assert listener.outer[1].subprotocol == "v11.stomp"

    run(scenario(), plain=plain)


@both_loops
def test_the_request_may_come_in_pieces_and_messages_right_behind_it(plain: bool) -> None:
    async def scenario() -> None:
        async with listening(Echo) as listener:
            client = await listener.dial()
            data = head()
            for start in range(0, len(data), 7):
                client.send(data[start : start + 7])
                await client.writer.drain()
            assert (await client.answer()).status == 101
            hasty = await listener.dial()
            hasty.send(head(), frame(PING, b"early"), frame(TEXT, b"SEND"))
            assert (await hasty.answer()).status == 101
            assert [await hasty.frame() for _ in range(2)] == [(PONG, b"early"), (TEXT, b"SEND")]

    run(scenario(), plain=plain)


def test_wherever_a_request_is_cut_it_is_answered_before_the_frames_behind_it() -> None:
    async def scenario() -> None:
        data = head() + frame(PING, b"early")
        for cut in range(1, len(data)):
            inner, below = Inner(), Below()
            outer = WebSocketProtocol(inner, SETTINGS)
            outer.connection_made(below)
            outer.data_received(data[:cut])
            outer.data_received(data[cut:])
            written = b"".join(below.written)
            assert written.startswith(b"HTTP/1.1 101 ")
            assert written.endswith(b"\r\n\r\n\x8a\x05early")
            outer.connection_lost(None)
            assert inner.calls == ["made", "lost"]

    run(scenario())


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"Sec_WebSocket_Protocol": "mqtt"}, 400, "no subprotocol of v12.stomp, v11.stomp"),
        ({"Sec_WebSocket_Protocol": ""}, 400, "no subprotocol of v12.stomp, v11.stomp"),
        ({"Origin": "https://elsewhere.example"}, 403, "pages of 'https://elsewhere.example' may not connect"),
        ({"Origin": "null"}, 403, "pages of 'null' may not connect"),
        ({"Origin": "https://broker.example"}, 403, "may not connect"),
        ({"Origin": "file://broker.example:61623"}, 403, "may not connect"),
        ({"Upgrade": "", "Connection": ""}, 426, "this port speaks WebSocket only"),
        ({"Upgrade": "h2c"}, 426, "this port speaks WebSocket only"),
        ({"Sec_WebSocket_Key": "short"}, 400, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Version": "8"}, 400, "Sec-WebSocket-Version"),
        ({"Cookie": "c" * 8_000, "Filler": "f" * 8_000, "More": "m" * 8_000}, 431, "longer than 16,384 bytes"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_with_a_reason(changes: dict[str, str], status: int, words: str) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            answer = await listener.refused(head(**changes))
            assert answer.status == status
            assert words in answer.body
            assert answer.headers["Connection"] == "close"
            assert answer.headers.get("Upgrade", "websocket") == "websocket"

    run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        b"CONNECT\naccept-version:1.2\nhost:b1\n\n\0",
        b"CONNECT\r\naccept-version:1.2\r\n\r\n\0",
        head(Content_Length="5") + b"hello",
        head(Transfer_Encoding="chunked"),
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_at_once(data: bytes) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            answer = await listener.refused(data)
            assert (answer.status, answer.body) == (400, "not a request of HTTP/1.1 for WebSocket\n")

    run(scenario())


def test_a_line_of_the_request_that_is_too_long_is_refused() -> None:
    async def scenario() -> None:
        async with listening() as listener:
            assert 400 <= (await listener.refused(head(Cookie="c" * 10_000))).status < 500

    run(scenario())


@pytest.mark.parametrize(
    ("allowed", "origin"),
    [
        ((), ""),
        ((), "http://broker.example:61623"),
        ((), "https://BROKER.example:61623"),
        (("*",), "https://elsewhere.example"),
        (("*",), "null"),
        (("https://desk.example", "https://Shop.example:8443"), "https://shop.example:8443"),
        (("https://desk.example",), ""),
    ],
)
def test_pages_of_the_right_sites_and_clients_without_a_page_get_in(allowed: tuple[str, ...], origin: str) -> None:
    async def scenario() -> None:
        async with listening(settings=replace(SETTINGS, origins=allowed)) as listener:
            await (await listener.dial()).open(Origin=origin)

    run(scenario())


@pytest.mark.parametrize("origin", ["http://broker.example:61623", "https://desk.example.evil.example"])
def test_where_sites_are_listed_others_may_not_connect_not_even_the_hosts_own(origin: str) -> None:
    async def scenario() -> None:
        async with listening(settings=replace(SETTINGS, origins=("https://desk.example",))) as listener:
            assert (await listener.refused(head(Origin=origin))).status == 403

    run(scenario())


def test_two_origins_or_two_hosts_are_no_way_around() -> None:
    async def scenario() -> None:
        async with listening() as listener:
            own = head(Origin="https://evil.example")
            twice = own.replace(b"Origin:", b"Origin: http://broker.example:61623\r\nOrigin:")
            assert (await listener.refused(twice)).status == 400
            hosts = own.replace(b"Host:", b"Host: evil.example\r\nHost:")
            assert (await listener.refused(hosts)).status == 403

    run(scenario())


@both_loops
def test_who_is_too_slow_with_the_request_is_refused(plain: bool) -> None:
    async def scenario() -> None:
        async with listening(settings=replace(SETTINGS, handshake_s=0.05)) as listener:
            answer = await listener.refused(head()[:-2])
            assert (answer.status, answer.body) == (408, "no complete request within 0.05 s\n")
            client = await listener.dial()
            assert (await client.answer()).status == 408

    run(scenario(), plain=plain)


def test_the_deadline_ends_with_the_handshake() -> None:
    async def scenario() -> None:
        outer, _, below = opened(replace(SETTINGS, handshake_s=0.001))
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(0.002, passed.set)
        await passed.wait()
        assert below.written == []
        assert not outer.is_closing
        outer.connection_lost(None)

    run(scenario())


@both_loops
def test_who_leaves_during_the_handshake_was_never_there(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            client.send(head()[:40])
            await until(lambda: listener.outer and listener.outer[0]._head_bytes == 40)
            assert not listener.outer[0].settled.is_set()
            client.writer.close()
            await listener.outer[0].settled.wait()
            await until(lambda: listener.outer[0]._real is None)
            assert listener.inner().calls == []
            waiting = await listener.dial()
            await until(lambda: len(listener.outer) == 2 and listener.outer[1]._real is not None)
            listener.outer[1].abort()
            with_reset_or_not = await asyncio.gather(waiting.rest(), return_exceptions=True)
            assert not any(each for each in with_reset_or_not if isinstance(each, bytes))
            await listener.outer[1].settled.wait()

    run(scenario(), plain=plain)


def test_settings_that_cannot_be_are_refused() -> None:
    for changes, words in (
        ({"subprotocols": ()}, "subprotocols is empty"),
        ({"message_bytes_max": 0}, "message_bytes_max is 0, must be above 0"),
        ({"handshake_s": -1.0}, "handshake_s is -1.0, must be above 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            replace(SETTINGS, **changes)
    require_websockets("b1")


# Messages.


@both_loops
def test_text_is_answered_in_text_and_binary_in_binary(plain: bool) -> None:
    async def scenario() -> None:
        async with listening(Echo) as listener:
            client = await listener.dial()
            await client.open()
            for payload in (b"SEND\n\nhello\0", "fünf €".encode(), b"x" * 126, b"y" * 70_000):
                for opcode in (TEXT, BINARY):
                    client.send(frame(opcode, payload))
                    assert await client.frame() == (opcode, payload)
            client.send(frame(BINARY, b"\xff\xfe"))
            assert await client.frame() == (BINARY, b"\xff\xfe")

    run(scenario(), plain=plain)


def test_to_a_client_of_texts_only_what_is_no_text_is_sent_as_binary() -> None:
    async def scenario() -> None:
        outer, inner, below = opened()
        inner.to.write(b"first")
        assert below.written.pop() == b"\x82\x05first"
        outer.data_received(frame(TEXT, b"hi"))
        for data, start in (
            (b"plain", 0x81),
            ("ü".encode(), 0x81),
            ("ü".encode()[:1], 0x82),
            (b"\xff", 0x82),
            (b"a", 0x81),
        ):
            inner.to.write(data)
            assert below.written.pop() == bytes([start, len(data)]) + data
        inner.to.write(memoryview(b"view"))
        inner.to.writelines([b"two ", bytearray(b"parts")])
        assert below.written == [b"\x81\x04view", b"\x81\x09two parts"]
        inner.to.write(b"")
        assert len(below.written) == 2
        outer.data_received(frame(BINARY, b"hi"))
        inner.to.write(b"plain")
        assert below.written[-1] == b"\x82\x05plain"
        outer.connection_lost(None)

    run(scenario())


def test_fragments_are_put_together_whatever_comes_between_them() -> None:
    async def scenario() -> None:
        outer, inner, below = opened()
        parts = (
            frame(TEXT, b"SE", fin=False)
            + frame(CONTINUATION, b"N\xc3", fin=False)
            + frame(PING, b"between")
            + frame(CONTINUATION, b"", fin=False)
            + frame(CONTINUATION, b"\xbc")
            + frame(BINARY, b"", fin=False)
            + frame(CONTINUATION, b"second")
        )
        for start in range(len(parts)):
            outer.data_received(parts[start : start + 1])
        assert inner.data == ["SENü".encode(), b"second"]
        assert below.written == [b"\x8a\x07between"]
        outer.data_received(parts)
        assert inner.data[2:] == ["SENüsecond".encode()]
        outer.connection_lost(None)

    run(scenario())


def test_empty_messages_are_heard_by_nobody() -> None:
    async def scenario() -> None:
        outer, inner, _ = opened()
        outer.data_received(frame(TEXT) + frame(BINARY, b"", fin=False) + frame(CONTINUATION) + frame(PONG, b"stray"))
        assert inner.data == []
        assert not outer.is_closing
        outer.connection_lost(None)

    run(scenario())


@both_loops
def test_pings_are_answered_in_order(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            client.send(*(frame(PING, b"%d" % number) for number in range(10)))
            assert [await client.frame() for _ in range(10)] == [(PONG, b"%d" % number) for number in range(10)]

    run(scenario(), plain=plain)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (frame(TEXT, b"SEND", masked=False), 1002, "masking"),
        (frame(TEXT, b"SEND", reserved=4), 1002, "reserved bits"),
        (frame(3, b"x"), 1002, "opcode"),
        (frame(PING, b"x" * 126), 1002, "too long"),
        (frame(PING, fin=False), 1002, "fragmented"),
        (frame(CONTINUATION, b"x"), 1002, "continuation"),
        (frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"), 1002, "continuation"),
        (frame(CLOSE, b"x"), 1002, "too short"),
        (closing(1005), 1002, "status code"),
        (frame(TEXT, b"\xff\xfe"), 1007, "UTF-8"),
        (frame(TEXT, b"\xc3", fin=False) + frame(CONTINUATION, b"x"), 1007, "UTF-8"),
        (frame(BINARY, b"x" * 100_001), 1009, "100001"),
        (frame(BINARY, b"x" * 60_000, fin=False) + frame(CONTINUATION, b"x" * 40_001), 1009, "100000"),
        # Only announced.
        (b"\x82\xff" + b"\x7f" + b"\xff" * 7 + MASK, 1009, "too big"),
    ],
)
def test_who_breaks_the_protocol_is_told_by_the_right_code(data: bytes, code: int, words: str) -> None:
    async def scenario() -> None:
        async with listening(Echo) as listener:
            client = await listener.dial()
            await client.open()
            client.send(frame(TEXT, b"good"))
            assert await client.frame() == (TEXT, b"good")
            client.send(data, frame(TEXT, b"ignored"))
            assert await client.code() == code
            assert await client.rest() == b""
            inner, outer = listener.inner(), listener.outer[0]
            assert inner.data == [b"good"]
            assert str(code) in outer.problem
            assert words in outer.problem
            inner.to.write(b"too late")
            inner.to.close()
            client.writer.close()
            await until(lambda: inner.lost)
            assert inner.calls == ["made", "lost"]

    run(scenario())


def test_a_message_as_large_as_allowed_gets_through_in_one_piece_or_many() -> None:
    async def scenario() -> None:
        outer, inner, _ = opened()
        outer.know()
        for _ in range(3):
            outer.data_received(frame(BINARY, b"x" * 100_000))
            outer.data_received(frame(BINARY, fin=False) + frame(CONTINUATION, b"y", fin=False) * 99_999)
            await until(lambda: not outer._unread)
            outer.data_received(frame(CONTINUATION, b"z"))
        assert b"".join(inner.data) == (b"x" * 100_000 + b"y" * 99_999 + b"z") * 3
        outer.connection_lost(None)

    run(scenario())


def test_strangers_may_send_small_messages_only() -> None:
    async def scenario() -> None:
        settings = replace(SETTINGS, first_bytes_max=1_000)
        outer, inner, below = opened(settings)
        for _ in range(100):
            outer.data_received(frame(BINARY, b"x" * 1_000))
        assert len(inner.data) == 100
        outer.data_received(frame(BINARY, b"x" * 50_000))
        assert len(inner.data) == 100
        assert b"\x03\xf1more than 1,000 bytes before authentication" in below.written[-1]
        assert below.calls[-1] == "eof"
        outer.connection_lost(None)
        outer, inner, below = opened(settings)
        for _ in range(20):
            outer.data_received(frame(BINARY, b"x" * 500, fin=False) + frame(CONTINUATION, b"x" * 499))
            outer.data_received(frame(PING, b"x" * 100) * 10)
        assert below.calls == []
        outer.data_received(frame(BINARY, fin=False))
        for _ in range(20):
            outer.data_received(frame(CONTINUATION, b"x" * 999, fin=False) + frame(PING))
        assert below.calls == ["eof"]
        outer.connection_lost(None)
        outer, inner, _ = opened(settings)
        cast("WebSocketTransport", inner.to).know()
        outer.data_received(frame(BINARY, b"x" * 50_000))
        assert len(b"".join(inner.data)) == 50_000
        outer.connection_lost(None)

    run(scenario())


def test_endless_fragments_without_content_take_neither_memory_nor_the_whole_loop() -> None:
    async def scenario() -> None:
        outer, inner, below = opened()
        outer.know()
        outer.data_received(frame(TEXT, b"a", fin=False))
        others = 0
        for _ in range(5):
            outer.data_received(frame(CONTINUATION, fin=False) * 20_000)
            assert below.calls[-1] == "pause"
            while outer._unread:
                others += 1
                await asyncio.sleep(0)
            assert below.calls[-1] == "resume"
        assert others > 5 * 10
        assert bytes(outer._message) == b"a"
        assert len(outer._library.reader.buffer) < 10
        outer.data_received(frame(CONTINUATION, b"b"))
        assert inner.data == [b"ab"]
        outer.connection_lost(None)

    run(scenario())


# Backpressure.


@both_loops
def test_a_client_that_does_not_read_pauses_the_inner_protocol(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            inner = listener.inner()
            inner.to.set_write_buffer_limits(high=65_536, low=16_384)
            assert inner.to.get_write_buffer_limits() == (16_384, 65_536)
            sent = 0
            while "pause" not in inner.calls:
                inner.to.write(b"x" * 50_000)
                sent += 1
                await asyncio.sleep(0)
            assert inner.to.get_write_buffer_size() > 65_536
            # Pings are read all the while, and one answer waits for all of them.
            held_bytes = inner.to.get_write_buffer_size()
            client.send(frame(PING, b"p" * 120) * 10_000, frame(PING, b"last"), frame(TEXT, b"seen"))
            await until(lambda: inner.data == [b"seen"])
            assert inner.to.get_write_buffer_size() <= held_bytes
            for _ in range(sent):
                assert await client.frame() == (BINARY, b"x" * 50_000)
            assert await client.frame() == (PONG, b"last")
            assert inner.calls == ["made", "pause", "resume"]
            inner.to.write(b"more")
            assert await client.frame() == (TEXT, b"more")

    run(scenario(), plain=plain)


@both_loops
def test_an_inner_protocol_that_pauses_reading_stops_the_socket(plain: bool) -> None:
    async def scenario() -> None:
        async with listening(settings=replace(SETTINGS, message_bytes_max=2**20)) as listener:
            client = await listener.dial()
            await client.open()
            inner, outer = listener.inner(), listener.outer[0]
            outer.know()
            inner.on_data = lambda _data: inner.to.pause_reading()
            # More than the system's buffers take.
            client.send(frame(BINARY, b"x" * 10_000) * 4_000)
            await until(lambda: inner.data)
            assert not inner.to.is_reading()
            before, unread = len(inner.data), len(outer._unread)
            other = await listener.dial()
            await other.open()
            assert (len(inner.data), len(outer._unread)) == (before, unread)
            assert unread <= 256 * 1024
            assert client.writer.transport.get_write_buffer_size() > 0
            inner.on_data = lambda _data: None
            inner.to.resume_reading()
            await until(lambda: sum(map(len, inner.data)) == 40_000_000)
            assert inner.to.is_reading()

    run(scenario(), plain=plain)


def test_nothing_is_delivered_between_pause_and_resume() -> None:
    async def scenario() -> None:
        outer, inner, below = opened()
        inner.on_data = lambda _data: inner.to.pause_reading()
        # Each is in a slice of its own.
        messages = [bytes([number]) * 8_000 for number in range(4)]
        outer.data_received(b"".join(frame(BINARY, message) for message in messages[:3]))
        # The system had read it already.
        outer.data_received(frame(BINARY, messages[3]))
        for heard in range(1, 5):
            assert inner.data == messages[:heard]
            assert below.calls == ["pause"]
            inner.to.resume_reading()
            assert inner.data == messages[:heard], "it goes on in a turn of its own"
            await until(lambda: not inner.to.is_reading() or not outer._unread)
        assert below.calls == ["pause", "resume"]
        outer.connection_lost(None)

    run(scenario())


def test_an_answer_that_waits_is_not_sent_behind_a_close_nor_into_a_full_buffer() -> None:
    async def scenario() -> None:
        outer, inner, below = opened()
        outer.pause_writing()
        outer.data_received(frame(PING, b"1") + frame(PING, b"2"))
        inner.resume_writing = outer.pause_writing  # type: ignore[method-assign]
        outer.resume_writing()
        assert below.written == []
        del inner.resume_writing
        outer.resume_writing()
        assert below.written == [b"\x8a\x012"]
        outer.pause_writing()
        outer.data_received(frame(PING, b"3"))
        inner.to.write_eof()
        outer.resume_writing()
        assert below.written[1:] == [b"\x88\x02\x03\xe8"]
        outer.connection_lost(None)

    run(scenario())


# The end.


@both_loops
def test_a_client_that_closes_is_answered_and_the_inner_protocol_hears_it_once(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            client.send(frame(TEXT, b"DISCONNECT"), closing(1000), frame(TEXT, b"ignored"))
            assert await client.code() == 1000
            assert await client.rest() == b""
            inner = listener.inner()
            assert inner.data == [b"DISCONNECT"]
            assert inner.to.is_closing()
            inner.to.write(b"ignored")
            client.writer.close()
            await until(lambda: inner.lost)
            assert inner.calls == ["made", "eof", "lost"]
            assert inner.lost == [None]
            assert listener.outer[0].problem == ""

    run(scenario(), plain=plain)


@both_loops
def test_a_client_that_closes_and_then_stays_is_left_after_a_while(plain: bool) -> None:
    async def scenario() -> None:
        async with listening(linger_s=0.05) as listener:
            client = await listener.dial()
            await client.open()
            client.send(closing(1001))
            assert await client.frame() == (CLOSE, (1001).to_bytes(2, "big"))
            await until(lambda: listener.inner().lost)

    run(scenario(), plain=plain)


@both_loops
def test_an_inner_protocol_that_closes_says_so_and_waits_for_the_answer(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            inner = listener.inner()
            # Nothing is read, but the answer is found all the same.
            inner.to.pause_reading()
            inner.to.write(b"bye")
            inner.to.close()
            inner.to.close()
            inner.to.write(b"ignored")
            assert inner.to.is_closing()
            assert await client.frame() == (BINARY, b"bye")
            assert await client.code() == 1000
            client.send(frame(TEXT, b"not heard any more"), closing(1000))
            assert await client.rest() == b""
            client.writer.close()
            await until(lambda: inner.lost)
            assert inner.calls == ["made", "lost"]
            assert inner.data == []

    run(scenario(), plain=plain)


@both_loops
@pytest.mark.parametrize("says_eof_before", [False, True])
def test_an_answer_to_close_that_never_comes_is_not_waited_for(plain: bool, says_eof_before: bool) -> None:
    async def scenario() -> None:
        async with listening(linger_s=0.05) as listener:
            client = await listener.dial()
            await client.open()
            inner = listener.inner()
            if says_eof_before:
                inner.to.write_eof()
            inner.to.close()
            assert await client.code() == 1000
            assert await client.rest() == b""
            await until(lambda: inner.lost)
            assert inner.calls == ["made", "lost"]

    run(scenario(), plain=plain)


@both_loops
def test_after_the_end_of_writing_messages_still_arrive(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            inner = listener.inner()
            assert inner.to.can_write_eof()
            inner.to.write_eof()
            inner.to.write(b"ignored")
            assert not inner.to.is_closing()
            assert await client.code() == 1000
            client.send(frame(TEXT, b"on its way"), closing(1000))
            assert await client.rest() == b""
            assert inner.data == [b"on its way"]
            client.writer.close()
            await until(lambda: inner.lost)
            assert inner.calls == ["made", "eof", "lost"]

    run(scenario(), plain=plain)


@both_loops
def test_a_client_that_vanishes_without_close_is_gone(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            client.send(frame(TEXT, b"half", fin=False))
            client.writer.close()
            await until(lambda: listener.inner().lost)
            assert listener.inner().calls == ["made", "eof", "lost"]
            assert listener.inner().data == []

    run(scenario(), plain=plain)


@both_loops
def test_abort_cuts_the_connection_whatever_is_in_flight(plain: bool) -> None:
    async def scenario() -> None:
        async with listening() as listener:
            client = await listener.dial()
            await client.open()
            inner = listener.inner()
            inner.on_data = lambda _data: inner.to.abort()
            client.send(frame(TEXT, b"x") * 3_000)
            await until(lambda: inner.lost)
            assert len(inner.data) == 1
            assert inner.calls == ["made", "lost"]
            for call in (inner.to.abort, inner.to.close, inner.to.write_eof, inner.to.pause_reading):
                call()
            inner.to.resume_reading()
            inner.to.write(b"ignored")

    run(scenario(), plain=plain)


def test_an_inner_protocol_that_fails_in_a_later_turn_loses_the_connection() -> None:
    async def scenario() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        outer, inner, below = opened()

        def fail(_data: bytes) -> None:
            if len(inner.data) > 1:
                raise ValueError("it failed")
            inner.to.pause_reading()

        inner.on_data = fail
        outer.data_received(frame(BINARY, b"x" * 8_000) * 3)
        inner.to.resume_reading()
        await until(lambda: failures)
        assert str(failures[0]["exception"]) == "it failed"
        assert below.calls[-1] == "abort"
        outer.connection_lost(None)

    run(scenario())


@pytest.mark.parametrize(
    ("data", "calls"),
    [
        (closing(1000), ["eof", "close", "abort"]),
        (frame(3), ["eof", "close", "abort"]),
        # Left without a Close.
        (b"", ["abort"]),
    ],
)
def test_a_client_that_never_reads_what_is_buffered_is_cut(data: bytes, calls: list[str]) -> None:
    async def scenario() -> None:
        inner, below = Inner(), Below()
        outer = WebSocketProtocol(inner, SETTINGS, linger_s=0.001, drain_s=0.002)
        outer.connection_made(below)
        outer.data_received(head() + data)
        if not data:
            assert not outer.eof_received()
        await until(lambda: "abort" in below.calls)
        assert below.calls == calls
        outer.connection_lost(None)
        assert inner.calls[-1] == "lost"

    run(scenario())


def test_a_client_whose_socket_is_already_broken_is_cut() -> None:
    class Broken(Below):
        def write_eof(self) -> None:
            raise OSError("not connected")

    async def scenario() -> None:
        inner, below = Inner(), Broken()
        outer = WebSocketProtocol(inner, SETTINGS)
        outer.connection_made(below)
        outer.data_received(head() + closing(1000))
        assert below.calls == ["abort"]
        outer.connection_lost(None)
        assert inner.calls == ["made", "eof", "lost"]

    run(scenario())


@pytest.mark.parametrize(("data", "calls"), [(closing(1000), ["close"]), (frame(3), [])])
def test_where_one_side_alone_cannot_be_closed_only_those_who_agreed_are_left_at_once(
    data: bytes, calls: list[str]
) -> None:
    async def scenario() -> None:
        below = Below(half_closes=False)
        outer = WebSocketProtocol(Inner(), SETTINGS)
        outer.connection_made(below)
        outer.data_received(head() + data)
        assert below.calls == calls
        outer.connection_lost(None)

    run(scenario())


@both_loops
def test_over_tls_both_ends_and_refusals_work_alike(plain: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Authority(tmp_path).issue("127.0.0.1")
        ours, theirs = server_context(files), client_context(TlsFiles(files.ca), checks_host=False)
        async with listening(Echo, linger_s=0.5, context=ours) as listener:
            client = await listener.dial(theirs)
            await client.open()
            client.send(frame(TEXT, b"SEND"))
            assert await client.frame() == (TEXT, b"SEND")
            client.send(closing(1000))
            assert await client.code() == 1000
            await until(lambda: listener.inner().lost)
            client = await listener.dial(theirs)
            await client.open()
            client.send(frame(TEXT, b"x" * 100_001))
            assert await client.code() == 1009
            await until(lambda: listener.inner().lost)
            client = await listener.dial(theirs)
            await client.open()
            listener.inner().to.write_eof()
            assert await client.code() == 1000
            client.send(closing(1000))
            await until(lambda: listener.inner().lost)
            client = await listener.dial(theirs)
            client.send(head(Sec_WebSocket_Protocol=""))
            assert (await client.answer()).status == 400

    run(scenario(), plain=plain)


# A connection of a node inside.


class Node:
    """Keeps what a connection tells it."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.turns = Turns(
            give_up=lambda _worker, error: pytest.fail(str(error)), settle=lambda: None, on_end=lambda: None
        )
        self.frames: list[NativeFrame] = []
        self.told: list[Any] = []

    def on_made(self, connection: Connection) -> None:
        connection.outbox = Outbox(control_bytes_max=2**20, data_bytes_max=2**26)
        self.told.append("made")

    def on_frames(self, connection: Connection, frames: list[NativeFrame]) -> None:
        connection.know()
        self.frames += frames

    def on_progress(self, connection: Connection, unfinished_bytes: int) -> None:
        pass

    def on_broken(self, connection: Connection, reason: str) -> None:
        self.told.append(("broken", reason))

    def on_lost(self, connection: Connection, *, is_news: bool) -> None:
        self.told.append(("lost", is_news))


@both_loops
def test_a_connection_does_not_notice_that_it_goes_over_websocket(plain: bool) -> None:
    async def scenario() -> None:
        node = Node()
        async with listening(lambda: Connection(1, node)) as listener:
            client = await listener.dial()
            await client.open()
            connection = cast("Connection", listener.outer[0].inner)
            assert node.told == ["made"]
            assert connection.source == "127.0.0.1"
            assert client.writer.get_extra_info("sockname")[1] == int(connection.peer.rsplit(":", 1)[1])
            ours = listener.outer[0]._real
            assert ours is not None
            assert ours.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            hello = Hello(1, "client", "c", "test")
            data = encode_frame(hello) + encode_frame(Heartbeat())
            client.send(frame(BINARY, data[:9]), frame(BINARY, data[9:]))
            await until(lambda: node.frames == [hello, Heartbeat()])
            assert connection.outbox is not None
            connection.outbox.push_control(hello)
            node.turns.wake(connection)
            opcode, payload = await client.frame()
            assert (opcode, list(FrameReader().feed(payload))) == (BINARY, [hello])
            connection.close()
            assert await client.code() == 1000
            client.send(closing(1000))
            assert await client.rest() == b""
            client.writer.close()
            await connection.ended.wait()
            assert node.told == ["made", ("lost", False)]

    run(scenario(), plain=plain)
