"""Between each candidate and each server there is a relay: one candidate is cut off, and the others are not."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock.lab.failover.network import CutKind, DatabaseNetwork


async def answered(port: int, within_s: float) -> bytes:
    """What a server behind a port says first; nothing if it does not say anything in time, or the connection ends."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await reader.read(2)
            finally:
                writer.close()
    return b""


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hi")
    await writer.drain()
    writer.close()


def ports_of(network: DatabaseNetwork, broker: str) -> list[int]:
    parts = conninfo_to_dict(network.url(broker))
    assert parts["host"] == "127.0.0.1,127.0.0.1"
    return [int(each) for each in str(parts["port"]).split(",")]


@pytest.mark.parametrize("kind", ["cut", "stall", "silence"])
def test_who_is_cut_off_reaches_no_server_and_all_again_afterwards(kind: CutKind) -> None:
    async def scenario() -> None:
        servers = [await asyncio.start_server(greet, "127.0.0.1", 0) for _ in range(2)]
        real = [each.sockets[0].getsockname()[1] for each in servers]
        async with DatabaseNetwork(["pb1", "pb2"], real) as network:
            assert ports_of(network, "sb1") == real
            ones, others = ports_of(network, "pb1"), ports_of(network, "pb2")
            assert len({*real, *ones, *others}) == 6
            network.disturb("pb1", kind)
            assert [await answered(port, 0.1) for port in ones] == [b"", b""]
            assert [await answered(port, 30) for port in others] == [b"hi", b"hi"]
            network.mend("pb1", kind)
            assert [await answered(port, 30) for port in ones] == [b"hi", b"hi"]
        for each in servers:
            each.close()

    asyncio.run(scenario())


def test_a_stalled_network_delivers_what_it_held_back_and_a_silent_one_does_not() -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            heard.append(await reader.read())
        writer.close()

    async def scenario(kind: CutKind) -> None:
        heard.clear()
        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with DatabaseNetwork(["pb1"], [server.sockets[0].getsockname()[1]] * 2) as network:
            network.disturb("pb1", kind)
            _, writer = await asyncio.open_connection("127.0.0.1", ports_of(network, "pb1")[0])
            writer.write(b"COMMIT")
            writer.write_eof()
            await writer.drain()
            while not network._relays["pb1"][0].connections:
                await asyncio.sleep(0)
            network.mend("pb1", kind)
            async with asyncio.timeout(60):
                while kind == "stall" and not heard:
                    await asyncio.sleep(0.01)
            writer.close()
        server.close()

    asyncio.run(scenario("stall"))
    assert heard == [b"COMMIT"]
    asyncio.run(scenario("silence"))
    assert heard in ([], [b""])
