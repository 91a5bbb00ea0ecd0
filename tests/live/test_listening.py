from __future__ import annotations

import asyncio

import pytest

from live.support import place_of, run
from penstock.live.errors import ConfigError
from penstock.live.listening import listen


def test_an_address_that_is_taken_is_named() -> None:
    async def scenario() -> None:
        server = await listen(place_of("b1", 1), asyncio.Protocol, None)
        port = server.sockets[0].getsockname()[1]
        place = place_of("b2", 2)
        object.__setattr__(place, "port", port)
        with pytest.raises(ConfigError, match=f"broker b2 cannot listen at 127.0.0.1:{port}: Address already in use"):
            await listen(place, asyncio.Protocol, None)
        server.close()
        await server.wait_closed()

    run(scenario())
