"""``penstock multicast``: joins and sends to IP multicast groups under one limit, and sets that limit."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer

from penstock.cli.console import console, printable
from penstock.cli.limit import Alpha, Beta, Json, Policy, Rate, Settings, changes_of
from penstock.live.multicast import MulticastNode
from penstock.live.multicast.node import CONTROL_GROUP
from penstock.model.errors import MisuseError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="IP multicast between hosts under one limit (Ajil).")

_LEARN_S = 1.5
"""How long to wait for the current policy."""
_REPEAT_S = 0.3
_REPEATS = 5
_JOIN = """
Prints what arrives, one line each: group, sender and payload. Reports what it sees to the control group. The key is
read from the variable PENSTOCK_MULTICAST_KEY; all hosts need the same.

Examples:

- `penstock multicast join 239.1.2.3:5000 --interface lo`
- `penstock multicast join '[ff15::1]:5000' --control '[ff15::7]:7771' --interface eth0`
"""
_SEND = """
Sends each line of standard input, within the quota that the limit leaves.

Examples:

- `seq 1000 | penstock multicast send 239.1.2.3:5000 --interface lo`
"""
_LIMIT = """
Tells all members of the control group; `none` lifts the limit. Who joins later hears of it from them. With `--set` any
field of a policy is set: slowdown (drop or delay), limit_packets_s, mode, epoch_ms, report_fraction, priority.GROUP.

Examples:

- `penstock multicast limit 600KB --policy global --alpha .5 --beta .25 --interface lo`
"""

Group = Annotated[list[str], typer.Argument(metavar="GROUP...", help="As 239.1.2.3:5000 or [ff15::1]:5000.")]
Control = Annotated[str, typer.Option(help="The group of reports and policies.")]
Interface = Annotated[str, typer.Option(help="The network interface; the system's choice if none.")]
Name = Annotated[str, typer.Option(help="This member's name; made up if none.")]


def _key() -> bytes:
    return os.environ.get("PENSTOCK_MULTICAST_KEY", "").encode()


@app.command("join", epilog=_JOIN)
def join(
    groups: Group,
    *,
    control: Control = CONTROL_GROUP,
    interface: Interface = "",
    name: Name = "",
    count: Annotated[int, typer.Option(help="Stop after this many packets; 0 for never.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Join groups, and print what arrives."""
    node = MulticastNode(groups, name=name, control=control, key=_key(), interface=interface)
    with suppress(KeyboardInterrupt):
        asyncio.run(_join(node, count, as_json=as_json))


async def _join(node: MulticastNode, count: int, *, as_json: bool) -> None:
    async with node:
        console.note(f"joined as {node.name}")
        number = 0
        async for packet in node:
            text = packet.payload.decode(errors="replace")
            if as_json:
                shown: dict[str, Any] = {"group": packet.group, "sender": packet.sender, "payload": text}
                console.line(msgspec.json.encode(shown).decode())
            else:
                # Always one line, whatever the payload contains.
                console.line(printable(f"{packet.group} {packet.sender} {text}").replace("\n", "\\n"))
            number += 1
            if number == count:
                return


@app.command("send", epilog=_SEND)
def send(
    groups: Group,
    *,
    control: Control = CONTROL_GROUP,
    interface: Interface = "",
    name: Name = "",
    as_json: Json = False,
) -> None:
    """Send each line of standard input to groups, within the limit."""
    node = MulticastNode(groups, name=name, control=control, key=_key(), interface=interface)
    with suppress(KeyboardInterrupt):
        asyncio.run(_send(node, groups, as_json=as_json))


async def _send(node: MulticastNode, groups: list[str], *, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    async with node:
        while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
            for group in groups:
                await node.send(group, line.rstrip(b"\n"))
        while node.status()["waiting_bytes"]:
            await asyncio.sleep(0.05)
        status = node.status()
    shown = {key: status[key] for key in ("name", "policy", "version", "sent", "dropped")}
    console.line(msgspec.json.encode(shown).decode() if as_json else f"sent {status['sent']:,} packets")


@app.command("limit", epilog=_LIMIT)
def limit(
    rate: Rate,
    *,
    control: Control = CONTROL_GROUP,
    interface: Interface = "",
    policy: Policy = None,
    alpha: Alpha = None,
    beta: Beta = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Set the limit of all members, or lift it."""
    changes = changes_of(rate, settings, policy=policy, alpha=alpha, beta=beta)
    node = MulticastNode((), control=control, key=_key(), interface=interface)
    heard = asyncio.run(_limit(node, changes))
    shown = {"policy": node.aup.describe(), "version": node.aup.version, "members_heard": heard}
    if as_json:
        console.line(msgspec.json.encode(shown).decode())
    else:
        console.line(f"{shown['policy']}, version {shown['version']}; heard of {heard} members")
    if not heard:
        raise MisuseError(f"nobody was heard at {control}; is it the right group, interface and key?")


async def _limit(node: MulticastNode, changes: dict[str, Any]) -> int:
    async with node:
        await asyncio.sleep(_LEARN_S)
        node.limit(node.aup.successor(getpass.getuser(), **changes))
        for _ in range(_REPEATS):
            await asyncio.sleep(_REPEAT_S)
            node.announce()
        return node.members_heard
