"""Blows are dealt at their time, one at a time to each target, and all is repaired in the end."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.lab.delivery.kill9.harm import Harm
from penstock.lab.delivery.kill9.plan import Blow
from penstock.lab.delivery.kill9.recovery import Recoveries
from penstock.system.loop import run

LINK = ("sb1", "ib1")


class Target:
    """An overlay and a link at once, which write down what is done to them."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        return lambda *names: self.story.append(" ".join([verb, *names]))


def struck(*blows: Blow) -> tuple[list[str], Harm]:
    target = Target()
    harm = Harm(target, {LINK: target}, Recoveries())  # type: ignore[arg-type,dict-item]

    async def scenario() -> None:
        async with asyncio.timeout(60):
            await harm.strike_all(blows)

    run(scenario())
    return target.story, harm


def test_a_killed_broker_is_started_and_a_stopped_one_goes_on() -> None:
    assert struck(Blow(0.0, "kill", "pb1", 0.0))[0] == ["kill pb1", "start pb1"]
    assert struck(Blow(0.0, "stop", "pb1", 0.0))[0] == ["pause pb1", "resume pb1"]


def test_a_link_is_cut_stalled_or_both() -> None:
    assert struck(Blow(0.0, "cut", LINK, 0.0))[0] == ["cut", "restore"]
    assert struck(Blow(0.0, "stall", LINK, 0.0))[0] == ["stall", "restore"]
    assert struck(Blow(0.0, "silence", LINK, 0.0))[0] == ["stall", "cut", "restore"]


def test_what_is_broken_is_repaired_before_it_is_struck_again() -> None:
    story, harm = struck(Blow(0.0, "kill", "pb1", 0.02), Blow(0.0, "stop", "pb1", 0.0), Blow(0.0, "kill", "sb1", 0.0))
    assert [each for each in story if "pb1" in each] == ["kill pb1", "start pb1", "pause pb1", "resume pb1"]
    assert (harm.kills, harm.stops, harm.cuts) == (2, 1, 0)
