"""Hostile peers against a live node with the real broker: they lose their connection, and nobody else notices."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from random import Random

import pytest
from bench.frames import campaign

from live.support import LIMIT_S, FramePeer, framed, lone, row, run, until, with_port
from penstock.broker.access import Access
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay, Security
from penstock.protocol.codec import FRAME_BYTES_MAX, encode_frame
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Forward,
    Goodbye,
    Heartbeat,
    Hello,
    LinkProof,
    LinkState,
    Publish,
    Subscribe,
    Welcome,
)

HELLO = encode_frame(Hello(PROTOCOL_VERSION, "client", "mallory", "test"))
HUSH = "hush"


async def attacked(data: bytes, overlay: Overlay | None = None) -> tuple[Goodbye, BrokerNode]:
    """The broker's last words to a peer that sends this, after it has served others as before."""
    async with BrokerNode(overlay or lone(), "b1") as node:
        subscriber, publisher = await FramePeer.client(node.address), await FramePeer.client(node.address)
        await subscriber.subscribe(1, "x > 0")
        hostile = await FramePeer.dial(node.address)
        hostile.send_bytes(data)
        goodbye = await hostile.over()
        assert goodbye is not None
        publisher.publish({"x": 1}, {"x": 0}, {"x": 2})
        assert len(await subscriber.deliveries(2)) == 2
        await asyncio.gather(subscriber.close(), publisher.close())
        await until(lambda: node.counters.open_connections == 0)
        assert node.counters.bugs == 0
    return goodbye, node


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "is not in 1 .."),
        (HELLO + struct.pack(">I", FRAME_BYTES_MAX + 1), f"frame of {FRAME_BYTES_MAX + 1} bytes is not in 1 .."),
        (struct.pack(">IB", 1_000_000, 0), "frame of 1000000 bytes is not in 1 .. 65536"),
        (HELLO + struct.pack(">I", 0), "frame of 0 bytes is not in 1 .."),
        (HELLO + framed(99, b"x"), "unknown kind of frame 99"),
        (HELLO + framed(0, b""), "malformed frame of kind 0"),
        (HELLO + framed(0, b"\xc1"), "malformed frame of kind 0"),
        (HELLO + framed(0, b"\x91\xa4what"), "malformed frame of kind 0"),
        (HELLO + framed(1, b"short"), "malformed frame of kind 1"),
        (HELLO + framed(2, struct.pack(">HI1s", 1, 2**32 - 1, b"p")), "is too short for"),
        (HELLO + framed(3, struct.pack(">HI", 0, 9)), "is too short for"),
        (HELLO + framed(3, struct.pack(">HIQHI", 0, 1, 1, 1, 9)), "do not fill"),
        (HELLO + framed(1, struct.pack(">QHII", 1, 0, 1, 99)), "does not fit its frame"),
        (HELLO + framed(1, struct.pack(">QHIB", 1, 0, 0, 0)), "extra bytes after"),
        (HELLO + HELLO, "second hello"),
        (HELLO + encode_frame(Deliver(1, [1], [b""], [b""])), "brokers do not accept Deliver frames"),
        (HELLO + encode_frame(Forward("b1.a", [1], [b"x"])), "Forward frames are not accepted from a client"),
        (HELLO + encode_frame(LinkState("b2", 1, 1, ())), "LinkState frames are not accepted from a client"),
        (HELLO + encode_frame(Publish(5, [])), "message 5 is out of sequence: the last one was 0"),
        (HELLO + encode_frame(Publish(1, [b"not a body"])), "bodies of 10 bytes together are too small"),
        (encode_frame(Heartbeat()) + struct.pack(">IB", 9_000_000, 0), "Heartbeat from a stranger"),
        (encode_frame(Publish(1, [])), "Publish frames are not accepted from a stranger"),
        (encode_frame(Subscribe(1, "x > 1")), "Subscribe frames are not accepted from a stranger"),
    ],
)
def test_who_breaks_the_protocol_is_told_and_counted(data: bytes, reason: str) -> None:
    goodbye, node = run(attacked(data))
    assert goodbye.code == "protocol"
    assert reason in goodbye.reason
    assert node.counters.malformed == 1


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello(99, "client", "c", "test"), "protocol version 99"),
        (Hello(PROTOCOL_VERSION, "client", "c", "other"), "this is overlay test, not other"),
        (Hello(PROTOCOL_VERSION, "king", "c", "test"), "role 'king'"),
        (Hello(PROTOCOL_VERSION, "broker", "b9", "test"), "no link with b9"),
    ],
)
def test_who_does_not_belong_here_is_refused(hello: Hello, reason: str) -> None:
    goodbye, _ = run(attacked(encode_frame(hello)))
    assert goodbye.code == "refused"
    assert reason in goodbye.reason


def test_who_cannot_prove_who_it_is_is_refused() -> None:
    async def scenario() -> None:
        overlay = replace(row("b1", "b2"), access=Access({"feed": HUSH}), security=Security(link_token=HUSH))
        async with BrokerNode(overlay, "b1") as node:
            for hello, reason in (
                (Hello(PROTOCOL_VERSION, "client", "feed", "test", credential="wrong"), "name 'feed': wrong or mis"),
                (Hello(PROTOCOL_VERSION, "client", "nobody", "test", credential=HUSH), "name 'nobody': wrong or mis"),
                (Hello(PROTOCOL_VERSION, "client", "feed", "test"), "name 'feed': wrong or missing token"),
                (Hello(PROTOCOL_VERSION, "broker", "b2", "test", credential="wrong"), "authentication failed"),
            ):
                peer = await FramePeer.dial(node.address)
                peer.send(hello)
                goodbye = await peer.over()
                assert isinstance(goodbye, Goodbye)
                assert goodbye.code == "refused"
                assert goodbye.reason.startswith(reason)
            await (await FramePeer.client(node.address, "feed", credential=HUSH)).close()

    run(scenario())


def test_who_listens_at_the_port_of_a_neighbour_learns_no_secret() -> None:
    async def scenario() -> None:
        heard, challenge = bytearray(), b"x" * 32
        answer = encode_frame(Hello(PROTOCOL_VERSION, "broker", "b1", "test", 1, challenge=challenge))

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer + encode_frame(LinkProof(challenge)))
            while data := await reader.read(10_000):
                heard.extend(data)
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        overlay = replace(row("b1", "b2"), security=Security(link_token=HUSH))
        overlay = with_port(overlay, "b1", server.sockets[0].getsockname()[1])
        async with BrokerNode(overlay, "b2") as node:
            await until(lambda: b"authentication failed" in heard)
            assert node.status().broker.links == []
        assert HUSH.encode() not in heard
        server.close()
        await server.wait_closed()

    run(scenario())


def test_who_never_says_who_it_is_is_let_go() -> None:
    async def scenario() -> None:
        overlay = lone()
        place = replace(overlay.brokers["b1"], tunables={"heartbeat_ms": 20, "silent_ms": 40, "handshake_ms": 40})
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1") as node:
            mute, truncated = await FramePeer.dial(node.address), await FramePeer.dial(node.address)
            truncated.send_bytes(HELLO[:-1])
            for peer in (mute, truncated):
                goodbye = await peer.over()
                assert goodbye is not None
                assert goodbye.code == "silent"

    run(scenario())


def test_who_disappears_in_the_middle_of_a_frame_leaves_nothing() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1") as node:
            peer = await FramePeer.client(node.address)
            peer.send_bytes(encode_frame(Publish(1, [b"x" * 1_000]))[:-1])
            await peer.drain()
            await peer.close()
            await until(lambda: node.counters.open_connections == 0)
            assert node.status().broker.clients == 0

    run(scenario())


def test_a_subscriber_that_does_not_read_goes_and_others_are_served() -> None:
    async def scenario() -> None:
        overlay = lone()
        tunables = {"client_outbox_bytes": 1_000_000, "heartbeat_ms": 50, "silent_ms": int(LIMIT_S * 1_000)}
        place = replace(overlay.brokers["b1"], tunables=tunables)
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1") as node:
            reader, writer = await asyncio.open_connection(*node.address, limit=1_024)
            writer.write(HELLO + encode_frame(Subscribe(1, "x > 0")))
            await until(lambda: node.status().broker.subscriptions == 1)
            subscriber, publisher = await FramePeer.client(node.address), await FramePeer.client(node.address)
            await subscriber.subscribe(1, "x > 0")
            sent = 0
            while node.status().broker.subscriptions == 2:
                publisher.publish({"x": 1}, payload=b"x" * 100_000)
                sent += 1
                assert len(await subscriber.deliveries(sent)) == sent
            assert node.status().broker.dropped["client"] >= 1
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            await asyncio.gather(subscriber.close(), publisher.close())
            del reader

    run(scenario())


def test_many_hostile_frames_harm_nobody() -> None:
    campaign(Random("hostile"), 4_000)


def test_a_quiet_connection_is_kept_alive_from_both_sides() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1") as node:
            peer = await FramePeer.client(node.address)
            before = node.counters.frames_out
            while node.counters.frames_out < before + 3:
                peer.send(Heartbeat(0))
                await asyncio.sleep(0.01)
            assert not peer.is_over
            assert len(peer.all(Welcome)) == 1
            await peer.close()

    run(scenario())


def test_wrong_tokens_are_answered_later_and_later_and_right_ones_at_once() -> None:
    async def scenario() -> None:
        overlay = replace(lone(), access=Access({"feed": HUSH}))
        async with BrokerNode(overlay, "b1") as node:
            loop = asyncio.get_running_loop()
            guessers = [await FramePeer.dial(node.address) for _ in range(4)]
            began_s = loop.time()
            for each in guessers:
                each.send(Hello(PROTOCOL_VERSION, "client", "feed", "test", credential="wrong"))
            await (await FramePeer.client(node.address, "feed", credential=HUSH)).close()
            for each in guessers:
                assert await each.over() == Goodbye("refused", "name 'feed': wrong or missing token")
            # At once, then after 100, 200 and 400 ms, one behind the other.
            assert loop.time() - began_s > 0.69

    run(scenario())


def test_the_oldest_strangers_make_room_for_those_who_say_who_they_are() -> None:
    async def scenario() -> None:
        overlay = lone()
        place = replace(overlay.brokers["b1"], tunables={"strangers_max": 3})
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1") as node:
            strangers = [await FramePeer.dial(node.address) for _ in range(8)]
            for each in strangers[:5]:
                goodbye = await each.over()
                assert goodbye is not None
                assert goodbye.code == "full"
            client = await FramePeer.client(node.address)
            await client.subscribe(1, "x > 0")
            assert node.status().broker.strangers == 2
            await client.close()

    run(scenario())
