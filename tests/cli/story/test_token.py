"""The chapter on the token reads the logs of brokers."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock.cli.story import token as chapter
from penstock.cli.story.token import overlapping, shipped_since, token
from penstock.lab.token.shipping import Shipment
from stages import World


def operated(broker: str, begun_ms: int, ended_ms: int) -> str:
    return f"x info    operated broker={broker} fence=1.1 begun_ms={begun_ms} ended_ms={ended_ms}\n"


def test_everybody_has_its_turn() -> None:
    world, base_ms = World(), int(time.time() * 1_000) + 1_000
    for place, name in enumerate(world.plan.pubends):
        world.logs[name] = operated(name, base_ms + 100 * place, base_ms + 100 * place + 50)
    asyncio.run(token(world.stage, world.told))
    assert world.told.as_expected
    assert world.told.facts["overlapping"] == 0
    assert len(world.told.facts["shipments"]) == 3
    assert world.told.lines[0].startswith("who shipped when: pb1 +1.0 s, sb1 +1.1 s, sb2 +1.2 s")


def test_two_at_once_and_one_without_a_turn_are_told() -> None:
    world, base_ms = World(), int(time.time() * 1_000) + 1_000
    world.logs["pb1"] = operated("pb1", base_ms, base_ms + 50)
    world.logs["sb1"] = operated("sb1", base_ms + 20, base_ms + 60)
    asyncio.run(token(world.stage, world.told))
    assert world.told.as_expected is False
    assert world.told.facts["overlapping"] == 1
    assert world.told.facts["overlap"] == pytest.approx(0.5)
    assert "within 5 s the token did not come to sb2" in world.told.lines


def test_what_was_before_does_not_count() -> None:
    world = World()
    world.logs["pb1"] = operated("pb1", 1_000, 1_050)
    assert shipped_since(world.stage, 1_001.0) == set()
    assert shipped_since(world.stage, 1_000.0) == {"pb1"}


def test_back_to_back_is_not_at_once() -> None:
    assert overlapping([Shipment("a", 0, 10), Shipment("b", 10, 20), Shipment("a", 19, 30)]) == 1


def test_without_pyarrow_nobody_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "can_ship", lambda: False)
    world = World()
    asyncio.run(token(world.stage, world.told))
    assert world.told.as_expected is None
    assert "pip install" in world.told.lines[0]
