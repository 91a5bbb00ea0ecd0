"""Attacks on broker processes, with an honest client beside each: it is served as if nobody else were there.

Nothing is judged by the clock. The longer attacks are run by ``make test-live``, all of them with their figures by
``python -m bench hostile``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from bench.hostile.arena import Arena
from bench.hostile.catalogue import ATTACKS, NOISE, STORM, Attack
from bench.hostile.fighting import fight
from bench.hostile.stage import Stage, Told
from bench.hostile.trees import Tree
from bench.hostile.wire import Peer, Rejected

from penstock.client.client import connect

if TYPE_CHECKING:
    from hostile.conftest import Arenas

LIMIT_S = 60.0
MEMORY_MIB_MAX = 300.0
SHORT = (
    "number",
    "content-type",
    "identifier",
    "forged",
    "payload",
    "long-name",
    "positions",
    "nameless",
    "drain",
    "admin",
    "takeover",
    "files",
    "escapes",
    "replay",
    "readable",
    "link-token",
    "dribble",
    "deaf",
    "empty",
    "invented",
    "ghosts",
    "system",
    "rogue-durable",
    "rogue-silence",
    "rogue-hosts",
    "rogue-answers",
    "stomp-heads",
    "stomp-dribble",
    "stomp-receipts",
    "stomp-churn",
    "web-pings",
    NOISE,
)
UNSTARTABLE = ("no-link-token", "claim")
LONG = (
    "body",
    "idle",
    "handshakes",
    "credit",
    "hold",
    "heartbeat",
    "subscriptions",
    "patterns",
    "quota",
    "names",
    "rogue",
    "slow-line",
    "status",
    "selectors",
    "past",
    "rogue-pubends",
    "rogue-filter",
    "stomp-idle",
    "stomp-unsaid",
    "stomp-bodies",
    "stomp-transactions",
    "stomp-subscriptions",
    "stomp-names",
    "stomp-unread",
    "stomp-unacknowledged",
    "stomp-bombs",
    "web-handshakes",
    "web-messages",
    "web-ends",
    STORM,
)
STALLING = ("handshakes", "subscriptions", "quota", "rogue", "selectors")
"""Attacks that still keep a broker busy for seconds: on a slow machine the honest may have to connect anew."""


@pytest.mark.parametrize("name", SHORT)
def test_an_attack_achieves_nothing_and_nobody_notices(name: str, arenas: Arenas) -> None:
    attack = ATTACKS[name]
    with arenas.use(attack.plan) as arena:
        assert arena.refusal == ""
        told = asyncio.run(beside_the_honest(arena, attack))
        assert not told.has_succeeded, told.text
        assert arena.exits() == {}
        assert arena.memory.peak < MEMORY_MIB_MAX


@pytest.mark.parametrize("name", UNSTARTABLE)
def test_an_overlay_that_looks_closed_and_is_not_does_not_start(name: str, arenas: Arenas) -> None:
    with arenas.use(ATTACKS[name].plan) as arena:
        assert arena.exits() == {"b1": 2}
        assert str(arena.file) in arena.refusal


@pytest.mark.live
@pytest.mark.parametrize("name", LONG)
def test_a_long_attack_achieves_nothing_and_nobody_notices(name: str) -> None:
    outcome = fight(Tree("this"), name, seconds=5.0, tail_s=LIMIT_S)
    assert outcome.exits == {}, outcome.text()
    assert not outcome.has_succeeded, outcome.text()
    assert outcome.peak_mib < MEMORY_MIB_MAX
    if (seen := outcome.honest) is not None:
        assert seen.error == ""
        assert seen.received == seen.published > 0
        assert name in STALLING or seen.reconnects == 0


def test_every_attack_is_tried() -> None:
    # How fast tokens can be guessed is a matter of time, which no test judges.
    assert {*SHORT, *UNSTARTABLE, *LONG} == set(ATTACKS) - {"tokens"}


async def beside_the_honest(arena: Arena, attack: Attack) -> Told:
    """Attack while an honest client publishes and reads, one message after the other, on one connection."""
    stage = Stage(arena.ports, str(arena.folder), arena.pids, {"b1": str(arena.folder / "b1.log")}, 1.0, 2_000)
    async with asyncio.timeout(LIMIT_S):
        if attack.rate_s == 0:
            return await attacked(attack, stage)
        async with connect(arena.url("b1"), name="honest", token=attack.token) as client:
            subscription = await client.subscribe("honest = TRUE AND number >= 0").ready()
            attacking = asyncio.create_task(attacked(attack, stage))
            number, is_over = 0, False
            while not is_over:
                # Once more after the attack is over.
                is_over = attacking.done()
                await client.publish({"honest": True, "number": number})
                received = await subscription.get()
                assert (received.attributes["number"], received.payload) == (number, b"")
                number += 1
                await asyncio.sleep(0.01)
            assert client.counters.reconnects == 0
            return attacking.result()


async def attacked(attack: Attack, stage: Stage) -> Told:
    try:
        return await attack.run(stage)
    except Rejected as rejected:
        return Told(f"refused: {rejected}")
    finally:
        await Peer.leave()
