"""The chapter on links, with rates that react or do not."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cli.story.links import links
from stages import World, seat


def test_rates_that_fall_and_recover_are_as_expected() -> None:
    world = World().pass_time(3.0)
    asyncio.run(links(world.stage, world.told))
    assert world.told.as_expected
    # 40 KB/s were carried, a quarter is left.
    assert world.done == ["limit sb1 10000", "limit sb1 0", "cut ib2", "restore ib2"]
    assert world.told.facts["throttle"]["low"] < 0.7 * world.told.facts["throttle"]["usual"]
    assert world.told.facts["cut"]["low"] < 0.05 * world.told.facts["cut"]["usual"]


def test_rates_that_do_not_fall_are_told_and_the_links_are_mended() -> None:
    world = World()
    world.reacts = False
    asyncio.run(links(world.pass_time(3.0).stage, world.told))
    assert world.told.as_expected is False
    assert sum("did not fall within 6 s" in line for line in world.told.lines) == 2
    assert world.done[-1] == "restore ib2"


def test_a_rate_that_does_not_come_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().pass_time(3.0)
    limits = world.limits
    monkeypatch.setattr(world, "limit", lambda link, bytes_s: limits.update({link: max(bytes_s, 1.0)}))
    asyncio.run(links(world.stage, world.told))
    assert world.told.as_expected is False
    assert world.told.facts["cut"] | {"recovered": True} == world.told.facts["cut"]
    assert not world.told.facts["throttle"]["recovered"]
    assert any("was not back within 6 s" in line for line in world.told.lines)


def test_nobody_behind_the_link_is_told() -> None:
    world = World()
    for member in world.crowd.members:
        seat(member, "sb1")
    world.cuts.add(("pb1", "ib2"))
    asyncio.run(links(world.pass_time(3.0).stage, world.told))
    assert world.told.as_expected is False
    assert any("nobody is behind" in line for line in world.told.lines)
