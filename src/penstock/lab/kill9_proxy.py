"""A link between two brokers that can be cut, stalled and refused: a relay on loopback that stands in between.

Cutting aborts the connections with all that is in them, as a reset does; while a link is cut, new connections end at
once. Stalling holds the bytes of both directions back; from outside, that is a network which has gone silent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

__all__ = ["LinkProxy"]

_HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536


class LinkProxy:
    """Relays connections from one port to another; use it with ``async with``."""

    def __init__(self, port: int, target_port: int) -> None:
        self.port: Final = port
        self.target_port: Final = target_port
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False

    async def __aenter__(self) -> LinkProxy:
        self._server = await asyncio.start_server(self._accept, _HOST, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None, "the link has not been entered"
        self._server.close()
        self.cut()
        self._flowing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many it relays at the moment."""
        return len(self._tasks)

    def cut(self) -> None:
        """Abort all connections, and let none be made until ``restore``."""
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """Hold all bytes back until ``restore``."""
        self._flowing.clear()

    def restore(self) -> None:
        """Let connections be made, and bytes through."""
        self._is_cut = False
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = self._writers[writer] = None
        try:
            # A neighbour that is down or a cut ends the connection; whoever dialled tries again by itself.
            with suppress(OSError):
                if not self._is_cut:
                    await self._relay(reader, writer)
        finally:
            del self._tasks[task], self._writers[writer]
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(_HOST, self.target_port)
        self._writers[far_writer] = None
        if self._is_cut:
            far_writer.transport.abort()
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            del self._writers[far_writer]
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._flowing.wait()
            if writer.is_closing():
                return
            writer.write(data)
            await writer.drain()
        # The end waits as the bytes do: a silent network does not tell of it.
        await self._flowing.wait()
        if not writer.is_closing():
            writer.close()
