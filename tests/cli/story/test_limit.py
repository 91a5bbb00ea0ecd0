"""The chapter on the limit: set, held, lifted, and told honestly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from penstock.ajil import Aup
from penstock.cli.admin import Answer
from penstock.cli.story import limit as chapter
from penstock.cli.story.limit import LimitError, limit
from stages import World


class Admin:
    """Stands for the admin page of the broker."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, *, obeyed: bool = True) -> None:
        self.world, self.obeyed = world, obeyed
        self.policies: list[Aup] = []
        self.result = "applied"
        overlay = SimpleNamespace(brokers={"pb1": "place"}, limit=None)
        monkeypatch.setattr(chapter, "load_overlay", lambda _file: overlay)
        monkeypatch.setattr(chapter, "ask_all", self.ask)

    def ask(self, _overlay: Any, places: list[str], method: str, path: str, query: Mapping[str, str]) -> list[Answer]:
        assert (places, path) == (["place"], "/limit")
        if method == "POST":
            aup = Aup(**msgspec.json.decode(query["aup"]))
            self.policies.append(aup)
            limited = aup.limit_packets_s is not None and self.obeyed
            self.world.published_share = (aup.limit_packets_s or 0.0) / 100.0 if limited else 1.0
        version = self.policies[-1].version if self.policies else 0
        return [Answer("pb1", self.result if method == "POST" else "unchanged", "", {"limit": {"version": version}})]


def test_a_limit_is_held_and_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().pass_time(3.0)
    admin = Admin(world, monkeypatch)
    asyncio.run(limit(world.stage, world.told))
    assert world.told.as_expected
    assert [each.limit_packets_s for each in admin.policies] == [pytest.approx(50.0, abs=2.0), None]
    assert [each.version for each in admin.policies] == [1, 2]
    assert world.told.facts["low"] == pytest.approx(50.0, abs=4.0)
    assert set(world.told.facts["feeds_under"]) == {"gold", "silver", "bronze", "iron"}


def test_a_limit_that_nobody_holds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().pass_time(3.0)
    Admin(world, monkeypatch, obeyed=False)
    asyncio.run(limit(world.stage, world.told))
    assert world.told.as_expected is False
    assert any("was not held within 6 s" in line for line in world.told.lines)


def test_a_broker_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().pass_time(3.0)
    Admin(world, monkeypatch).result = "refused"
    with pytest.raises(LimitError, match="pb1 did not take the limit: refused"):
        asyncio.run(limit(world.stage, world.told))
