"""Chapter 1: all subscribers join one broker, and balancing spreads them by the power of brokers ([PADRES])."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final

from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import HOSTS, JOINED, POWERS
from penstock.cli.story.stage import Stage
from penstock.client.client import Client, connect
from penstock.session.errors import ClientError

__all__ = ["spread_of", "spreading"]

_SPREAD_MAX: Final = 0.15
"""The largest difference of loads that counts as balanced: a little above what triggers a session."""
_ASK_S: Final = 0.5


async def spreading(stage: Stage, told: Told) -> None:
    """Watch the subscribers spread."""
    before, limit_s = stage.crowd.clients_by_broker(), stage.settings.spreading_s
    stage.say(told, f"all {before.total()} subscribers are at {JOINED}; powers: {_shown(POWERS)}")
    loads: dict[str, float] = {}
    asking = asyncio.create_task(_ask(stage, loads))
    try:
        is_spread = await stage.until(lambda: spread_of(stage.crowd.clients_by_broker(), loads), limit_s)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    after = stage.crowd.clients_by_broker()
    moves = stage.crowd.moves
    shown = {name: f"{load:.2f}" for name, load in loads.items()}
    stage.say(told, f"clients per broker: {_shown(after)}; {moves} moves, no application had to do anything")
    stage.say(told, f"load (share of what each can send): {_shown(shown)}")
    if not is_spread:
        stage.say(told, f"that is not balanced after {limit_s:.0f} s; brokers go on with it")
    told.as_expected = is_spread
    told.facts = {"clients": dict(after), "loads": dict(loads), "moves": moves}


def spread_of(clients: Mapping[str, int], loads: Mapping[str, float]) -> bool:
    """Whether every host has subscribers, and all are about equally busy."""
    return (
        all(clients.get(name, 0) for name in HOSTS)
        and all(name in loads for name in HOSTS)
        and max(loads.values()) - min(loads.values()) <= _SPREAD_MAX
    )


async def _ask(stage: Stage, loads: dict[str, float]) -> None:
    """Poll the hosts for their loads."""
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        for name in HOSTS:
            clients[name] = await stack.enter_async_context(connect(stage.overlay.brokers.url(name)))
        while True:
            for name, client in clients.items():
                with suppress(ClientError):
                    found = (await client.status()).balancing
                    if found is not None:
                        loads[name] = found.output
            await asyncio.sleep(_ASK_S)


def _shown(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {values.get(name, 0)}" for name in HOSTS)
