"""Members on hosts of their own: network namespaces on a bridge, made by the test; skipped where there is no root.

Loopback hides what a network shows: another interface, other addresses, copies that do not come back by themselves.
"""

from __future__ import annotations

import ast
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

TIMEOUT_S = 90
GROUPS = {"IPv4": ("239.77.3.1:7780", "239.77.3.2:7780"), "IPv6": ("[ff15::77]:7780", "[ff15::78]:7780")}
MEMBER = """
import asyncio, sys
from penstock.ajil import Aup
from penstock.live.multicast import MulticastNode

async def host(role, pairs):
    return await asyncio.gather(*(globals()[role](*pair.split(",")) for pair in pairs))

def member(name, group, control, aup):
    return MulticastNode([group], aup, name=name, control=control, interface="eth0", key=b"a key for tests")

async def receive(group, control):
    aup = Aup(limit_bytes_s=2000.0, epoch_ms=200, version=7, author="b")
    async with member("receiver", group, control, aup) as node:
        return [(await node.receive()).payload.decode() for _ in range(3)]

async def send(group, control):
    async with member("sender", group, control, Aup()) as node:
        while node.aup.version != 7:
            await asyncio.sleep(0.01)
        for word in ("one", "two", "three"):
            await node.send(group, word.encode())
        return node.aup.author

print(asyncio.run(host(sys.argv[1], sys.argv[2:])))
"""


class Lan:
    """Two hosts, a bridge between them."""

    def __init__(self, stack: ExitStack) -> None:
        mark = secrets.token_hex(3)
        self.hosts = {name: f"penstock-{mark}-{name}" for name in ("a", "b", "hub")}
        for space in self.hosts.values():
            ip("netns", "add", space)
            stack.callback(subprocess.run, ["ip", "netns", "del", space], check=False)
        hub = self.hosts["hub"]
        # A bridge that listens to who has joined what would have to be asked first: it forwards everything instead.
        ip("-n", hub, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        ip("-n", hub, "link", "set", "br0", "up")
        for number, name in enumerate(("a", "b"), start=1):
            space, port = self.hosts[name], f"port-{name}"
            ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", port, "netns", hub)
            ip("-n", hub, "link", "set", port, "master", "br0", "up")
            ip("-n", space, "addr", "add", f"198.18.200.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "-6", "addr", "add", f"fd00:77::{number}/64", "dev", "eth0", "nodad")

    def start(self, host: str, role: str) -> subprocess.Popen[str]:
        """A process on a host that sends or receives in all groups."""
        python = [sys.executable, "-c", MEMBER, role, *map(",".join, GROUPS.values())]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.hosts[host], *python],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces here: ip {' '.join(arguments)}: {done.stderr.strip()}")


@pytest.fixture
def lan() -> Iterator[Lan]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("ip (iproute2) not found")
    with ExitStack() as stack:
        yield Lan(stack)


def test_members_on_two_hosts_hear_each_other_and_the_limit_in_both_families(lan: Lan) -> None:
    receiver, sender = lan.start("b", "receive"), lan.start("a", "send")
    try:
        sent, problem = sender.communicate(timeout=TIMEOUT_S)
        assert not problem
        assert ast.literal_eval(sent) == ["b", "b"], "the limit has come from the other host"
        heard, problem = receiver.communicate(timeout=TIMEOUT_S)
        assert not problem
        assert ast.literal_eval(heard) == [["one", "two", "three"]] * 2
    finally:
        for each in (receiver, sender):
            each.kill()
            each.communicate()
