"""The overlay file of the story is one that brokers understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.story.market import FEED
from penstock.cli.story.plan import CUT, HOSTS, POWERS, PUBLISHING, THROTTLED, story_plan
from penstock.cli.story.settings import FAST, FULL, StorySettings
from penstock.live.config import load_overlay
from penstock.live.overlay import Overlay


def loaded(folder: Path, settings: StorySettings, *, ship: bool = True) -> Overlay:
    plan = story_plan(settings, 300_000.0, ship=ship)
    file = folder / "overlay.toml"
    file.write_text(plan.toml({name: 7_000 + place for place, name in enumerate(plan.pubends)}), encoding="utf-8")
    return load_overlay(file)


@pytest.mark.parametrize("settings", [FAST, FULL])
def test_brokers_understand_the_file(tmp_path: Path, settings: StorySettings) -> None:
    overlay = loaded(tmp_path, settings)
    assert list(overlay.brokers) == ["pb1", "ib1", "ib2", *HOSTS]
    assert {CUT, THROTTLED} <= set(overlay.links)
    assert len(overlay.links) == 6
    assert overlay.place_of(PUBLISHING).admin_port
    assert overlay.limit is not None
    assert overlay.limit.attribute == FEED
    assert not overlay.limit.aup.is_limited
    assert overlay.ship is not None
    assert (overlay.ship.lake, overlay.ship.when) == (tmp_path / "lake", "token")
    assert overlay.token is not None
    assert overlay.token.min_ms == settings.ship_interval_ms


def test_only_hosts_balance_themselves_and_by_their_power(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, FULL)
    balancing = {name: overlay.settings_for(name).balancing for name in overlay.brokers}
    assert [name for name, each in balancing.items() if each.is_on] == list(HOSTS)
    assert {(balancing[name].cluster, balancing[name].role) for name in HOSTS} == {("demo", "edge")}
    powers = [balancing[name].output_bandwidth / balancing["sb4"].output_bandwidth for name in HOSTS]
    assert powers == pytest.approx(list(POWERS.values()), rel=1e-3)
    busy = 300_000.0 / balancing["sb1"].output_bandwidth
    assert balancing["sb1"].local_ratio_trigger < busy < balancing["sb1"].lower_overload


def test_without_a_lake_the_token_walks_all_the_same(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, FAST, ship=False)
    assert overlay.ship is None
    assert overlay.token is not None
