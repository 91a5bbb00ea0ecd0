"""Connections that say nothing keep nobody out of the admin API."""

from __future__ import annotations

import asyncio

import pytest

from live.support import run, until
from live.test_admin import KEY, Subject, get
from penstock.live import admin_connections
from penstock.live.admin import AdminServer
from penstock.live.admin_connections import CONNECTIONS_MAX

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def opened(address: tuple[str, int], data: bytes = b"") -> Stream:
    stream = await asyncio.open_connection(*address)
    stream[1].write(data)
    return stream


async def is_over(stream: Stream) -> bool:
    try:
        return not await stream[0].read()
    except ConnectionError:
        return True


@pytest.mark.parametrize("data", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_however_many_say_nothing_health_is_told(data: bytes) -> None:
    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            idle = [await opened(admin.address, data) for _ in range(2 * CONNECTIONS_MAX)]
            for _ in range(3):
                assert await get(admin.address, "/health") == (200, '{"status":"ok"}')
            # The first to come are the first to go.
            assert all([await is_over(each) for each in idle[:CONNECTIONS_MAX]])
            for _, writer in idle:
                writer.close()

    run(scenario())


def test_who_has_not_asked_in_time_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_connections, "REQUEST_S_MAX", 0.05)

    async def scenario() -> None:
        async with AdminServer(Subject(), token=KEY) as admin:
            mute, slow = await opened(admin.address), await opened(admin.address, b"GET /health HTTP/1.1\r\n")
            for each in (mute, slow):
                assert await is_over(each)
                each[1].close()

    run(scenario())


def test_a_request_under_way_is_not_the_one_that_goes() -> None:
    class Slow(Subject):
        def __init__(self) -> None:
            super().__init__()
            self.asked_to_ship, self.may_ship = asyncio.Event(), asyncio.Event()

        async def ship(self) -> dict[str, int]:
            self.asked_to_ship.set()
            await self.may_ship.wait()
            return {"rows": 3}

    async def scenario() -> None:
        subject = Slow()
        async with AdminServer(subject, token=KEY) as admin:
            shipping = asyncio.create_task(get(admin.address, "/ship", method="POST"))
            await subject.asked_to_ship.wait()
            idle = [await opened(admin.address) for _ in range(2 * CONNECTIONS_MAX)]
            await until(lambda: idle[CONNECTIONS_MAX - 1][0].at_eof() or idle[0][0].at_eof())
            subject.may_ship.set()
            assert (await shipping)[0] == 200
            for _, writer in idle:
                writer.close()

    run(scenario())
