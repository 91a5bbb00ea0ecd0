"""Keeping a link up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from live.support import FakeBroker, lone, run, until
from penstock.live.connection import Connection
from penstock.live.dialler import FIRST_RETRY_S, RETRY_S_MAX, Dialler, Diallers, retry_s
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace


@pytest.mark.parametrize("failures", [0, 1, 5, 1_000])
def test_delays_grow_to_a_limit_and_differ(failures: int) -> None:
    rng = Random(1)
    drawn = [retry_s(failures, rng) for _ in range(100)]
    longest = min(RETRY_S_MAX, FIRST_RETRY_S * 2.0 ** min(failures, 16))
    assert all(longest / 2 <= each <= longest for each in drawn)
    assert len(set(drawn)) == 100


def test_a_neighbour_that_is_not_there_is_called_until_it_is() -> None:
    async def scenario() -> None:
        failed: list[tuple[str, str]] = []
        made: list[Connection] = []
        listening = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        listening.close()
        await listening.wait_closed()
        owner = BrokerNode(lone(), "b1", broker=FakeBroker())

        def make() -> Connection:
            made.append(Connection(len(made) + 1, owner, dialled="b2"))
            return made[-1]

        place = BrokerPlace(name="b2", number=2, port=port)
        dialler = Dialler(place, make, context=None, on_failed=lambda *told: failed.append(told), rng=Random(1))
        task = asyncio.create_task(dialler.run())
        await until(lambda: len(failed) >= 2)
        assert {name for name, _ in failed} == {"b2"}
        assert made == []
        listening = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port)
        await until(lambda: len(made) >= 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: all(each.ended.is_set() for each in made[:-1]))
        listening.close()
        await listening.wait_closed()
        made[-1].abort()
        await until(lambda: owner.counters.open_connections == 0)

    run(scenario())


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "a\0b"])
def test_a_neighbour_at_what_is_no_address_is_told_and_tried_again(host: str) -> None:
    async def scenario() -> None:
        failed: list[tuple[str, str]] = []
        owner = BrokerNode(lone(), "b1", broker=FakeBroker())
        dialler = Dialler(
            BrokerPlace(name="b2", number=2, host=host, port=1),
            lambda: Connection(1, owner, dialled="b2"),
            context=None,
            on_failed=lambda *told: failed.append(told),
            rng=Random(1),
        )
        task = asyncio.create_task(dialler.run())
        await until(lambda: len(failed) >= 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert failed[0] == ("b2", f"{host!r} is not a valid address")

    run(scenario())


def test_who_is_called_changes_and_who_stays_is_not_called_anew() -> None:
    async def scenario() -> None:
        owner = BrokerNode(lone(), "b1", broker=FakeBroker())
        made: list[Connection] = []

        def make(name: str) -> Connection:
            made.append(Connection(len(made) + 1, owner, dialled=name))
            return made[-1]

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        listening = await asyncio.start_server(hold, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        two, three = (BrokerPlace(name=name, number=2, port=port) for name in ("b2", "b3"))
        diallers = Diallers(make, on_failed=lambda *_told: None, rng=Random(1))
        diallers.call([two], None)
        await until(lambda: len(made) == 1)
        diallers.call([two, three], None)
        await until(lambda: len(made) == 2)
        diallers.call([replace(two, host="localhost")], None)
        await until(lambda: len(made) == 3)
        assert [each.dialled for each in made] == ["b2", "b3", "b2"]
        await diallers.stop()
        for each in made:
            each.abort()
        await until(lambda: owner.counters.open_connections == 0)
        listening.close()
        await listening.wait_closed()
        assert len(asyncio.all_tasks()) == 1

    run(scenario())
