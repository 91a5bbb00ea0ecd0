"""A link that can be cut, stalled and restored, between two ends that only see TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from penstock.lab.delivery.kill9.proxy import LinkProxy
from penstock.lab.demo_overlay import free_ports
from penstock.system.loop import run as run_on_loop

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await coroutine

    run_on_loop(limited())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(100):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[LinkProxy, int]]:
    port, target_port = free_ports(2)
    async with await asyncio.start_server(echo, "127.0.0.1", target_port), LinkProxy(port, target_port) as link:
        yield link, port


@asynccontextmanager
async def dialled(port: int) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answers(stream: Stream, data: bytes) -> bool:
    """Whether what is said comes back; False if the connection ends."""
    reader, writer = stream
    try:
        writer.write(data)
        return await reader.readexactly(len(data)) == data
    except (ConnectionError, asyncio.IncompleteReadError, RuntimeError):
        return False


def test_bytes_go_through_both_ways() -> None:
    async def scenario() -> None:
        async with linked() as (link, port), dialled(port) as stream:
            assert await answers(stream, b"hello")
            assert link.connections == 1

    run(scenario())


def test_a_cut_ends_connections_and_none_is_made_until_it_is_restored() -> None:
    async def scenario() -> None:
        async with linked() as (link, port):
            async with dialled(port) as stream:
                assert await answers(stream, b"one")
                link.cut()
                assert not await answers(stream, b"two")
            async with dialled(port) as stream:
                assert not await answers(stream, b"three")
            link.restore()
            async with dialled(port) as stream:
                assert await answers(stream, b"four")

    run(scenario())


def test_a_stall_holds_bytes_back_and_loses_none() -> None:
    async def scenario() -> None:
        async with linked() as (link, port), dialled(port) as stream, dialled(port) as other:
            assert await answers(stream, b"one")
            assert await answers(other, b"one")
            link.stall()
            held = asyncio.create_task(answers(stream, b"two"))
            # Others have got many answers in the meantime.
            async with dialled(link.target_port) as direct:
                for _ in range(50):
                    assert await answers(direct, b"three")
            assert not held.done()
            link.restore()
            assert await held
            assert await answers(other, b"two")

    run(scenario())


def test_what_was_stalled_when_the_link_is_cut_is_lost() -> None:
    async def scenario() -> None:
        async with linked() as (link, port), dialled(port) as stream:
            assert await answers(stream, b"one")
            link.stall()
            held = asyncio.create_task(answers(stream, b"two"))
            await asyncio.sleep(0)
            link.cut()
            link.restore()
            assert not await held

    run(scenario())


def test_an_end_on_one_side_is_an_end_on_the_other() -> None:
    async def scenario() -> None:
        async with linked() as (link, port):
            async with dialled(port) as stream:
                assert await answers(stream, b"one")
            while link.connections:
                await asyncio.sleep(0.005)

    run(scenario())


def test_without_anybody_behind_it_a_connection_ends_at_once() -> None:
    async def scenario() -> None:
        port, nobody = free_ports(2)
        async with LinkProxy(port, nobody), dialled(port) as stream:
            assert not await answers(stream, b"one")

    run(scenario())


def test_a_slow_link_delivers_everything_whether_it_delays_or_trickles() -> None:
    async def scenario() -> None:
        async with linked() as (link, port), dialled(port) as stream:
            link.delay(0.001)
            assert await answers(stream, b"delayed")
            link.trickle()
            assert await answers(stream, bytes(range(256)) * 8)
            link.restore()
            assert await answers(stream, b"at full speed")

    run(scenario())


def test_a_trickling_link_delivers_single_bytes() -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        async def note_sizes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                sizes.append(len(data))
                writer.write(data)
            writer.close()

        port, target_port = free_ports(2)
        server = await asyncio.start_server(note_sizes, "127.0.0.1", target_port)
        async with server, LinkProxy(port, target_port) as link, dialled(port) as stream:
            link.trickle()
            assert await answers(stream, b"piece by piece")
        assert len(sizes) > 1
        assert sum(sizes) == len(b"piece by piece")

    run(scenario())
