"""The overlay of the live experiments is one that brokers understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.congestion import CongestionSettings
from penstock.lab.gryphon.live.plan import HOSTS, LINKS, PUBENDS, live_plan
from penstock.live.config import load_overlay


@pytest.mark.parametrize("control", [True, False])
@pytest.mark.parametrize("profile", ["paper", "swift"])
def test_the_file_says_how_congestion_is_controlled(profile: str, control: bool, tmp_path: Path) -> None:
    plan = live_plan(profile=profile, control=control)
    file = tmp_path / "overlay.toml"
    file.write_text(plan.toml({name: 7_000 + number for number, name in enumerate(plan.pubends)}))
    overlay = load_overlay(file)
    assert overlay.links == LINKS
    assert overlay.brokers["pb"].pubends == PUBENDS
    assert set(overlay.brokers) == {"pb", "ib", *HOSTS}
    for name in overlay.brokers:
        settings = overlay.settings_for(name)
        assert settings.congestion == CongestionSettings.of_profile(profile, pdcc=control, sdcc=control)
        assert settings.link_outbox_bytes == 2 * 1024 * 1024
