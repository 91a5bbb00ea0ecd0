"""A line hands over frames, and tells of its end, whoever made it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from penstock.lab.stomp.line import Line
from penstock.protocol.stomp import StompError, StompFrame


class Owner:
    def __init__(self) -> None:
        self.frames: list[StompFrame] = []

    def on_frame(self, line: Line, frame: StompFrame) -> None:
        assert line.is_open
        self.frames.append(frame)
        if frame.command == "ERROR":
            raise KeyError("a header that is missing")


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def ended(answer: Answer) -> Owner:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await answer(reader, writer)
            await writer.wait_closed()
        over.set_result(None)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        owner = Owner()
        line = await Line.open(server.sockets[0].getsockname()[1], owner)
        line.send("SEND", {"destination": "/topic/a:b"}, b"x")
        try:
            await line.ended
        finally:
            assert not line.is_open
            line.send("SEND", {"destination": "/topic/late"})
            await over
    return owner


def test_frames_go_to_the_owner_until_the_peer_ends_the_connection() -> None:
    read: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read.append(await reader.readuntil(b"x\0"))
        writer.write(b"\nRECEIPT\nreceipt-id:a\\cb\n\n\0\nMESSAGE\n\nbody\0RECEIPT\n")
        writer.close()

    owner = asyncio.run(ended(answer))
    assert read == [b"SEND\ndestination:/topic/a\\cb\ncontent-length:1\n\nx\0"]
    assert [(each.command, each.headers, each.body) for each in owner.frames] == [
        ("RECEIPT", {"receipt-id": "a:b"}, b""),
        ("MESSAGE", {}, b"body"),
    ]


@pytest.mark.parametrize(
    ("said", "error"), [(b"NONSENSE\n\n\0", StompError), (b"ERROR\nmessage:m\n\n\0", KeyError)], ids=["bytes", "owner"]
)
def test_what_cannot_be_is_told_to_whoever_waits_for_the_end(said: bytes, error: type[Exception]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await reader.read()
        writer.close()

    with pytest.raises(error):
        asyncio.run(ended(answer))


def test_a_line_can_be_cut_off() -> None:
    gone: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            gone.append(await reader.read())
        writer.close()

    async def play() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            line = await Line.open(server.sockets[0].getsockname()[1], Owner())
            line.abort()
            await line.ended
            assert not line.is_open
            while not gone:
                await asyncio.sleep(0)

    asyncio.run(play())
