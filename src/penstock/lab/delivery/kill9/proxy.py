"""A relay on loopback that stands in for a link between two brokers, and can be cut, stalled and slowed.

Cutting aborts the connections with all bytes in flight, as a reset does; while a link is cut, new connections end at
once. Stalling holds back the bytes of both directions, as if the network had gone silent. Slowing delays every chunk,
or delivers its first bytes one by one, so that readers get frames in pieces.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

__all__ = ["LinkProxy"]

_HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536
_SINGLE_BYTES: Final = 512
"""How many bytes of a chunk are sent one by one: several frames with their headers, at a bounded cost."""


class LinkProxy:
    """Relays connections from one port to another; use it with ``async with``.

    Port 0 means any free port; ``port`` then tells which one.
    """

    def __init__(self, port: int, target_port: int) -> None:
        self.port = port
        self.target_port: Final = target_port
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False
        self._delay_s = 0.0
        self._is_trickling = False

    async def __aenter__(self) -> LinkProxy:
        self._server = await asyncio.start_server(self._accept, _HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None, "the link has not been entered"
        self._server.close()
        self.cut()
        self._flowing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """The number of connections being relayed."""
        return len(self._tasks)

    def cut(self) -> None:
        """Abort all connections, and accept no new ones until ``restore``."""
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """Hold back all bytes until ``restore``."""
        self._flowing.clear()

    def delay(self, seconds: float) -> None:
        """Delay every chunk by this time until ``restore``."""
        self._delay_s = seconds

    def trickle(self) -> None:
        """Deliver the first bytes of every chunk one by one until ``restore``."""
        self._is_trickling = True

    def restore(self) -> None:
        """Accept connections again, and let bytes through at full speed."""
        self._is_cut = False
        self._delay_s = 0.0
        self._is_trickling = False
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = self._writers[writer] = None
        try:
            # A neighbour that is down or a cut ends the connection; the dialling broker retries by itself.
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
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._flowing.wait()
            if self._is_trickling:
                data = await self._trickled(data, writer)
            if writer.is_closing():
                return
            writer.write(data)
            await writer.drain()
        # The end of the stream is held back like the bytes: a silent network does not signal it.
        await self._flowing.wait()
        if not writer.is_closing():
            writer.close()

    async def _trickled(self, data: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Write the first bytes one by one, and return the rest."""
        for place in range(min(len(data), _SINGLE_BYTES)):
            if writer.is_closing():
                break
            writer.write(data[place : place + 1])
            await writer.drain()
            # One turn of the loop per byte, so that the kernel gets them one by one.
            await asyncio.sleep(0)
        return data[_SINGLE_BYTES:]
