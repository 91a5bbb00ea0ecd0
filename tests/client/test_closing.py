"""Closing and opening, cancelled at every step: nothing may be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from client.scripted import ScriptedBroker, run, until
from penstock.client.client import Client, connect
from penstock.client.closing import finished
from penstock.protocol.frames import Goodbye, Publish
from penstock.session.errors import ClientClosedError
from penstock.session.settings import ClientSettings

STEPS_MAX = 500


async def cancelled_after(steps: int, work: Callable[[], Awaitable[object]], *, again: int = 0) -> bool:
    """Runs something and cancels it after so many turns of the loop, maybe again later; whether it had ended before."""

    async def body() -> None:
        await work()

    task = asyncio.create_task(body())
    for _ in range(steps + 1):
        if task.done():
            break
        await asyncio.sleep(0)
    has_ended = task.done()
    task.cancel()
    for _ in range(again):
        await asyncio.sleep(0)
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return has_ended


def own_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "penstock" in task.get_name()]


def is_cut(client: Client) -> bool:
    return client._shell.is_idle


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("again", [0, 1, 3])
def test_a_close_that_is_cancelled_at_any_step_leaves_nothing_behind(again: int, *, flush: bool) -> None:
    async def attempt(steps: int) -> bool:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            await client.publish({"n": 1})
            has_ended = await cancelled_after(steps, lambda: client.close(flush=flush), again=again)
            assert is_cut(client)
            assert own_tasks() == []
            assert isinstance(client.end, ClientClosedError)
            await client.close()
            await until(lambda: broker.peer.is_gone)
            return has_ended

    async def test() -> None:
        for steps in range(STEPS_MAX):
            if await attempt(steps):
                return
        pytest.fail("it never ended")

    run(test())


def test_an_open_that_is_cancelled_at_any_step_leaves_nothing_behind() -> None:
    async def attempt(steps: int) -> bool:
        async with ScriptedBroker() as broker:
            client = connect(broker.address)
            has_ended = await cancelled_after(steps, client.open)
            if has_ended:
                await client.close()
            # Connections are accepted in their order: behind this one, the broker knows the first one if there is any.
            async with connect(broker.address):
                pass
            await until(lambda: all(peer.is_gone for peer in broker.peers))
            assert is_cut(client)
            assert own_tasks() == []
            assert isinstance(client.end, ClientClosedError)
            return has_ended

    async def test() -> None:
        for steps in range(STEPS_MAX):
            if await attempt(steps):
                return
        pytest.fail("it never ended")

    run(test())


def test_a_second_close_waits_for_the_first() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            first = asyncio.create_task(client.close())
            second = asyncio.create_task(client.close())
            await second
            assert is_cut(client)
            await first
            assert len(broker.peer.of(Goodbye)) == 1

    run(test())


def test_a_second_close_does_not_claim_what_a_cancelled_one_could_not_flush() -> None:
    async def test() -> None:
        settings = ClientSettings(close_ms=60_000)
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=settings).open()
            await client.publish({"n": 1})
            closing = asyncio.create_task(client.close())
            await until(lambda: len(broker.peer.of(Publish)) == 2)
            closing.cancel()
            with pytest.raises(ClientClosedError):
                await client.close()
            assert is_cut(client)
            with pytest.raises(asyncio.CancelledError):
                await closing
            await client.close()

    run(test())


def test_a_broker_that_takes_nothing_does_not_hold_up_who_gives_up() -> None:
    async def test() -> None:
        settings = ClientSettings(close_ms=60_000)
        async with ScriptedBroker() as broker:
            client = await connect(broker.address, settings=settings).open()
            transport = broker.peer.transport
            connection = client._shell.connection
            assert transport is not None
            assert connection is not None
            assert connection._transport is not None
            transport.pause_reading()
            connection._transport.write(bytes(50_000_000))
            closing = asyncio.create_task(client.close())
            await until(lambda: client.end is not None)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert is_cut(client)

    run(test())


def test_whoever_waits_is_cancelled_when_the_task_has_ended_and_not_before() -> None:
    async def test() -> None:
        may_end, hurried = asyncio.Event(), []
        task = asyncio.create_task(may_end.wait())
        waiting = asyncio.create_task(finished(task, hurry=lambda: hurried.append(1)))
        await asyncio.sleep(0)
        for count in (1, 2):
            waiting.cancel()
            await until(lambda count=count: len(hurried) == count)  # type: ignore[misc]
            assert not waiting.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(test())


def test_what_the_task_raised_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def test() -> None:
        with pytest.raises(ValueError, match="broken"):
            await finished(asyncio.create_task(fail()), hurry=lambda: None)

    run(test())
