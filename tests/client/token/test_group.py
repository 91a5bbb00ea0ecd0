"""Programs as members of groups: turns, alone and over UDP; who leaves, who gives up waiting, what is counted."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from client.token.test_carrier import Listener
from client.token.test_udp import free_udp_ports, until
from penstock.client.token.group import TokenGroup
from penstock.client.token.udp import OverUdp
from penstock.model.errors import MisuseError
from penstock.session.errors import ClientClosedError
from penstock.token.tokens import Fence


def test_a_member_alone_gets_its_turns_with_growing_fencing_numbers() -> None:
    async def scenario() -> None:
        fences: list[Fence] = []
        async with TokenGroup("g", every="60 ms", about="10 ms") as group:
            async with asyncio.timeout(20):
                for _ in range(3):
                    async with group.turn() as fence:
                        fences.append(fence)
            counters = group.counters
            assert (counters.operations, counters.regenerations) == (3, 1)
            assert group.status()["members"] == 1
        assert len({fence.generation for fence in fences}) == 1
        assert all(earlier.number < later.number for earlier, later in pairwise(fences))

    asyncio.run(scenario())


def test_turns_that_nobody_waits_for_pass() -> None:
    async def scenario() -> None:
        async with TokenGroup("g", every="20 ms", about="5 ms") as group:
            await until(lambda: group.counters.idle >= 2)
            assert group.counters.operations == 0

    asyncio.run(scenario())


def test_members_over_udp_take_turns() -> None:
    async def scenario() -> None:
        names = [f"127.0.0.1:{port}" for port in free_udp_ports(4)]
        groups = [
            TokenGroup("g", every="400 ms", about="20 ms", carrier=OverUdp(name, names, key="a shared key"))
            for name in names
        ]
        taken: list[int] = []

        async def work(place: int) -> None:
            for _ in range(2):
                async with groups[place].turn():
                    taken.append(place)

        for group in groups:
            await group.open()
        async with asyncio.timeout(60):
            await asyncio.gather(*(work(place) for place in range(4)))
        assert sorted(taken) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert groups[0].status()["members"] == 4
        for group in groups:
            await group.close()

    asyncio.run(scenario())


def test_a_view_limits_whom_a_member_passes_its_token_to() -> None:
    async def scenario() -> None:
        async with TokenGroup("g", every="10 min", about="4 s", view=2.0) as group:
            group.on_members(["alone", *(f"m{number}" for number in range(99))])
            assert group._member is not None
            assert len(group._member.view.chosen) == 14
            assert group.status()["members"] == 100
        with pytest.raises(MisuseError, match="view is 0"):
            TokenGroup("g", every="10 min", about="4 s", view=0)

    asyncio.run(scenario())


def test_who_leaves_gets_no_turn() -> None:
    async def scenario() -> None:
        group = await TokenGroup("g", every="10 min", about="4 s").open()

        async def wait() -> None:
            async with group.turn():
                raise AssertionError("there was a turn")

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await group.close()
        with pytest.raises(ClientClosedError, match="left group g before its turn came"):
            await task
        assert not group.is_open

    asyncio.run(scenario())


def test_who_gives_up_waiting_does_not_keep_the_token() -> None:
    async def scenario() -> None:
        async with TokenGroup("g", every="40 ms", about="10 ms") as group:
            task = asyncio.create_task(anext(aiter(_turns(group))))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(20), group.turn() as fence:
                assert fence.number >= 1

    asyncio.run(scenario())


async def _turns(group: TokenGroup):  # type: ignore[no-untyped-def]
    async with group.turn() as fence:
        yield fence


def test_an_operation_that_fails_lets_the_token_go_on() -> None:
    async def scenario() -> None:
        async with TokenGroup("g", every="40 ms", about="10 ms") as group, asyncio.timeout(20):
            with pytest.raises(ZeroDivisionError):
                async with group.turn():
                    raise ZeroDivisionError
            async with group.turn():
                pass
            assert group.counters.operations == 2

    asyncio.run(scenario())


def test_messages_that_are_none_are_counted() -> None:
    async def scenario() -> None:
        group = TokenGroup("g", every="10 min", about="4 s")
        group.on_message("x", b"before it is open")
        async with group:
            group.on_message("x", b"nonsense")
            assert group.counters.malformed == 1

    asyncio.run(scenario())


def test_who_is_no_member_has_no_turns_and_no_counters() -> None:
    async def scenario() -> None:
        group = TokenGroup("g", every="10 min", about="4 s")
        with pytest.raises(ClientClosedError, match="not a member of group g: open it first"):
            async with group.turn():
                pass
        with pytest.raises(ClientClosedError, match="not a member"):
            _ = group.counters
        async with group:
            with pytest.raises(MisuseError, match="already a member of group g"):
                await group.open()

    asyncio.run(scenario())


def test_durations_and_names_are_checked_at_once() -> None:
    assert Listener().members == []
    with pytest.raises(MisuseError, match="every is"):
        TokenGroup("g", every="often", about="4 s")
    with pytest.raises(MisuseError, match="must grow in this order"):
        TokenGroup("g", every="1 s", about="4 s")
    with pytest.raises(MisuseError, match="group 'a b'"):
        TokenGroup("a b", every="10 s", about="4 s")
