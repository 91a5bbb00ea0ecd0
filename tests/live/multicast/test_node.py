"""Members of multicast groups on loopback: real sockets, in one process; waits for conditions, never for time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from forked import in_child
from penstock.ajil import Aup, Report, encode
from penstock.lab.demo_overlay import free_ports
from penstock.live.errors import ConfigError
from penstock.live.multicast import MulticastNode, Packet
from penstock.live.multicast.address import GroupAddress, interface_number, sending_socket
from penstock.live.multicast.packets import encode_packet
from penstock.model.errors import MisuseError
from penstock.system.seal import Seal

KEY = b"a key for tests"
AUP = Aup(limit_bytes_s=4_000, alpha=1, beta=1, report_fraction=1.0, epoch_ms=50, version=1, author="test")
_hosts = count(1)


class Site:
    """Groups that no other test uses."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.group = f"239.77.9.{next(_hosts)}:{port}"
        self.control = f"239.77.8.{next(_hosts)}:{port}"

    def node(self, name: str, aup: Aup = AUP, **wishes: Any) -> MulticastNode:
        wishes = {"key": KEY, **wishes}
        return MulticastNode([self.group], aup, name=name, control=self.control, interface="lo", **wishes)


def running(test: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(Site()), 60))


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_what_one_sends_others_receive_and_it_does_not() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one, site.node("n2") as two:
            assert await one.send(site.group, b"hello")
            assert await two.receive() == Packet(site.group, "n1", b"hello")
            assert one.counts["received"] == 0
            assert one.counts["sent"] == 1

    running(test)


def test_a_late_joiner_learns_the_policy() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1"), site.node("late", Aup()) as late:
            await until(lambda: late.aup == AUP)

    running(test)


def test_a_policy_that_one_sets_reaches_all() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one, site.node("n2") as two:
            newer = AUP.successor("ann", limit_bytes_s=9_000.0)
            assert one.limit(newer)
            assert not one.limit(AUP)
            await until(lambda: two.aup == newer)

    running(test)


async def surge(site: Site, aup: Aup) -> dict[str, Any]:
    """Sends far too much until it is slowed down for it."""
    async with site.node("n1", aup) as one, site.node("n2", aup):
        while not one.status()["slowed"]:
            one.send_nowait(site.group, bytes(90))
            await asyncio.sleep(0.001)
        for _ in range(200):
            one.send_nowait(site.group, bytes(90))
        return one.status()


def test_what_is_over_the_quota_waits_or_is_dropped_as_the_policy_says() -> None:
    async def test(site: Site) -> None:
        status = await surge(site, AUP)
        assert status["waiting_bytes"] > 0
        assert status["dropped"] == 0
        assert status["slowed"][0]["group"] == site.group
        status = await surge(site, AUP.successor("ann", slowdown="drop"))
        assert status["dropped"] > 0
        assert status["waiting_bytes"] == 0

    running(test)


def test_the_buffer_of_what_waits_is_bounded() -> None:
    async def test(site: Site) -> None:
        aup = Aup(limit_bytes_s=1_000, mode="hard", version=1, epoch_ms=10_000)
        async with site.node("n1", aup, buffer_bytes=1_000) as one:
            taken = [one.send_nowait(site.group, bytes(90)) for _ in range(30)]
            assert 8 <= sum(taken) <= 12
            assert one.counts["dropped"] == 30 - sum(taken)
            assert one.status()["waiting_bytes"] <= 1_100

    running(test)


def test_forged_replayed_and_malformed_control_messages_are_counted_and_ignored() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1", Aup()) as one:
            group = GroupAddress.parse(site.control)
            target = group.target(interface_number("lo"))
            with sending_socket(socket.AF_INET, "lo", hops=1) as sender:
                report = encode(Report("evil", 0, ()))
                false = Seal(b"not the key", 9, now_ms=_now_ms)
                true = Seal(KEY, 9, now_ms=_now_ms)
                datagram = true.seal(report)
                for data in (false.seal(report), datagram, datagram, true.seal(b"noise"), b"noise"):
                    sender.sendto(data, target)
            await until(lambda: one.counts["malformed"] == 2)
            assert (one.counts["forged"], one.counts["replayed"], one.counts["reports_heard"]) == (1, 1, 1)

    running(test)


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def test_data_that_is_no_packet_is_counted_and_ignored() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one:
            group = GroupAddress.parse(site.group)
            with sending_socket(socket.AF_INET, "lo", hops=1) as sender:
                sender.sendto(b"noise", group.target(interface_number("lo")))
            await until(lambda: one.counts["malformed"] == 1)

    running(test)


def test_what_waits_for_an_application_that_does_not_read_is_bounded_in_bytes() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one:
            datagram = encode_packet(b"n2", bytes(60_000))
            for _ in range(400):
                one._on_packet(site.group, datagram)
            assert one.counts["inbox_dropped"] == 400 - 16 * 1024 * 1024 // 60_000
            assert one._inbox_bytes == sum(len(packet.payload) for packet in one._inbox) <= 16 * 1024 * 1024
            await one.receive()
            assert one._inbox_bytes == sum(len(packet.payload) for packet in one._inbox)

    running(test)


def test_misuse_is_refused() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one:
            with pytest.raises(MisuseError, match="was not joined"):
                await one.send("239.77.1.9:5000", b"x")
        with pytest.raises(ConfigError, match="there is no interface"):
            async with MulticastNode([site.group], interface="nowhere"):
                pass

    running(test)
    with pytest.raises(MisuseError, match="more than 255 bytes"):
        MulticastNode([], name="x" * 256)


def test_ipv6_works_like_ipv4() -> None:
    async def test(_: Site) -> None:
        (port,) = free_ports(1)
        group, control = f"[ff11::77]:{port}", f"[ff11::78]:{port}"
        interface = _ipv6_interface()
        common: dict[str, Any] = {"control": control, "interface": interface, "key": KEY}
        async with (
            MulticastNode([group], AUP, name="n1", **common) as one,
            MulticastNode([group], name="n2", **common) as two,
        ):
            await one.send(group, b"hello")
            assert (await two.receive()).payload == b"hello"
            await until(lambda: two.aup == AUP)

    running(test)


def _ipv6_interface() -> str:
    """One that has a way to IPv6 groups; groups that begin with ff11 do not leave it."""
    for _, name in socket.if_nameindex():
        with sending_socket(socket.AF_INET6, name, hops=0) as sender:
            try:
                sender.sendto(b"", ("ff11::79", 9, 0, interface_number(name)))
            except OSError:
                continue
            return name
    pytest.skip("no interface has a way to IPv6 multicast groups")


def test_a_node_that_was_made_before_a_fork_is_another_one_in_each_child() -> None:
    node = MulticastNode(["239.77.9.1:9"], interface="lo", key=KEY)

    def identity() -> list[object]:
        return [node.name, node._node._rng.random(), node._seal.seal(b"x")]

    seen = [identity(), in_child(identity), in_child(identity)]
    for which in range(3):
        assert len({each[which] for each in seen}) == 3, which  # type: ignore[index]


def test_the_copy_of_a_node_that_runs_is_of_no_use() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one, site.node("n2") as two:

            def child() -> list[str]:
                said = []
                for use in (lambda: one.send(site.group, b"twice"), one.receive, one.__aenter__):
                    with pytest.raises(MisuseError) as caught:
                        asyncio.run(use())
                    said.append(str(caught.value))
                asyncio.run(one.__aexit__(None, None, None))
                return said

            said = in_child(child)
            assert isinstance(said, list)
            assert all("this node was opened in process" in each for each in said)
            assert await one.send(site.group, b"hello")
            assert await two.receive() == Packet(site.group, "n1", b"hello")

    running(test)
