"""Members that know each other by addresses: datagrams of the group get through, others are refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from client.token.test_carrier import Listener
from penstock.client.token.udp import OverUdp
from penstock.model.errors import MisuseError
from penstock.session.errors import ClientError


def free_udp_ports(count: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


def pair(
    keys: tuple[str, str], then: Callable[[OverUdp, OverUdp, Listener], Awaitable[None]], groups: str = "gg"
) -> None:
    async def scenario() -> None:
        names = [f"127.0.0.1:{port}" for port in free_udp_ports(2)]
        one, other = (OverUdp(name, names, key=key) for name, key in zip(names, keys, strict=True))
        listener = Listener()
        await one.open(groups[0], Listener())
        await other.open(groups[1], listener)
        try:
            await then(one, other, listener)
        finally:
            await one.close()
            await other.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("key", ["", "a shared key"])
def test_a_message_reaches_the_one_it_is_for(key: str) -> None:
    async def then(one: OverUdp, other: OverUdp, listener: Listener) -> None:
        assert sorted(listener.members) == sorted([one.name, other.name])
        one.send(other.name, b"hello")
        await until(lambda: bool(listener.messages))
        assert listener.messages == [(one.name, b"hello")]
        one.send("127.0.0.1:1", b"to nobody that is known")

    pair((key, key), then)


@pytest.mark.parametrize(
    ("keys", "groups"),
    [
        (("the right key", "the wrong key"), "gg"),
        (("", "the right key"), "gg"),
        (("the right key", ""), "gg"),
        (("", ""), "gh"),
    ],
)
def test_a_message_with_another_key_or_of_another_group_is_refused(keys: tuple[str, str], groups: str) -> None:
    async def then(one: OverUdp, other: OverUdp, listener: Listener) -> None:
        one.send(other.name, b"hello")
        await until(lambda: other.refused == 1)
        assert listener.messages == []

    pair(keys, then, groups)


def test_a_replayed_datagram_is_refused() -> None:
    async def then(one: OverUdp, other: OverUdp, listener: Listener) -> None:
        heard: list[bytes] = []
        hand_over = other.on_datagram

        def overhear(data: bytes) -> None:
            heard.append(data)
            hand_over(data)

        other.on_datagram = overhear  # type: ignore[method-assign]
        one.send(other.name, b"hello")
        await until(lambda: bool(listener.messages))
        for _ in range(3):
            hand_over(heard[0])
        assert (other.refused, listener.messages) == (3, [(one.name, b"hello")])

    pair(("a shared key", "a shared key"), then)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(MisuseError, match="the key has 6 bytes"):
        OverUdp("127.0.0.1:9000", [], key="secret")


def test_nonsense_is_refused() -> None:
    async def then(_one: OverUdp, other: OverUdp, listener: Listener) -> None:
        for data in (b"", b"nonsense", b"\x94\xa1g\xa1\xff\xa1x\xa1y", b"x" * 10_000):
            other.on_datagram(data)
        assert (other.refused, listener.messages) == (4, [])

    pair(("", ""), then)


def test_an_address_that_is_taken_is_said() -> None:
    async def scenario() -> None:
        (port,) = free_udp_ports(1)
        one, other = OverUdp(f"127.0.0.1:{port}", []), OverUdp(f"127.0.0.1:{port}", [])
        await one.open("g", Listener())
        with pytest.raises(ClientError, match="cannot listen at"):
            await other.open("g", Listener())
        await one.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:x", "host:70000", ":9000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(MisuseError, match="is not a member address"):
        OverUdp(address, [])
