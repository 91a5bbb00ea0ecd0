"""STOMP clients at a live node, over TCP, TLS and WebSocket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

import penstock
from live.certificates import Authority
from live.support import FAST, guaranteed, place_of, run, until
from penstock.broker.access import Access
from penstock.broker.mechanisms.draining import Target
from penstock.broker.mechanisms.operating import Drain
from penstock.lab.demo_overlay import free_ports
from penstock.live import stomp_connection
from penstock.live.errors import ConfigError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.live.stomp_connection import UNREAD_BYTES_MAX, StompConnection, stomp_farewell
from penstock.live.tls import TlsFiles, client_context
from penstock.live.unfinished import Unfinished
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import PROTOCOL_VERSION, Hello
from penstock.protocol.stomp import SERVER_COMMANDS, StompError, StompFrame, StompReader, Version, encode
from penstock.stomp import StompSettings

both_loops = pytest.mark.parametrize("plain", [True, False], ids=["asyncio", "uvloop"])


def overlay_of(folder: Path, *, has_websocket: bool = False, **changes: Any) -> Overlay:
    """One broker with a guaranteed and a best-effort pubend, that serves STOMP on a free port, or two."""
    port, websocket_port = free_ports(2)
    stomp = StompSettings(port=port, websocket_port=websocket_port if has_websocket else 0)
    overlay = guaranteed(folder, pubends=("p", "loose"), stomp=stomp)
    place = replace(overlay.brokers["b1"], **{"best_effort": ("loose",), **changes})
    return replace(overlay, brokers={"b1": place})


def stomp_of(overlay: Overlay) -> StompSettings:
    return overlay.brokers["b1"].stomp


class StompPeerOutside:
    """The other end of a TCP connection: says frames or bytes, and keeps what it hears."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = StompReader(commands=SERVER_COMMANDS)
        self._frames.version = Version.V1_2
        self.heard: list[StompFrame] = []
        self.bytes_heard = 0
        self.beats = 0
        self.is_over = False
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def dial(cls, port: int, *, context: ssl.SSLContext | None = None) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context))

    @classmethod
    async def client(cls, port: int, *, context: ssl.SSLContext | None = None, **headers: str) -> Self:
        peer = await cls.dial(port, context=context)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        peer.say("CONNECT", **{"accept-version": "1.2", "host": "test", **named})
        await until(lambda: peer.heard or peer.is_over)
        return peer

    def say(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.say_bytes(encode(StompFrame(command, named, body), Version.V1_2))

    def say_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def get(self, command: str, count: int = 1) -> StompFrame:
        """The last of so many frames of a kind, once they have come."""
        await until(lambda: len(self.all(command)) >= count or self.is_over)
        assert len(self.all(command)) >= count, self.heard
        return self.all(command)[count - 1]

    def all(self, command: str) -> list[StompFrame]:
        return [frame for frame in self.heard if frame.command == command]

    async def receipt(self, name: str) -> None:
        await until(lambda: any(each.headers["receipt-id"] == name for each in self.all("RECEIPT")) or self.is_over)
        assert name in [each.headers["receipt-id"] for each in self.all("RECEIPT")], self.heard

    async def over(self) -> str:
        """Waits until the broker has ended the connection; answers with its error."""
        await until(lambda: self.is_over)
        await self.close()
        return next((each.headers["message"] for each in self.all("ERROR")), "")

    def stop_reading(self) -> None:
        self._task.cancel()

    def read_on(self) -> None:
        self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def cut(self) -> None:
        """Be gone without a word."""
        self._task.cancel()
        self._writer.transport.abort()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            while data := await self._reader.read(65_536):
                self.bytes_heard += len(data)
                self.beats += data == b"\n"
                self.heard += self._frames.feed(data)
        except (ConnectionError, ssl.SSLError, StompError):
            # Or an answer in HTTP.
            pass
        self.is_over = True
        self._writer.close()


@both_loops
def test_stomp_and_native_clients_see_each_others_messages(tmp_path: Path, plain: bool) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        async with BrokerNode(overlay, "b1") as node, penstock.connect("penstock://{}:{}".format(*node.address)) as own:
            reading = await own.subscribe("destination = '/topic/quotes'").ready()
            peer = await StompPeerOutside.client(stomp_of(overlay).port)
            peer.say("SUBSCRIBE", id="1", destination="/topic/quotes", selector="volume > 10", receipt="s")
            await peer.receipt("s")
            headers = {
                "destination": "/topic/quotes",
                "volume": "17",
                "price": "2.5",
                "halted": "false",
                "note": "a:b\n",
            }
            peer.say("SEND", b"\x00\xff", receipt="m", content_type="image/x", **headers)
            await peer.receipt("m")
            message = await reading.get()
            assert message.attributes == {**headers, "volume": 17, "price": 2.5, "halted": False}
            assert (message.payload, message.content_type) == (b"\x00\xff", "image/x")
            back = await peer.get("MESSAGE")
            assert {**headers, "message-id": str(message.id), "content-type": "image/x"}.items() <= back.headers.items()
            assert back.body == b"\x00\xff"
            sent = await own.publish({"destination": "/topic/quotes", "volume": 11, "x": None}, b"own")
            await own.flush()
            native = await peer.get("MESSAGE", 2)
            assert (native.headers["message-id"], native.headers["volume"], native.body) == (str(sent), "11", b"own")
            assert "x" not in native.headers
            peer.say("DISCONNECT", receipt="bye")
            await peer.receipt("bye")
            assert await peer.over() == ""
            assert node.counters.bugs == 0

    run(scenario(), plain=plain)


@both_loops
def test_what_a_lost_client_had_goes_to_another_one_at_once(tmp_path: Path, plain: bool) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        async with BrokerNode(overlay, "b1") as node:
            one, two = [await StompPeerOutside.client(stomp_of(overlay).port) for _ in range(2)]
            one.say("SUBSCRIBE", id="1", destination="/queue/jobs", ack="client-individual", receipt="s")
            await one.receipt("s")
            two.say("SEND", b"job", destination="/queue/jobs", receipt="m")
            await two.receipt("m")
            assert "redelivered" not in (await one.get("MESSAGE")).headers
            await one.cut()
            two.say("SUBSCRIBE", id="1", destination="/queue/jobs", ack="client-individual")
            again = await two.get("MESSAGE")
            assert (again.body, again.headers["redelivered"]) == (b"job", "true")
            two.say("ACK", id=again.headers["ack"], receipt="a")
            await two.receipt("a")
            await two.close()
            await until(lambda: node.counters.open_connections == 0)
            assert node.counters.bugs == 0

    run(scenario(), plain=plain)


def test_a_client_that_does_not_read_holds_nobody_up_and_is_disconnected(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path, tunables={"client_outbox_bytes": 1_000_000})
        async with BrokerNode(overlay, "b1") as node:
            lazy, keen, feed = [await StompPeerOutside.client(stomp_of(overlay).port) for _ in range(3)]
            for peer, count in ((lazy, 200), (keen, 1)):
                for number in range(count):
                    peer.say("SUBSCRIBE", id=str(number), destination="/topic/t", receipt=str(number))
                await peer.receipt(str(count - 1))
            lazy.stop_reading()
            sent = 0
            while node.broker.status().clients and not _has_left(node, lazy) and sent < 3_000:
                feed.say("SEND", bytes(10_000), destination="/topic/t", receipt=str(sent))
                await feed.receipt(str(sent))
                sent += 1
            assert _has_left(node, lazy), "it was never disconnected"
            await keen.get("MESSAGE", sent)
            for peer in (lazy, keen, feed):
                await peer.close()
            assert node.counters.bugs == 0

    run(scenario())


def test_what_a_client_has_stays_with_it_while_it_does_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path, tunables={**FAST, "silent_ms": 500})
        async with BrokerNode(overlay, "b1") as node:
            worker, other, feed = [await StompPeerOutside.client(stomp_of(overlay).port) for _ in range(3)]
            worker.say("SUBSCRIBE", id="1", destination="/queue/jobs", ack="client-individual", receipt="s")
            await worker.receipt("s")
            worker.stop_reading()
            for number in range(60):
                feed.say("SEND", bytes(200_000), destination="/queue/jobs", receipt=str(number))
                await feed.receipt(str(number))
            await until(lambda: any(each._is_paused for each in node._connections.values()))
            # With another number, so that their acks differ.
            other.say("SUBSCRIBE", id="0", destination="/queue/none", ack="client-individual")
            other.say("SUBSCRIBE", id="1", destination="/queue/jobs", ack="client-individual", receipt="s")
            await other.receipt("s")
            await somebody_is_silent(node)
            worker.read_on()
            # What the first one has no room for goes to the second, and nothing to both.
            acknowledged: set[str] = set()

            def have_done_all() -> bool:
                for peer in (worker, other):
                    for message in peer.all("MESSAGE"):
                        assert "redelivered" not in message.headers
                        if (ack := message.headers["ack"]) not in acknowledged:
                            peer.say("ACK", id=ack)
                            acknowledged.add(ack)
                return len(acknowledged) == 60

            await until(have_done_all)
            for peer in (worker, other, feed):
                await peer.close()
            assert node.counters.bugs == 0

    run(scenario())


@both_loops
def test_a_client_that_does_not_read_its_receipts_is_not_read_until_it_does(tmp_path: Path, plain: bool) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        async with BrokerNode(overlay, "b1") as node:
            lazy = await StompPeerOutside.client(stomp_of(overlay).port, heart_beat="100,0")
            lazy.stop_reading()
            (connection,) = node._connections.values()
            assert isinstance(connection, StompConnection)
            for command in ("BEGIN", "ABORT") * 10_000:
                lazy.say(command, transaction="t", receipt="r" * 2_000)
            await until(lambda: connection._is_behind)
            assert connection._stomp.unread_bytes < 2 * UNREAD_BYTES_MAX
            lazy.read_on()
            await lazy.get("RECEIPT", 20_000)
            assert connection._stomp.unread_bytes == 0
            assert not lazy.all("ERROR")
            await lazy.close()
            assert node.counters.bugs == 0

    run(scenario(), plain=plain)


def test_unfinished_frames_are_bounded_and_who_is_quiet_goes_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        async with BrokerNode(overlay, "b1") as node:
            node._unfinished = Unfinished(1_000_000)
            quiet, busy = [await StompPeerOutside.client(stomp_of(overlay).port) for _ in range(2)]
            start = b"SEND\ndestination:/topic/t\nreceipt:r\ncontent-length:900000\n\n"
            quiet.say_bytes(start + bytes(600_000))
            await until(lambda: node._unfinished.size >= 600_000)
            busy.say_bytes(start + bytes(600_000))
            assert "quiet longest" in await quiet.over()
            busy.say_bytes(bytes(300_000) + b"\0")
            await busy.receipt("r")
            assert node._unfinished.size == 0
            await busy.close()
            assert node.counters.bugs == 0

    run(scenario())


async def somebody_is_silent(node: BrokerNode) -> None:
    """Waits for as long as it takes a broker to end the connection of a native client that says nothing."""
    reader, writer = await asyncio.open_connection(*node.address)
    writer.write(encode_frame(Hello(PROTOCOL_VERSION, "client", "mute", "")))
    while await reader.read(65_536):
        pass
    writer.close()


def test_who_leaves_while_a_frame_waits_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stomp_connection, "_LOOK_MS", 20)

    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        apart = replace(place_of("b2", 2), pubends=("far",), best_effort=())
        overlay = replace(overlay, brokers={**overlay.brokers, "b2": apart}, links=(("b1", "b2"),))
        async with BrokerNode(overlay, "b1") as node:
            stays, leaves = [await StompPeerOutside.client(stomp_of(overlay).port) for _ in range(2)]
            for peer in (stays, leaves):
                peer.say("SEND", b"x", destination="/queue/jobs", **{"penstock-pubend": "far"})
                peer.say("SEND", b"x", destination="/queue/jobs", **{"penstock-pubend": "far"})
            await until(lambda: all(each._is_held for each in node._connections.values()))
            await leaves.close()
            await until(lambda: len(node._connections) == 1)
            assert not stays.is_over
            await stays.cut()

    run(scenario())


def test_who_leaves_while_receipts_are_to_come_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stomp_connection, "_LOOK_MS", 20)
    monkeypatch.setattr(stomp_connection, "UNREAD_BYTES_MAX", 1_000)

    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        apart = replace(place_of("b2", 2), pubends=("far",), best_effort=())
        overlay = replace(overlay, brokers={**overlay.brokers, "b2": apart}, links=(("b1", "b2"),))
        async with BrokerNode(overlay, "b1") as node:
            peer = await StompPeerOutside.client(stomp_of(overlay).port)
            peer.say("SUBSCRIBE", id="1", destination="/topic/t", receipt="r" * 2_000)
            peer.say("SEND", destination="/topic/t", receipt="r" * 2_000)
            await until(lambda: any(each._is_held for each in node._connections.values()))
            await peer.close()
            await until(lambda: not node._connections)

    run(scenario())


def test_messages_of_websockets_that_do_not_end_count_as_well(tmp_path: Path) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed
    from websockets.typing import Subprotocol

    async def fragments(rest: asyncio.Event) -> AsyncIterator[bytes]:
        yield b"SEND\ndestination:/topic/t\n\n"
        yield bytes(200_000)
        await rest.wait()

    async def scenario() -> None:
        overlay = overlay_of(tmp_path, has_websocket=True)
        url = f"ws://127.0.0.1:{stomp_of(overlay).websocket_port}/"
        async with BrokerNode(overlay, "b1") as node:
            node._unfinished = Unfinished(100_000)
            async with connect(url, subprotocols=[Subprotocol("v12.stomp")]) as socket:
                await socket.send("CONNECT\naccept-version:1.2\nhost:test\n\n\0")
                assert str(await socket.recv()).startswith("CONNECTED")
                rest = asyncio.Event()
                sending = asyncio.create_task(socket.send(fragments(rest)))
                assert "quiet longest" in str(await socket.recv())
                rest.set()
                await asyncio.gather(sending, return_exceptions=True)
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
            assert node.counters.bugs == 0

    run(scenario())


def _has_left(node: BrokerNode, _peer: StompPeerOutside) -> bool:
    return node.counters.open_connections < 3


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0", "command is unknown"),
        (b"SEND\ndestination:/topic/x\n\nhello\0", "first frame is SEND"),
        (b"CONNECT\naccept-version:9.9\n\n\0", "supported versions are 1.0,1.1,1.2"),
        (b"CONNECT\n" + b"x" * 100_000, "longer than 70,000 bytes"),
        (b"CONNECT\nheart-beat:often\n\n\0", "heart-beat is 'often'"),
    ],
)
def test_what_makes_no_sense_is_told_and_the_connection_ends(tmp_path: Path, data: bytes, complaint: str) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        async with BrokerNode(overlay, "b1") as node:
            peer = await StompPeerOutside.dial(stomp_of(overlay).port)
            peer.say_bytes(data)
            assert complaint in await peer.over()
            assert node.counters.bugs == 0

    run(scenario())


def test_a_wrong_passcode_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        access = Access(tokens={"feed": "secret"})
        overlay = replace(overlay_of(tmp_path), access=access)
        async with BrokerNode(overlay, "b1"):
            right = await StompPeerOutside.client(stomp_of(overlay).port, login="feed", passcode="secret")
            assert right.heard[0].command == "CONNECTED"
            await right.close()
            wrong = await StompPeerOutside.client(stomp_of(overlay).port, login="feed", passcode="guess")
            assert "token" in await wrong.over()

    run(scenario())


def test_both_sides_keep_their_promises_of_heart_beats(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        place = overlay.brokers["b1"]
        short = replace(place, stomp=replace(place.stomp, heartbeat_ms=100))
        overlay = replace(overlay, brokers={"b1": short})
        async with BrokerNode(overlay, "b1") as node:
            peer = await StompPeerOutside.client(stomp_of(overlay).port, heart_beat="100,100")
            assert peer.heard[0].headers["heart-beat"] == "500,100"
            await until(lambda: peer.beats >= 2 or peer.is_over)
            assert peer.beats >= 2
            # It has promised to be heard every 100 ms.
            assert "nothing was heard" in await peer.over()
            assert node.counters.bugs == 0

    run(scenario())


def test_a_drained_broker_tells_its_stomp_clients_to_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        async with BrokerNode(overlay, "b1") as node:
            peer = await StompPeerOutside.client(stomp_of(overlay).port)
            node.operate(Drain((Target("b2", "penstock://elsewhere:7001"),)))
            assert await peer.over() == "this broker is about to stop; go on at broker b2 (penstock://elsewhere:7001)"

    run(scenario())


def test_stomp_over_tls(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority(tmp_path)
        files = authority.issue("b1")
        overlay = overlay_of(tmp_path, tls=files)
        async with BrokerNode(overlay, "b1"):
            context = client_context(TlsFiles(ca=files.ca), checks_host=False)
            peer = await StompPeerOutside.client(stomp_of(overlay).port, context=context)
            peer.say("SEND", b"x", destination="/topic/t", receipt="m")
            await peer.receipt("m")
            await peer.close()

    run(scenario())


def test_stomp_over_websocket(tmp_path: Path) -> None:
    from websockets.asyncio.client import connect
    from websockets.typing import Subprotocol

    async def scenario() -> None:
        overlay = overlay_of(tmp_path, has_websocket=True)
        url = f"ws://127.0.0.1:{stomp_of(overlay).websocket_port}/stomp"
        async with (
            BrokerNode(overlay, "b1") as node,
            connect(url, subprotocols=[Subprotocol("v12.stomp")], proxy=None) as socket,
        ):
            assert socket.subprotocol == "v12.stomp"
            await socket.send("CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            assert str(await socket.recv()).startswith("CONNECTED\nversion:1.2\n")
            await socket.send("SUBSCRIBE\nid:1\ndestination:/topic/t\nreceipt:s\n\n\0")
            assert "receipt-id:s" in str(await socket.recv())
            big = "x" * 200_000
            await socket.send(f"SEND\ndestination:/topic/t\n\n{big}\0")
            assert big in str(await socket.recv())
            await socket.send(b"SEND\ndestination:/topic/t\ncontent-length:2\n\n\xff\0\0")
            got = await socket.recv()
            assert isinstance(got, bytes)
            assert got.endswith(b"\n\n\xff\0\0")
            await socket.send("DISCONNECT\nreceipt:bye\n\n\0")
            assert "receipt-id:bye" in str(await socket.recv())
            await socket.wait_closed()
            assert node.counters.bugs == 0

    run(scenario())


def test_handshakes_of_websockets_take_up_room_and_their_end_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path, has_websocket=True, tunables={"strangers_max": 2})
        async with BrokerNode(overlay, "b1") as node:
            entrance = node._entrance
            assert entrance is not None
            port = stomp_of(overlay).websocket_port
            slow = [await StompPeerOutside.dial(port) for _ in range(3)]
            # The oldest of too many has to go.
            await until(lambda: slow[0].is_over)
            assert entrance.handshakes == 2
            slow[1].say_bytes(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: slow[1].is_over)
            await until(lambda: entrance.handshakes == 1)
            assert any("websocket-refused" in record.getMessage() for record in caplog.records)
            for peer in slow:
                await peer.close()

    run(scenario())


def test_a_port_that_is_taken_is_named_and_none_stays_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = overlay_of(tmp_path)
        taken = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", stomp_of(overlay).port)
        async with taken:
            with pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1:{stomp_of(overlay).port}"):
                await BrokerNode(overlay, "b1").start()

    run(scenario())


def test_a_farewell_can_be_read_in_every_version() -> None:
    reader = StompReader(commands=SERVER_COMMANDS)
    (frame,) = reader.feed(stomp_farewell("full", "no\nroom:\0 here"))
    assert (frame.command, frame.headers["message"], frame.body) == ("ERROR", "no room:  here", b"no room:  here\n")
