"""Waiting for a condition, with a limit."""

from __future__ import annotations

import asyncio

import pytest

from penstock.lab.demo_overlay import BrokerProcessError
from stages import World


def test_a_condition_ends_the_wait() -> None:
    world = World()
    assert asyncio.run(world.stage.until(lambda: world.now_s >= 2.0, 10.0))
    assert world.now_s == 2.0


def test_a_limit_ends_it_as_well() -> None:
    world = World()
    assert not asyncio.run(world.stage.until(lambda: False, 3.0))
    assert world.now_s == 3.0
    asyncio.run(world.stage.view())
    assert world.now_s == 3.0 + world.stage.settings.view_s


def test_a_broker_that_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def check() -> None:
        raise BrokerProcessError("broker sb1 ended by itself")

    monkeypatch.setattr(world, "check", check)
    with pytest.raises(BrokerProcessError, match="sb1"):
        asyncio.run(world.stage.until(lambda: False, 3.0))


def test_what_is_said_is_told_and_shown() -> None:
    world = World()
    world.stage.say(world.told, "it [bold] rains")
    assert world.told.lines == ["it [bold] rains"]
    assert "it [bold] rains" in world.said.getvalue()


def test_the_lake_is_beside_the_file() -> None:
    stage = World().stage
    assert stage.lake == stage.file.parent / "lake"
