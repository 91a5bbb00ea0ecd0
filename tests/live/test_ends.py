"""The ends of connections are waited for, and those that do not come are brought about."""

from __future__ import annotations

import asyncio
from typing import cast

from live.support import run
from penstock.live.connection import Connection
from penstock.live.ends import wait_for_ends


class Stub:
    """A connection that ends when it is told to, or when it is cut."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.was_cut = False

    def abort(self) -> None:
        self.was_cut = True
        self.ended.set()


def test_who_ends_is_not_cut_and_who_does_not_is() -> None:
    async def scenario() -> None:
        prompt, stubborn = Stub(), Stub()
        connections = {1: cast("Connection", prompt), 2: cast("Connection", stubborn)}
        waiting = asyncio.create_task(wait_for_ends(connections, seconds_max=0.01))
        await asyncio.sleep(0)
        prompt.ended.set()
        del connections[1]
        await waiting
        assert (prompt.was_cut, stubborn.was_cut) == (False, True)

    run(scenario())


def test_with_no_connection_there_is_nothing_to_wait_for() -> None:
    run(wait_for_ends({}))
